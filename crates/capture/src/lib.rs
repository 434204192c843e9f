//! A library that is preloaded into a CUDA program and writes its launches.
//!
//! A program reaches a function of `libcuda.so.1` in three ways: by linking with it, by `dlsym`, and by
//! `cuGetProcAddress`. All three lead to the functions in [`hooks`] here, which take note of memory, modules and
//! kernels, and call the driver's own. Before a launch that was asked for, all work of the GPU is waited for. The memory
//! that the launch can reach is copied and written to a folder, and only then the launch goes on. So a launch that does
//! not end is on the disk.
//!
//! Nothing happens unless `SIXWARP_CAPTURE` names a folder: the library is also in every process that the program
//! starts. Settings are listed at [`settings::Settings`].

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(non_snake_case, reason = "functions have the names that C programs call")]

mod capture;
pub mod hooks;
mod image;
mod inside;
mod memory;
mod real;
mod record;
pub mod settings;
mod state;
pub mod symbols;
mod table;
