//! `libcudart.so`, `libcublas.so` and `libcurand.so`, as the loader wants them.
//!
//! A program that was linked with one of NVIDIA's libraries asks for a file of its name, and in it for a version of the
//! same name. The functions themselves are in the stand-in, whose symbols have no versions, so that they suit both. A file
//! here is therefore only a name, a version, and the demand for `libcuda.so.1`: an ELF library without code.

/// Files that programs ask for: of the runtime, of products and of random numbers, by the releases of CUDA 12 and 13.
pub const NAMES: [&str; 7] = [
    "libcudart.so.12",
    "libcudart.so.13",
    "libcublas.so.12",
    "libcublas.so.13",
    "libcublasLt.so.12",
    "libcublasLt.so.13",
    "libcurand.so.10",
];

const DRIVER: &str = "libcuda.so.1";

/// Where the loader puts the first byte: addresses in the file are offsets.
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SEGMENTS: u64 = 3;

/// ELF's number of this machine.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// The file of a name.
pub fn file(name: &str) -> Vec<u8> {
    let (strings, [own, driver]) = strings([name, DRIVER]);
    let version = versions(name, own);
    let symbols = [0u8; 24];
    // A hash table with one bucket and the symbol that every table begins with.
    let hash: Vec<u8> = [1u32, 1, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let symbol_versions = [0u8; 2];

    let mut body = Body::default();
    let strings_at = body.add(&strings);
    let symbols_at = body.add(&symbols);
    let hash_at = body.add(&hash);
    let version_at = body.add(&version);
    let symbol_versions_at = body.add(&symbol_versions);
    // Tags of the dynamic section, as the System V ABI and its GNU extensions number them.
    let dynamic: Vec<u8> = [
        (1, driver),
        (14, own),
        (4, hash_at),
        (5, strings_at),
        (10, strings.len() as u64),
        (6, symbols_at),
        (11, symbols.len() as u64),
        (0x6fff_fff0, symbol_versions_at),
        (0x6fff_fffc, version_at),
        (0x6fff_fffd, 2),
        (0, 0),
    ]
    .iter()
    .flat_map(|(tag, value): &(u64, u64)| [tag.to_le_bytes(), value.to_le_bytes()].concat())
    .collect();
    let dynamic_at = body.add(&dynamic);
    [header(), segments(body.end(), dynamic_at, dynamic.len() as u64), body.bytes].concat()
}

/// What follows the headers.
#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
}

impl Body {
    /// Where the next part begins.
    fn end(&self) -> u64 {
        HEADER + SEGMENTS * SEGMENT + self.bytes.len() as u64
    }

    /// Adds a part, padded for the next; its offset in the file.
    fn add(&mut self, part: &[u8]) -> u64 {
        let start = self.end();
        self.bytes.extend(part);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        start
    }
}

/// A table of strings, and where each begins.
fn strings<const N: usize>(all: [&str; N]) -> (Vec<u8>, [u64; N]) {
    let mut table = vec![0];
    let places = all.map(|text| {
        let place = table.len() as u64;
        table.extend(text.as_bytes());
        table.push(0);
        place
    });
    (table, places)
}

/// Definitions of versions: the file itself, and the one that programs ask for. Both have the file's name.
fn versions(name: &str, string: u64) -> Vec<u8> {
    let definition = |flags: u16, index: u16, next: u32| {
        let mut bytes: Vec<u8> =
            [1, flags, index, 1].iter().flat_map(|half: &u16| half.to_le_bytes()).collect();
        for word in [hash(name), 20, next, string as u32, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    };
    [definition(1, 1, 28), definition(0, 2, 0)].concat()
}

/// The hash of a name that the System V ABI defines.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let sum = (hash << 4).wrapping_add(byte.into());
        let high = sum & 0xf000_0000;
        (sum ^ (high >> 24)) & !high
    })
}

fn header() -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    for half in [3u16, MACHINE] {
        bytes.extend(half.to_le_bytes());
    }
    bytes.extend(1u32.to_le_bytes());
    for long in [0, HEADER, 0] {
        bytes.extend(long.to_le_bytes());
    }
    bytes.extend(0u32.to_le_bytes());
    for half in [HEADER as u16, SEGMENT as u16, SEGMENTS as u16, 64, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    bytes
}

/// All of the file as data, the dynamic section in it, and a stack that is not executed.
fn segments(file: u64, dynamic_at: u64, dynamic: u64) -> Vec<u8> {
    const READ_WRITE: u32 = 6;
    let segment = |kind: u32, start: u64, bytes: u64, align: u64| {
        let mut all = kind.to_le_bytes().to_vec();
        all.extend(READ_WRITE.to_le_bytes());
        for long in [start, start, start, bytes, bytes, align] {
            all.extend(long.to_le_bytes());
        }
        all
    };
    let (load, dynamic) = (segment(1, 0, file, 0x10000), segment(2, dynamic_at, dynamic, 8));
    [load, dynamic, segment(0x6474_e551, 0, 0, 16)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_hash_that_the_linker_gives_it() {
        // What GNU ld writes for these versions of libc and of the runtime.
        assert_eq!(hash("GLIBC_2.2.5"), 0x0969_1a75);
        assert_eq!(hash(""), 0);
    }

    #[test]
    fn the_file_ends_with_what_its_header_announces() {
        for name in NAMES {
            let file = file(name);
            let long = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
            // Bytes of the first segment, and where the second one ends.
            assert_eq!(long(64 + 32), file.len() as u64);
            assert_eq!(long(64 + 56 + 8) + long(64 + 56 + 32), file.len() as u64);
        }
    }
}
