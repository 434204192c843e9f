//! One table of attention cases that every engine runs: oracle, CPU, simulator, GPU and Python.
//!
//! A [`Case`] is a few readable fields, kept in `crates/cases/cases.toml`. [`CaseData`] is what it expands
//! to: a [`Problem`] and memory for each of its slots, fresh and random from the case's seed, with
//! NaN wherever an engine must not look and in every output. [`check`] runs one case on an
//! [`Engine`] and judges the result by the rule of [`cpu::compare()`].

mod attn_mask;
mod case;
mod data;
mod packed;
mod random;
mod rng;
mod run;
mod shrink;
mod special;
mod table;

pub use case::{Case, Factors, Keys, Layout, Lengths, Lists, Order, Sinks};
pub use data::CaseData;
pub use random::random_case;
pub use rng::Rng;
pub use run::{Engine, EngineError, Expected, Outcome, Outputs, check, judge};
pub use shrink::shrink;
pub use table::{TableError, matches_glob, parse, table};

#[doc(no_inline)]
pub use problem::Problem;
