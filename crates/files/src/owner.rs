//! Who can have written a file.

use crate::Error;
use std::fs::Metadata;
use std::path::Path;

/// Whose files are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those of this user, and those of the superuser, who needs no file to run anything.
    User,
    /// Also those of the owner of the workspace that cargo runs: cargo runs what lies there anyway.
    Workspace(u32),
}

impl Trust {
    /// Of a cargo workspace; of this user if it cannot be looked at.
    pub fn workspace(directory: &Path) -> Trust {
        let metadata = std::fs::metadata(directory);
        metadata.map_or(Trust::User, |metadata| Trust::Workspace(platform::owner(&metadata)))
    }

    fn includes(self, owner: u32) -> bool {
        owner == user() || owner == ROOT || self == Trust::Workspace(owner)
    }

    /// Ensures that only users who are trusted can have written what `metadata` describes.
    pub(crate) fn check(self, path: &Path, metadata: &Metadata) -> Result<(), Error> {
        let owner = platform::owner(metadata);
        if !self.includes(owner) {
            return Err(of_another(path, owner));
        }
        if platform::is_writable_by_others(metadata) {
            let mode = platform::mode(metadata);
            let reason = format!("other users can write to it (mode {mode:04o}): it is not used");
            return Err(Error::new(path, reason));
        }
        Ok(())
    }
}

fn of_another(path: &Path, owner: u32) -> Error {
    let us = user();
    Error::new(path, format!("belongs to user {owner}, and this is user {us}: it is not used"))
}

/// Ensures that not everybody can replace what lies in `directory` or in one above it; for the
/// superuser, that nobody can. (Other users may trust the owner of the place they were given.)
pub(crate) fn check_above(directory: &Path) -> Result<(), Error> {
    let whole = std::fs::canonicalize(directory).map_err(|e| Error::new(directory, e))?;
    for above in whole.ancestors() {
        let metadata = std::fs::metadata(above).map_err(|e| Error::new(above, e))?;
        let owner = platform::owner(&metadata);
        if owner != ROOT && is_superuser() {
            return Err(of_another(above, owner));
        }
        if platform::is_open_to_all(&metadata) {
            let reason = "every user can replace what lies in it (it lacks the sticky bit): \
                          it is not used";
            return Err(Error::new(above, reason));
        }
    }
    Ok(())
}

const ROOT: u32 = 0;

/// The number of the user that this process acts for; 0 where users have none.
pub fn user() -> u32 {
    platform::user()
}

/// Whether this is the superuser of the whole machine: one who is only called so in a namespace does not
/// own its root directory.
fn is_superuser() -> bool {
    let root = std::fs::metadata("/");
    user() == ROOT && root.is_ok_and(|root| platform::owner(&root) == ROOT)
}

/// Whether what `metadata` describes belongs to this user.
pub(crate) fn is_ours(metadata: &Metadata) -> bool {
    platform::owner(metadata) == user()
}

#[cfg(unix)]
mod platform {
    use std::fs::Metadata;
    use std::os::unix::fs::MetadataExt;

    unsafe extern "C" {
        /// POSIX; `uid_t` has 32 bits on every system that Rust has.
        safe fn geteuid() -> u32;
    }

    pub fn user() -> u32 {
        geteuid()
    }

    pub fn owner(metadata: &Metadata) -> u32 {
        metadata.uid()
    }

    pub fn mode(metadata: &Metadata) -> u32 {
        metadata.mode() & 0o7777
    }

    /// A group of the owner's own number has one member, where umasks leave files to the group.
    pub fn is_writable_by_others(metadata: &Metadata) -> bool {
        let own_group = metadata.gid() == metadata.uid();
        mode(metadata) & if own_group { 0o002 } else { 0o022 } != 0
    }

    /// Whether everybody can rename and remove what others have in a directory.
    pub fn is_open_to_all(metadata: &Metadata) -> bool {
        mode(metadata) & 0o1002 == 0o002
    }
}

/// Elsewhere a user's directories are private by default, and files have no such owner.
#[cfg(not(unix))]
mod platform {
    use std::fs::Metadata;

    pub fn user() -> u32 {
        0
    }

    pub fn owner(_: &Metadata) -> u32 {
        0
    }

    pub fn mode(_: &Metadata) -> u32 {
        0
    }

    pub fn is_writable_by_others(_: &Metadata) -> bool {
        false
    }

    pub fn is_open_to_all(_: &Metadata) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_user_and_the_superuser_own_is_used() {
        let (us, other) = (user(), user() + 1);
        for trust in [Trust::User, Trust::Workspace(us)] {
            assert!(trust.includes(us) && trust.includes(ROOT) && !trust.includes(other));
        }
        assert!(Trust::Workspace(other).includes(other));
    }
}
