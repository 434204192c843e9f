//! Reads tar archives (POSIX ustar), as `tar --format=ustar` writes them.

use std::path::Path;

const BLOCK: usize = 512;
/// Where a header has its fields.
const NAME: std::ops::Range<usize> = 0..100;
const SIZE: std::ops::Range<usize> = 124..136;
const KIND: usize = 156;

/// Names and contents of all files in an archive.
pub fn entries(path: &Path) -> Vec<(String, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut rest = bytes.as_slice();
    let mut entries = Vec::new();
    while let Some((header, behind)) = rest.split_at_checked(BLOCK)
        && header[0] != 0
    {
        assert_eq!(header[KIND], b'0', "{}: only plain files are seeds", path.display());
        let size = usize::from_str_radix(&text(&header[SIZE]), 8).expect("a size in octal");
        entries.push((text(&header[NAME]), behind[..size].to_vec()));
        rest = &behind[size.next_multiple_of(BLOCK)..];
    }
    entries
}

/// A field up to its first zero.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).trim().to_owned()
}
