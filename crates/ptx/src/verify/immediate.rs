//! Immediates with a range of their own (rule 13).

use super::Report;
use super::operation::Operation;
use crate::resolve::Arg;

pub(super) fn check(operation: &Operation<'_>, report: &mut Report<'_>) {
    let has = |modifier: &str| operation.has(modifier);
    let mut require = |index: usize, allowed: &dyn Fn(i128) -> bool, text: &str| {
        if let Some(Arg::Integer(value)) = operation.args().get(index)
            && !allowed(*value)
        {
            report(13, format!("operand {}: {value} is not {text}", index + 1));
        }
    };
    match operation.opcode {
        "bar" | "barrier"
            if operation.has_any(&["sync", "arrive"])
                && !operation.has_any(&["warp", "cluster"]) =>
        {
            require(0, &|id| (0..16).contains(&id), "a barrier number from 0 to 15");
            require(1, &|n| n % 32 == 0, "a number of threads in whole warps");
        }
        "setmaxnreg" => require(
            0,
            &|n| (24..=256).contains(&n) && n % 8 == 0,
            "a register count from 24 to 256 in steps of 8",
        ),
        "mbarrier" if has("init") => {
            require(1, &|n| (1..1 << 20).contains(&n), "an arrival count from 1 to 2^20 - 1");
        }
        "tcgen05" if operation.has_any(&["alloc", "dealloc"]) => require(
            1,
            &|n| (32..=512).contains(&n) && n & (n - 1) == 0,
            "a power of two from 32 to 512 columns",
        ),
        "cp" if operation.has_any(&["ca", "cg"]) => {
            let only_16 = has("cg");
            let sizes = if only_16 { "16 bytes" } else { "4, 8 or 16 bytes" };
            require(2, &|n| n == 16 || !only_16 && matches!(n, 4 | 8), sizes);
        }
        "cp" if has("bulk") && !operation.has_any(&["tensor", "wait_group", "prefetch"]) => {
            require(2, &|n| n % 16 == 0, "a multiple of 16 bytes");
        }
        "lop3" => require(4, &|n| (0..256).contains(&n), "a truth table of 8 bits"),
        "discard" | "applypriority" => require(1, &|n| n == 128, "128 bytes"),
        "fence" if has("tensormap::generic") => require(1, &|n| n == 128, "128 bytes"),
        "wgmma" if has("mma_async") => {
            require(3, &|n| matches!(n, 0 | 1), "0 or 1");
            require(4, &|n| matches!(n, -1 | 1), "a sign, 1 or -1");
            require(5, &|n| matches!(n, -1 | 1), "a sign, 1 or -1");
            require(6, &|n| matches!(n, 0 | 1), "a transposition, 0 or 1");
            require(7, &|n| matches!(n, 0 | 1), "a transposition, 0 or 1");
        }
        _ => {}
    }
}
