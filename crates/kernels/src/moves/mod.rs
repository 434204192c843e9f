//! Rows on their way: to shared memory by tensor copies ([`copies`]) or by threads ([`gather`]), and from registers
//! to memory ([`output`]).

pub mod copies;
pub mod gather;
pub mod marks;
pub mod output;
