//! Files on a machine that others use too.
//!
//! - [`write()`]: a file is written whole or not at all.
//! - [`PrivateDirectory`]: what lies in it is only used if no other user can have put it there.
//! - [`Scratch`]: a directory of its own for one piece of work, which does not outlive it for long.
//! - [`Folder`]: the files that a description from somewhere else may name.

mod error;
mod folder;
mod owner;
mod private;
mod scratch;
mod whole;

pub use error::Error;
pub use folder::Folder;
pub use owner::{Trust, user};
pub use private::PrivateDirectory;
pub use scratch::{Scratch, temporary_directory};
pub use whole::{remove_abandoned, write};

use std::hash::{BuildHasher, RandomState};

/// A name that no other process has.
fn unique() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}
