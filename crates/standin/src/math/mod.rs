//! Functions of cuBLAS and cuRAND, computed on the host.
//!
//! NVIDIA's libraries are machine code, so they cannot run here, and programs open them for a few products and random
//! numbers beside their own kernels. candle does so whenever it opens a device. What is here are public functions that
//! cudarc and candle call: matrix products ([`blas`]) and random numbers ([`random`]). Each is a job of its stream, in
//! order with launches and copies. What a job reads and writes must be memory that the device knows. Nothing of it
//! runs on the simulator, and nothing of it is checked for races.

pub mod blas;
mod number;
mod product;
pub mod random;

use crate::driver::driver;
use crate::job::Job;
use crate::memory::Memory;
use crate::result::Outcome;
use std::sync::Arc;

/// Queues work of the host on a stream.
fn queue(stream: usize, work: impl Fn(&mut Memory) -> Outcome + Send + Sync + 'static) -> Outcome {
    driver()?.submit(stream, Job::Compute(Arc::new(work))).map(|_| ())
}

/// Declares functions whose results are numbers of another library than the driver's: `$status` translates.
macro_rules! library {
    ($status:path; $($(#[$doc:meta])* fn $name:ident ($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// Pointers must be as the library's manual asks.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
                $status($crate::guard::guarded(stringify!($name), || $body))
            }
        )*
    };
}
use library;
