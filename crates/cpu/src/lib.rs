//! Attention on the host: a fast engine for every problem, the f64 oracle, a naive computation in
//! the problem's own precision, and the rule by which any engine's result is accepted.

mod attention;
pub mod ceilings;
pub mod compare;
mod inputs;
mod interrupt;
mod mask;
pub mod model1;
pub mod naive;
pub mod oracle;
mod packed;
mod reference;
mod simd;

pub use attention::{attention, attention_on};
pub use compare::{Comparison, compare};
pub use interrupt::{Interrupted, interruptible};
pub use reference::{Magnitudes, Reference};
pub use simd::Isa;
