//! Which CTA does what: by lists that the host knows ([`order`]), or by lengths that only the device knows
//! ([`shares`], [`exchange`], [`tail`]).

pub mod exchange;
pub mod order;
pub mod shares;
pub mod stamps;
pub mod tail;
