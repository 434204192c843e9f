//! PTX of machine code: what a link was made of, or the file that a compiler left beside the machine code.
//!
//! Triton's cache has a folder for each kernel, with `kernel.cubin` and `kernel.ptx` in it. The program passes the bytes
//! of the first, so the second is found by comparing.

use std::path::{Path, PathBuf};

/// Folders below a cache that are looked into: torch's compiler has one more than Triton.
const DEPTH: usize = 3;

/// Machine code whose PTX is known.
#[derive(Default)]
pub struct Known(Vec<(Vec<u8>, String)>);

impl Known {
    /// Machine code that was made of PTX.
    pub fn add(&mut self, code: &[u8], text: String) {
        self.0.push((code.to_vec(), text));
    }

    /// The PTX of machine code: known, in one of some folders, or in Triton's cache.
    pub fn find(&self, code: &[u8], folders: &[PathBuf]) -> Option<String> {
        let known = self.0.iter().find(|(known, _)| known == code).map(|(_, text)| text.clone());
        let folders = folders.iter().cloned().chain(triton_caches());
        known.or_else(|| folders.into_iter().find_map(|folder| beside(code, &folder, DEPTH)))
    }
}

/// Where Triton keeps what it has compiled. Asked for each time, because programs set the variables while they run.
fn triton_caches() -> Vec<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let home =
        named("TRITON_HOME").or_else(|| named("HOME")).map(|home| home.join(".triton/cache"));
    named("TRITON_CACHE_DIR").into_iter().chain(home).collect()
}

/// The PTX beside a file with these bytes.
fn beside(code: &[u8], folder: &Path, depth: usize) -> Option<String> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|ending| ending == "cubin") {
            let same_size = entry.metadata().is_ok_and(|file| file.len() == code.len() as u64);
            if same_size && std::fs::read(&path).is_ok_and(|bytes| bytes == code) {
                return std::fs::read_to_string(path.with_extension("ptx")).ok();
            }
        } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(path);
        }
    }
    folders.iter().find_map(|folder| beside(code, folder, depth - 1))
}

/// A PTX file of some folders that has a kernel of this name.
pub fn by_name(kernel: &str, folders: &[PathBuf]) -> Option<String> {
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok());
    let mut files: Vec<PathBuf> = entries.flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "ptx"));
    files.sort();
    let texts = files.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    texts.into_iter().find(|text| has_kernel(text, kernel))
}

fn has_kernel(text: &str, kernel: &str) -> bool {
    let mut behind = text.split(".entry").skip(1);
    behind.any(|rest| {
        let rest = rest.trim_start();
        let name = rest.split(|c: char| c == '(' || c == '{' || c.is_whitespace()).next();
        name == Some(kernel)
    })
}

#[cfg(test)]
mod tests {
    use super::super::Image;
    use super::super::elf::tests::cubin;
    use super::*;

    const TEXT: &str =
        ".version 8.7\n.target sm_90a\n.visible .entry add(\n.param .u64 x) { ret; }";

    #[test]
    fn the_ptx_of_a_cubin_is_beside_it_in_the_cache() {
        let scratch = files::Scratch::new().unwrap();
        let (one, other) = (cubin(b"machine code"), cubin(b"another code"));
        std::fs::create_dir(scratch.file("HASH")).unwrap();
        std::fs::write(scratch.file("HASH/add.cubin"), &one).unwrap();
        std::fs::write(scratch.file("HASH/add.ptx"), TEXT).unwrap();
        let folders = [scratch.path().to_owned()];
        let (known, nowhere) = (Known::default(), [scratch.file("none")]);
        // SAFETY: whole images.
        let (image, unknown) = unsafe { (Image::of(one.as_ptr()), Image::of(other.as_ptr())) };
        assert_eq!(image.ptx("add", &known, &folders), Ok(TEXT));
        // What was found once stays.
        assert_eq!(image.ptx("add", &known, &nowhere), Ok(TEXT));
        let why = unknown.ptx("add", &known, &folders).unwrap_err();
        assert!(why.contains("machine code") && why.contains("--ptx"), "{why}");
    }

    #[test]
    fn a_folder_of_ptx_files_is_searched_by_name() {
        let scratch = files::Scratch::new().unwrap();
        std::fs::write(scratch.file("kernels.ptx"), TEXT).unwrap();
        let folders = [scratch.path().to_owned()];
        assert_eq!(by_name("add", &folders).as_deref(), Some(TEXT));
        assert_eq!(by_name("ad", &folders), None);
    }

    #[test]
    fn what_was_linked_is_known() {
        let mut known = Known::default();
        known.add(b"code", TEXT.into());
        assert_eq!(known.find(b"code", &[]).as_deref(), Some(TEXT));
        assert_eq!(known.find(b"cod", &[]), None);
    }
}
