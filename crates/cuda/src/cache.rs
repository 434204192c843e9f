//! Machine code on disk.
//!
//! An entry's name is the key: a hash of the PTX text and the architecture. (Not of the driver's
//! version: the machine code is `ptxas`'s, and one that this driver is too old for is passed over.)
//! Entries are written beside and renamed into place, so readers in other processes see whole files;
//! each carries its key and a checksum, and one that does not check is removed and built again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: &[u8; 8] = b"6WCUBIN1";

/// A directory of compiled kernels, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubinCache(Option<PathBuf>);

impl Default for CubinCache {
    /// `cubin/` in the project's cache directory
    /// ([`cache_directory`](ptx::toolchain::cache_directory)).
    fn default() -> Self {
        CubinCache(Some(ptx::toolchain::cache_directory().join("cubin")))
    }
}

/// What a cubin was compiled from and for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

impl Key {
    pub(crate) fn new(ptx: &str, arch: &str) -> Key {
        let mut hash = Fnv::new();
        // The architecture has no zero byte, so no two pairs run together to the same bytes.
        for part in [arch.as_bytes(), &[0], ptx.as_bytes()] {
            hash.update(part);
        }
        Key(hash.0)
    }
}

/// FNV-1a in 128 bits: small, the same in every build, and wide enough not to collide by accident.
struct Fnv(u128);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }

    fn of(bytes: &[u8]) -> u128 {
        let mut hash = Fnv::new();
        hash.update(bytes);
        hash.0
    }
}

impl CubinCache {
    /// A cache in `directory`, which is made when first written to.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        CubinCache(Some(directory.into()))
    }

    /// No cache: everything is compiled anew.
    pub fn none() -> Self {
        CubinCache(None)
    }

    /// Where it is.
    pub fn directory(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// Number of entries and their bytes.
    pub fn usage(&self) -> (usize, u64) {
        let entries = self.0.iter().filter_map(|d| fs::read_dir(d).ok()).flatten();
        let sizes = entries.filter_map(|e| Some(e.ok()?.metadata().ok()?.len()));
        sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
    }

    fn path(&self, key: Key) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(format!("{:032x}.cubin", key.0)))
    }

    /// The machine code kept under `key`; a damaged entry is removed.
    pub(crate) fn get(&self, key: Key) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        let entry = fs::read(&path).ok()?;
        let cubin = unseal(&entry, key);
        if cubin.is_none() {
            let _ = fs::remove_file(path);
        }
        cubin
    }

    /// Keeps machine code. A cache that cannot be written costs time, not correctness: the error is
    /// for those who want to know.
    pub(crate) fn put(&self, key: Key, cubin: &[u8]) -> io::Result<()> {
        let Some(path) = self.path(key) else { return Ok(()) };
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let part = path.with_extension(format!("{}-{number}.part", std::process::id()));
        fs::write(&part, seal(cubin, key)).and_then(|()| fs::rename(&part, &path)).inspect_err(
            |_| {
                let _ = fs::remove_file(&part);
            },
        )
    }
}

fn seal(cubin: &[u8], key: Key) -> Vec<u8> {
    let checksum = Fnv::of(cubin);
    [MAGIC, &key.0.to_le_bytes()[..], &checksum.to_le_bytes(), cubin].concat()
}

fn unseal(entry: &[u8], key: Key) -> Option<Vec<u8>> {
    let rest = entry.strip_prefix(MAGIC)?.strip_prefix(&key.0.to_le_bytes())?;
    let (checksum, cubin) = rest.split_at_checked(16)?;
    (checksum == Fnv::of(cubin).to_le_bytes()).then(|| cubin.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str) -> CubinCache {
        let name = format!("sixwarp-cache-test-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        CubinCache::at(directory)
    }

    #[test]
    fn what_is_put_is_got_and_nothing_else() {
        let cache = cache("put");
        let key = Key::new("ptx", "sm_90");
        assert_eq!(cache.get(key), None);
        cache.put(key, b"code").unwrap();
        assert_eq!(cache.get(key).as_deref(), Some(&b"code"[..]));
        let others = [Key::new("ptx2", "sm_90"), Key::new("ptx", "sm_100")];
        assert!(others.iter().all(|&other| cache.get(other).is_none()));
        assert_eq!(cache.usage().0, 1);
        assert_eq!(cache.usage().1, 8 + 16 + 16 + 4);
    }

    #[test]
    fn damage_anywhere_is_seen_and_the_entry_removed() {
        let cache = cache("damage");
        let key = Key::new("ptx", "sm_90");
        let path = cache.path(key).unwrap();
        let whole = seal(b"machine code", key);
        for i in 0..whole.len() {
            cache.put(key, b"machine code").unwrap();
            let mut damaged = whole.clone();
            damaged[i] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.get(key), None, "byte {i}");
            assert!(!path.exists());
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &whole[..20]).unwrap();
        assert_eq!(cache.get(key), None);
    }

    #[test]
    fn writers_at_once_leave_one_whole_entry() {
        let cache = cache("parallel");
        let key = Key::new("ptx", "sm_90");
        let code = vec![7u8; 1 << 16];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        cache.put(key, &code).unwrap();
                        assert_eq!(cache.get(key).as_deref(), Some(&code[..]));
                    }
                });
            }
        });
        assert_eq!(cache.usage().0, 1);
    }

    #[test]
    fn no_cache_keeps_nothing() {
        let key = Key::new("ptx", "sm_90");
        CubinCache::none().put(key, b"code").unwrap();
        assert_eq!(CubinCache::none().get(key), None);
    }
}
