//! What warps of every architecture do alike: the loading role.

pub mod loader;
pub mod queries;
