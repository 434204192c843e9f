//! How many registers a thread has when its kernel starts.

use crate::ast::FunctionDirective;

/// Registers of a processor, for each lane of its warps.
const PER_LANE: u64 = 2048;
/// Warps come in fours, one to each quarter of a processor.
const QUARTERS: u64 = 4;
/// Registers are given in this many.
const STEP: u64 = 8;
/// Most registers of a thread.
const MOST: u64 = 256;
/// What no directive can mean more than.
const MOST_THREADS: u64 = 1 << 20;

/// Registers that each thread of a kernel gets at launch, if its directives say: what `.maxnreg` says, and
/// as many as `.minnctapersm` CTAs of `.maxntid` (or `.reqntid`) threads can have.
///
/// These are the CTA's for good: what threads give back by `setmaxnreg.dec` is all that others can take by
/// `setmaxnreg.inc`. Where the directives do not say, the assembler ignores both.
pub fn registers_at_launch(directives: &[FunctionDirective]) -> Option<u32> {
    let product = |name: &str| {
        let directive = directives.iter().find(|d| d.name.as_str() == name)?;
        let product = directive.values.iter().fold(1, |p: u64, value| p.saturating_mul(*value));
        Some(product.clamp(1, MOST_THREADS))
    };
    let threads = product("reqntid").or(product("maxntid"));
    let shared_out = threads.zip(product("minnctapersm")).map(|(threads, ctas)| {
        let warps = (threads.div_ceil(32) * ctas).next_multiple_of(QUARTERS);
        PER_LANE / warps / STEP * STEP
    });
    let named = product("maxnreg").map(|registers| registers.next_multiple_of(STEP));
    let registers = shared_out.into_iter().chain(named).min()?;
    Some(registers.clamp(STEP, MOST) as u32)
}

#[cfg(test)]
mod tests {
    use super::registers_at_launch;
    use crate::ast::FunctionDirective;
    use crate::symbol::Symbol;

    fn at_launch(directives: &[(&str, u64)]) -> Option<u32> {
        let directive = |&(name, value): &(&str, u64)| FunctionDirective {
            name: Symbol::new(name),
            values: vec![value],
            strings: vec![],
        };
        registers_at_launch(&directives.iter().map(directive).collect::<Vec<_>>())
    }

    /// What ptxas 13.0 reports for a kernel that uses `setmaxnreg` (255 are given as 256).
    #[test]
    fn as_the_assembler_shares_them_out() {
        for (threads, ctas, registers) in [
            (128, 1, 256),
            (160, 2, 168),
            (256, 1, 256),
            (256, 2, 128),
            (320, 1, 168),
            (320, 2, 96),
            (384, 1, 168),
            (416, 1, 128),
            (416, 2, 72),
            (640, 1, 96),
            (768, 2, 40),
            (1024, 1, 64),
        ] {
            let given = at_launch(&[("maxntid", threads), ("minnctapersm", ctas)]);
            assert_eq!(given, Some(registers), "{threads} threads, {ctas} CTAs");
        }
        assert_eq!(at_launch(&[("maxnreg", 100)]), Some(104));
        let both = [("reqntid", 384), ("minnctapersm", 1), ("maxnreg", 128)];
        assert_eq!(at_launch(&both), Some(128));
        assert_eq!(at_launch(&[("reqntid", 384)]), None);
        assert_eq!(at_launch(&[("minnctapersm", 1)]), None);
        let absurd = [("maxntid", u64::MAX), ("minnctapersm", u64::MAX)];
        assert_eq!(at_launch(&absurd), Some(8));
    }
}
