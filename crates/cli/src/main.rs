//! The `sixwarp` program.

fn main() {}
