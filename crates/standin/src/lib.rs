//! A `libcuda.so.1`, and what is behind a `libcudart.so`, whose only device is the simulator.
//!
//! A program that uses the CUDA driver API runs on it unmodified: modules come as PTX, memory has addresses of its
//! own, streams and graphs run in order. Every launch is checked by [`sim`], and what is wrong is printed with the
//! program's own source lines. With `SIXWARP_CHECK_REPORT` set to a folder, each finding is written there as JSON,
//! beside the launch as a folder that `sixwarp sim --launch` replays. Settings are listed at [`settings::Settings`].
//!
//! Only public functions are here. The tables that NVIDIA's runtime library asks its driver for are not. A program
//! that uses the runtime finds the functions of [`runtime`] instead, which are this library's own; one that has
//! NVIDIA's runtime linked into it does not run. Products and random numbers of [`math`] are the host's.
//!
//! A function of [`api`] checks its arguments, and works on the one `Driver` of the process. Handles are numbers in
//! tables, so that a wrong one is an error. Launches are jobs of one queue, which a thread works off in order.

#![cfg(target_os = "linux")]
#![allow(non_snake_case, reason = "functions have the names that C programs call")]

pub mod api;
mod device;
mod driver;
mod guard;
mod job;
pub mod math;
mod memory;
mod module;
mod queue;
mod report;
pub mod result;
pub mod runtime;
pub mod settings;
mod simulate;
mod table;
