//! Each function beside candle's own operations.

mod batch;
mod eager;
mod refused;
mod varlen;
