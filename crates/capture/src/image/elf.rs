//! How long an ELF image is: programs pass no size.

const MAGIC: [u8; 4] = *b"\x7fELF";
/// Bytes of the header of a file for 64 bits.
const HEADER: usize = 64;
/// A section that takes no bytes of the file.
const NOBITS: u32 = 8;
/// Larger images are not machine code that anybody passes.
const MOST: u64 = 1 << 30;

/// The bytes of an ELF image; nothing for another image.
///
/// # Safety
/// `image` is null, or starts with four readable bytes, or with one that is no part of the magic number. An ELF image is
/// whole.
pub unsafe fn image<'a>(image: *const u8) -> Option<&'a [u8]> {
    // SAFETY: bytes are read one by one, and no further than they agree with the magic number.
    let is_elf = !image.is_null() && (0..4).all(|i| unsafe { image.add(i).read() } == MAGIC[i]);
    if !is_elf {
        return None;
    }
    // SAFETY: an ELF file for 64 bits has a header of that size.
    let header = unsafe { std::slice::from_raw_parts(image, HEADER) };
    let (sections, size, count) = (word(header, 40), half(header, 58), half(header, 60));
    let end = sections.checked_add(size.checked_mul(count)?)?.max(segments_end(header)?);
    if end > MOST || size != 64 {
        return None;
    }
    // SAFETY: the table of sections lies in the file, and the header says where it ends.
    let known = unsafe { std::slice::from_raw_parts(image, end as usize) };
    let table = known.get(sections as usize..)?;
    let ends = table.chunks_exact(64).take(count as usize).map(section_end);
    let whole = ends.max().unwrap_or(0).max(end);
    // SAFETY: no section of a file reaches beyond its end.
    (whole <= MOST).then(|| unsafe { std::slice::from_raw_parts(image, whole as usize) })
}

fn segments_end(header: &[u8]) -> Option<u64> {
    word(header, 32).checked_add(half(header, 54).checked_mul(half(header, 56))?)
}

fn section_end(entry: &[u8]) -> u64 {
    let kind = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
    match kind {
        NOBITS => 0,
        _ => word(entry, 24).saturating_add(word(entry, 32)),
    }
}

fn half(bytes: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    (0..4).map(|i| half(bytes, at + 2 * i) << (16 * i)).sum()
}

#[cfg(test)]
pub mod tests {
    /// An ELF file with a section of some bytes in front of the table of sections, and one of no bytes.
    pub fn cubin(code: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[..5].copy_from_slice(b"\x7fELF\x02");
        file.extend_from_slice(code);
        let sections = file.len() as u64;
        file[40..48].copy_from_slice(&sections.to_le_bytes());
        (file[58], file[60]) = (64, 2);
        let mut table = [0u8; 128];
        table[4] = 1;
        table[24..32].copy_from_slice(&64u64.to_le_bytes());
        table[32..40].copy_from_slice(&(code.len() as u64).to_le_bytes());
        table[64 + 4] = 8;
        table[64 + 32..64 + 40].copy_from_slice(&u64::MAX.to_le_bytes());
        file.extend_from_slice(&table);
        file
    }

    #[test]
    fn an_image_is_as_long_as_its_sections() {
        let file = cubin(b"machine code");
        let mut longer = file.clone();
        longer.extend_from_slice(b"something else");
        // SAFETY: whole images, and text.
        unsafe {
            assert_eq!(super::image(longer.as_ptr()), Some(&file[..]));
            assert_eq!(super::image(c".version 8.7".as_ptr().cast()), None);
            assert_eq!(super::image(std::ptr::null()), None);
        }
    }
}
