//! Which CTA does what: by lists that the host knows ([`order`]), or by lengths that only the device knows
//! ([`shares`], [`exchange`]).

pub mod exchange;
pub mod order;
pub mod shares;
pub mod stamps;
