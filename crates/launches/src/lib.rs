//! Launches of programs of others, as data.
//!
//! - [`ptx_of`]: the PTX in what a program gives to `cuModuleLoadData`.
//! - [`arguments`]: the bytes of a kernel's arguments, out of the two forms in which a launch passes them.
//! - [`SavedLaunch`]: a launch as a folder that `sixwarp check launch.json` runs.

mod arguments;
mod config;
mod fatbin;
mod folder;
mod image;
mod lz4;
mod source;
mod zstd;

pub use arguments::{arguments, places, required_cluster};
pub use config::{LaunchAttribute, LaunchConfig};
pub use folder::{Piece, SavedLaunch};
pub use image::{MACHINE_CODE, Reason, Refusal, ptx_of, suits, target_of};
pub use source::without_inline_locations;
