//! Fat binaries: several images for several architectures in one.
//!
//! | byte | of the header | of an entry |
//! |---|---|---|
//! | 0 | magic number (4) | kind (2): 1 is PTX, 2 machine code |
//! | 4 | version (2), header's size (2) | header's size (4) |
//! | 8 | size of all entries (8) | size of what follows the header (8) |
//! | 16 | | bytes of compressed data (4) |
//! | 28 | | architecture (4) |
//! | 40 | | flags (8): 0x2000 is LZ4, 0x8000 zstd |
//! | 56 | | bytes when decompressed (8) |

use crate::image::{MACHINE_CODE, Reason, Refusal, suits, target_of};
use crate::{lz4, zstd};

/// The structure that the compiler puts around a fat binary.
pub const WRAPPER: u32 = 0x4662_43B1;
/// A fat binary itself.
pub const HEADER: u32 = 0xBA55_ED50;

const PTX: u16 = 1;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;

/// # Safety
/// `image` is a wrapper: magic number, version, and the address of a fat binary.
pub unsafe fn ptx_of_wrapper(image: *const u8, sm: u32) -> Result<String, Refusal> {
    // SAFETY: the caller vouches for the structure.
    let (version, inner) = unsafe {
        (
            image.add(4).cast::<u32>().read_unaligned(),
            image.add(8).cast::<*const u8>().read_unaligned(),
        )
    };
    if version != 1 || inner.is_null() {
        let text = format!(
            "a fat binary of version {version}: relocatable device code is not linked here"
        );
        return Err(Refusal::new(Reason::NoPtx, text));
    }
    // SAFETY: as above.
    match unsafe { inner.cast::<u32>().read_unaligned() } {
        // SAFETY: as above.
        HEADER => unsafe { ptx_of(inner, sm) },
        _ => Err(Refusal::new(Reason::Invalid, "a wrapper without a fat binary")),
    }
}

/// # Safety
/// `image` is a fat binary whose header says how long it is.
pub unsafe fn ptx_of(image: *const u8, sm: u32) -> Result<String, Refusal> {
    // SAFETY: the caller vouches for the header's 16 bytes.
    let header = unsafe { std::slice::from_raw_parts(image, 16) };
    let (start, bytes) = (half(header, 6) as usize, word(header, 8) as usize);
    // SAFETY: the header says that as many bytes follow.
    let entries = unsafe { std::slice::from_raw_parts(image.add(start), bytes) };
    best_ptx(entries, sm)
}

/// The PTX of the highest architecture that suits the device.
fn best_ptx(mut entries: &[u8], sm: u32) -> Result<String, Refusal> {
    let mut best: Option<(u32, String)> = None;
    let mut refused = Refusal::new(Reason::NoPtx, MACHINE_CODE);
    while let Some((entry, rest)) = Entry::split(entries) {
        entries = rest;
        if entry.kind != PTX {
            continue;
        }
        match entry.text() {
            Ok(text) => match target_of(&text).and_then(|target| suits(target, sm)) {
                Some(number) if best.as_ref().is_none_or(|(other, _)| *other < number) => {
                    best = Some((number, text));
                }
                Some(_) => {}
                None => {
                    let target = target_of(&text).unwrap_or("none");
                    refused.text = format!("the PTX is for {target}, the device is sm_{sm}");
                }
            },
            Err(why) => refused.text = why,
        }
    }
    best.map(|(_, text)| text).ok_or(refused)
}

/// One image.
struct Entry<'a> {
    kind: u16,
    flags: u64,
    decompressed: usize,
    data: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The first entry and those behind it.
    fn split(bytes: &'a [u8]) -> Option<(Entry<'a>, &'a [u8])> {
        let header = bytes.get(..64)?;
        let (start, size) = (single(header, 4) as usize, word(header, 8) as usize);
        let (all, rest) = (bytes.get(start..)?.get(..size)?, bytes.get(start + size..)?);
        let (flags, compressed) = (word(header, 40), single(header, 16) as usize);
        let is_compressed = flags & (LZ4 | ZSTD) != 0;
        let data = if is_compressed { all.get(..compressed)? } else { all };
        let decompressed = word(header, 56) as usize;
        Some((Entry { kind: half(header, 0), flags, decompressed, data }, rest))
    }

    fn text(&self) -> Result<String, String> {
        let bytes = match self.flags {
            flags if flags & LZ4 != 0 => lz4::decompress(self.data, self.decompressed)
                .ok_or("the fat binary's LZ4 data are damaged")?,
            flags if flags & ZSTD != 0 => zstd::decompress(self.data, self.decompressed)
                .ok_or("the fat binary's zstd data are damaged")?,
            _ => self.data.to_vec(),
        };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8(bytes[..end].to_vec()).map_err(|_| "the PTX is not text".into())
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn single(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(single(bytes, at)) | u64::from(single(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u16, flags: u64, data: &[u8], decompressed: usize) -> Vec<u8> {
        let padded = data.len().next_multiple_of(8);
        let mut bytes = vec![0; 64];
        bytes[0..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&64u32.to_le_bytes());
        bytes[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        bytes[16..20].copy_from_slice(&(data.len() as u32).to_le_bytes());
        bytes[40..48].copy_from_slice(&flags.to_le_bytes());
        bytes[56..64].copy_from_slice(&(decompressed as u64).to_le_bytes());
        bytes.extend(data);
        bytes.resize(64 + padded, 0);
        bytes
    }

    fn image(entries: &[Vec<u8>]) -> Vec<u8> {
        let all = entries.concat();
        let mut bytes = HEADER.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((all.len() as u64).to_le_bytes());
        bytes.extend(all);
        bytes
    }

    fn chosen(entries: &[Vec<u8>], sm: u32) -> Result<String, Refusal> {
        // SAFETY: an image that was just made.
        unsafe { ptx_of(image(entries).as_ptr(), sm) }
    }

    #[test]
    fn the_highest_ptx_that_fits_is_taken() {
        let texts = [".target sm_80\n", ".target sm_90a\n", ".target sm_100a\n"];
        let mut entries: Vec<Vec<u8>> =
            texts.iter().map(|text| entry(PTX, 0, text.as_bytes(), 0)).collect();
        entries.insert(0, entry(2, 0, b"\x7fELF", 0));
        assert_eq!(chosen(&entries, 90).unwrap(), texts[1]);
        assert_eq!(chosen(&entries, 100).unwrap(), texts[2]);
        assert_eq!(chosen(&entries[..1], 90).unwrap_err().text, MACHINE_CODE);
        let refusal = chosen(&entries[3..], 90).unwrap_err();
        assert_eq!(refusal.text, "the PTX is for sm_100a, the device is sm_90");
    }

    #[test]
    fn compressed_ptx_is_read_through_the_wrapper() {
        // ".target sm_90\n" as literals of one LZ4 sequence.
        let text = b".target sm_90\n";
        let mut data = vec![(text.len() as u8) << 4];
        data.extend(text);
        let inner = image(&[entry(PTX, LZ4, &data, text.len())]);
        let mut wrapper = WRAPPER.to_le_bytes().to_vec();
        wrapper.extend(1u32.to_le_bytes());
        wrapper.extend((inner.as_ptr().expose_provenance() as u64).to_le_bytes());
        // SAFETY: the wrapper and the image were just made.
        let found = unsafe { ptx_of_wrapper(wrapper.as_ptr(), 90) };
        assert_eq!(found.unwrap().as_bytes(), text);
        let zstd = chosen(&[entry(PTX, ZSTD, &data, text.len())], 90).unwrap_err();
        assert_eq!(zstd.text, "the fat binary's zstd data are damaged");
        let frame = zstd::tests::frame(text);
        assert_eq!(chosen(&[entry(PTX, ZSTD, &frame, text.len())], 90).unwrap().as_bytes(), text);
    }
}
