//! Machine code on disk.
//!
//! An entry's name is the key: a hash of the PTX text and the architecture. (Not of the driver's
//! version: the machine code is `ptxas`'s, and one that this driver is too old for is passed over.)
//! Entries are written beside and renamed into place, so readers in other processes see whole files;
//! each carries its key and a checksum, and one that does not check is removed and built again. One
//! that another user can have written is not used: checksum and key are no secrets.

use files::{PrivateDirectory, Trust};
use std::fs;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"6WCUBIN1";

/// A directory of compiled kernels, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubinCache(Option<PrivateDirectory>);

impl Default for CubinCache {
    /// `cubin/` in the project's cache directory
    /// ([`cache`](ptx::toolchain::cache)).
    fn default() -> Self {
        CubinCache(Some(ptx::toolchain::cache().below("cubin")))
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

    /// The name of its entry.
    fn file(self) -> String {
        format!("{:032x}.cubin", self.0)
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
        CubinCache(Some(PrivateDirectory::new(directory, Trust::User)))
    }

    /// No cache: everything is compiled anew.
    pub fn none() -> Self {
        CubinCache(None)
    }

    /// Where it is.
    pub fn directory(&self) -> Option<PathBuf> {
        self.0.as_ref().map(PrivateDirectory::path)
    }

    /// Number of entries and their bytes.
    pub fn usage(&self) -> (usize, u64) {
        let entries = self.directory().and_then(|d| fs::read_dir(d).ok()).into_iter().flatten();
        let cubins = entries.filter_map(Result::ok).filter(|entry| is_entry(&entry.path()));
        let sizes = cubins.filter_map(|entry| Some(entry.metadata().ok()?.len()));
        sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
    }

    /// The machine code kept under `key`; a damaged entry is removed.
    pub(crate) fn get(&self, key: Key) -> Option<Vec<u8>> {
        let path = self.0.as_ref()?.file(&key.file()).ok()??;
        let entry = fs::read(&path).ok()?;
        let cubin = unseal(&entry, key);
        if cubin.is_none() {
            let _ = fs::remove_file(path);
        }
        cubin
    }

    /// Keeps machine code. A cache that cannot be written costs time, not correctness: the error is
    /// for those who want to know.
    pub(crate) fn put(&self, key: Key, cubin: &[u8]) -> Result<(), files::Error> {
        let Some(directory) = &self.0 else { return Ok(()) };
        let path = directory.make()?.join(key.file());
        if directory.file(&key.file()).is_err() {
            // It is not used, so it makes way.
            let _ = fs::remove_file(&path);
        }
        files::remove_abandoned(&directory.path());
        files::write(path, seal(cubin, key))
    }
}

fn is_entry(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "cubin")
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
    use files::Scratch;

    /// A cache of its own, as long as the scratch directory is kept.
    fn cache() -> (Scratch, CubinCache) {
        let scratch = Scratch::new().unwrap();
        let cache = CubinCache::at(scratch.file("cubin"));
        (scratch, cache)
    }

    #[test]
    fn what_is_put_is_got_and_nothing_else() {
        let (_scratch, cache) = cache();
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
        let (_scratch, cache) = cache();
        let key = Key::new("ptx", "sm_90");
        let path = cache.directory().unwrap().join(key.file());
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

    #[cfg(unix)]
    #[test]
    fn an_entry_that_others_can_have_written_is_not_used_and_makes_way() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode));
        let (_scratch, cache) = cache();
        let key = Key::new("ptx", "sm_90");
        let directory = cache.directory().unwrap();
        let path = directory.join(key.file());
        let link = |to: &str| {
            fs::remove_file(&path).and_then(|()| std::os::unix::fs::symlink(to, &path)).unwrap();
        };
        let elsewhere = directory.join("elsewhere");
        let spoil: [&dyn Fn(); 3] = [
            &|| mode(&path, 0o666).unwrap(),
            &|| {
                fs::copy(&path, &elsewhere).unwrap();
                link("elsewhere");
            },
            &|| link("/dev/zero"),
        ];
        for spoil in spoil {
            cache.put(key, b"code").unwrap();
            spoil();
            assert_eq!(cache.get(key), None);
            cache.put(key, b"other code").unwrap();
            assert_eq!(cache.get(key).as_deref(), Some(&b"other code"[..]));
        }
        assert_eq!(fs::read(elsewhere).unwrap(), seal(b"code", key));
        mode(&directory, 0o777).unwrap();
        assert_eq!(cache.get(key), None);
        let error = cache.put(key, b"code").unwrap_err().to_string();
        assert!(error.contains(directory.to_str().unwrap()), "{error}");
    }

    #[test]
    fn writers_at_once_leave_one_whole_entry() {
        let (_scratch, cache) = cache();
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
