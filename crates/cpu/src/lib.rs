//! Attention on the host: the f64 oracle, a naive computation in the problem's own precision, and
//! the rule by which any engine's result is accepted.

pub mod compare;
mod inputs;
pub mod model1;
pub mod naive;
pub mod oracle;
mod reference;

pub use compare::{Comparison, compare};
pub use reference::Reference;
