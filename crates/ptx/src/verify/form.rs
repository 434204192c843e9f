//! The operand forms of PTX instructions (rules 9 and 11).
//!
//! A form is an opcode, the modifiers it is for, and a word per operand:
//!
//! | word | operand |
//! |---|---|
//! | `T`, `T1` | a register or immediate of the instruction's last, first type |
//! | `W` | … of the integer type twice as wide as `T` |
//! | `b32`, `pred`, … | … of that type |
//! | `V` | `T`, or `{…}` of them where the instruction has `.v2`, `.v4` or `.v8` |
//! | `mov` | `T`, a special register, an address, or a vector that makes up `T` |
//! | `cond` | a predicate, its negation or a truth value |
//! | `mem` | an address in the instruction's space, aligned for `V` |
//! | `policy` | a `.b64` register, there where the instruction has `.L2::cache_hint` |
//! | `mbar` | an address in the instruction's space, aligned to 8 bytes |
//! | `shared`, `global`, `tmem` | an address there |
//! | `label`, `imm`, `any` | a label, an integer constant, anything |
//! | `rest` | any number of operands, unchecked |
//!
//! `=` marks a result and `=_` one that may be `_`; `~` takes wider registers; `x|p` is a pair and
//! `x/p` one whose predicate may be left out; `?` may be left out.

use super::matrix;
use super::operation::Operation;
use super::slot::{Kind, Memory, Place, Slot, Value, named};
use super::types::Want;
use crate::ast::Space;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The first form whose modifiers are all present counts.
const FORMS: &[(&str, &str)] = &[
    // Arithmetic.
    ("add.f32.f16", "=f32 f16 f32"),
    ("add.f32.bf16", "=f32 bf16 f32"),
    ("add", "=T T T"),
    ("sub.f32.f16", "=f32 f16 f32"),
    ("sub.f32.bf16", "=f32 bf16 f32"),
    ("sub", "=T T T"),
    ("addc", "=T T T"),
    ("subc", "=T T T"),
    ("mul.wide", "=W T T"),
    ("mul", "=T T T"),
    ("mul24", "=T T T"),
    ("mad.wide", "=W T T W"),
    ("mad", "=T T T T"),
    ("madc", "=T T T T"),
    ("mad24", "=T T T T"),
    ("fma.f32.f16", "=f32 f16 f16 f32"),
    ("fma.f32.bf16", "=f32 bf16 bf16 f32"),
    ("fma", "=T T T T"),
    ("div", "=T T T"),
    ("rem", "=T T T"),
    ("max.f32", "=T T T T?"),
    ("max", "=T T T"),
    ("min.f32", "=T T T T?"),
    ("min", "=T T T"),
    ("abs", "=T T"),
    ("neg", "=T T"),
    ("rcp", "=T T"),
    ("sqrt", "=T T"),
    ("rsqrt", "=T T"),
    ("sin", "=T T"),
    ("cos", "=T T"),
    ("lg2", "=T T"),
    ("ex2", "=T T"),
    ("tanh", "=T T"),
    ("copysign", "=T T T"),
    ("testp", "=pred T"),
    ("sad", "=T T T T"),
    ("dp2a", "=u32 u32 u32 u32"),
    ("dp4a", "=u32 u32 u32 u32"),
    // Bits.
    ("and", "=T T T"),
    ("or", "=T T T"),
    ("xor", "=T T T"),
    ("not", "=T T"),
    ("cnot", "=T T"),
    ("shl", "=T T u32"),
    ("shr", "=T T u32"),
    ("shf", "=b32 b32 b32 u32"),
    ("lop3", "=b32/p b32 b32 b32 imm cond?"),
    ("prmt", "=b32 b32 b32 b32"),
    ("bfe", "=T T u32 u32"),
    ("bfi", "=T T T u32 u32"),
    ("popc", "=u32 T"),
    ("clz", "=u32 T"),
    ("bfind", "=u32 T"),
    ("brev", "=T T"),
    ("fns", "=b32 b32 b32 s32"),
    ("bmsk", "=b32 b32 b32"),
    ("szext", "=T T u32"),
    // Comparison and selection.
    ("setp.and", "=pred/p T T cond"),
    ("setp.or", "=pred/p T T cond"),
    ("setp.xor", "=pred/p T T cond"),
    ("setp", "=pred/p T T"),
    ("set.and", "=T1 T T cond"),
    ("set.or", "=T1 T T cond"),
    ("set.xor", "=T1 T T cond"),
    ("set", "=T1 T T"),
    ("selp", "=T T T cond"),
    ("slct", "=T1 T1 T1 T"),
    // Memory.
    ("ld", "=V~ mem policy"),
    ("ldu", "=V~ mem"),
    ("st.async", "shared V shared:8"),
    ("st.bulk", "rest"),
    ("st", "mem V~ policy"),
    ("atom.cas", "=_T mem T T policy"),
    ("atom", "=_V mem V policy"),
    ("red.async", "shared T shared:8"),
    ("red", "mem V policy"),
    ("cvta.to", "=T T"),
    ("cvta", "=T mov"),
    ("isspacep", "=pred any"),
    ("mapa", "=T mov b32"),
    ("getctarank", "=u32 T"),
    ("createpolicy.fractional", "=b64 f32?"),
    ("createpolicy", "=b64 rest"),
    ("multimem.ld_reduce", "=V mem"),
    ("multimem.st", "mem V"),
    ("multimem.red", "mem V"),
    ("prefetch", "mem"),
    ("discard", "mem imm"),
    ("applypriority", "mem imm"),
    ("prefetchu", "mem"),
    // Copies.
    ("cp.async.mbarrier", "mbar"),
    ("cp.async.bulk.commit_group", ""),
    ("cp.async.bulk.wait_group", "imm"),
    ("cp.async.commit_group", ""),
    ("cp.async.wait_group", "imm"),
    ("cp.async.wait_all", ""),
    ("tensormap.replace.global_address", "any b64"),
    ("tensormap.replace.global_stride", "any imm b64"),
    ("tensormap.replace.box_dim", "any imm b32"),
    ("tensormap.replace.global_dim", "any imm b32"),
    ("tensormap.replace.element_stride", "any imm b32"),
    ("tensormap.replace.rank", "any b32"),
    ("tensormap.replace", "any imm"),
    ("tensormap.cp_fenceproxy", "global shared imm"),
    // Threads and barriers.
    ("bar.warp", "b32"),
    ("bar.sync", "b32 b32?"),
    ("bar.arrive", "b32 b32"),
    ("barrier.cluster", ""),
    ("barrier.sync", "b32 b32?"),
    ("barrier.arrive", "b32 b32"),
    ("membar", ""),
    ("fence.tensormap::generic.acquire", "mem imm"),
    ("fence", ""),
    ("vote.ballot", "=b32 cond u32"),
    ("vote", "=pred cond u32"),
    ("match.all", "=u32/p T u32"),
    ("match", "=u32 T u32"),
    ("activemask", "=b32"),
    ("redux", "=T T u32"),
    ("elect", "=_b32|p u32"),
    ("shfl", "=b32/p b32 b32 b32 b32"),
    ("griddepcontrol", ""),
    ("nanosleep", "u32"),
    ("setmaxnreg", "imm"),
    ("mbarrier.init", "mbar u32"),
    ("mbarrier.inval", "mbar"),
    ("mbarrier.arrive.expect_tx", "=_u64 mbar u32"),
    ("mbarrier.arrive_drop.expect_tx", "=_u64 mbar u32"),
    ("mbarrier.arrive.noComplete", "=_u64 mbar u32"),
    ("mbarrier.arrive_drop.noComplete", "=_u64 mbar u32"),
    ("mbarrier.arrive", "=_u64 mbar u32?"),
    ("mbarrier.arrive_drop", "=_u64 mbar u32?"),
    ("mbarrier.expect_tx", "mbar u32"),
    ("mbarrier.complete_tx", "mbar u32"),
    ("mbarrier.test_wait.parity", "=pred mbar u32"),
    ("mbarrier.test_wait", "=pred mbar u64"),
    ("mbarrier.try_wait.parity", "=pred mbar u32 u32?"),
    ("mbarrier.try_wait", "=pred mbar u64 u32?"),
    ("mbarrier.pending_count", "=u32 u64"),
    ("clusterlaunchcontrol.try_cancel", "shared:16 shared:8"),
    ("clusterlaunchcontrol.is_canceled", "=pred b128"),
    ("clusterlaunchcontrol", "rest"),
    // Matrices.
    ("wgmma.fence", ""),
    ("wgmma.commit_group", ""),
    ("wgmma.wait_group", "imm"),
    ("movmatrix", "=b32 b32"),
    ("tcgen05.alloc", "mem u32"),
    ("tcgen05.dealloc", "u32 u32"),
    ("tcgen05.relinquish_alloc_permit", ""),
    ("tcgen05.cp", "tmem u64"),
    ("tcgen05.shift", "tmem"),
    ("tcgen05.commit.multicast::cluster", "mbar b16"),
    ("tcgen05.commit", "mbar"),
    ("tcgen05.wait::ld", ""),
    ("tcgen05.wait::st", ""),
    ("tcgen05.fence::before_thread_sync", ""),
    ("tcgen05.fence::after_thread_sync", ""),
    // Control.
    ("bra", "label"),
    ("brx", "b32 any"),
    ("exit", ""),
    ("ret", ""),
    ("trap", ""),
    ("brkpt", ""),
    ("pmevent", "imm"),
];

/// Opcodes without an entry above: their forms are computed, or not checked.
const OTHERS: &[&str] = &[
    "alloca",
    "bar",
    "barrier",
    "call",
    "cp",
    "cvt",
    "ldmatrix",
    "mbarrier",
    "mma",
    "mov",
    "spmv",
    "stackrestore",
    "stacksave",
    "stmatrix",
    "suld",
    "suq",
    "sured",
    "sust",
    "tcgen05",
    "tensormap",
    "tex",
    "tld4",
    "txq",
    "vabsdiff",
    "vabsdiff2",
    "vabsdiff4",
    "vadd",
    "vadd2",
    "vadd4",
    "vavrg2",
    "vavrg4",
    "vmad",
    "vmax",
    "vmax2",
    "vmax4",
    "vmin",
    "vmin2",
    "vmin4",
    "vset",
    "vset2",
    "vset4",
    "vshl",
    "vshr",
    "vsub",
    "vsub2",
    "vsub4",
    "wgmma",
    "wmma",
];

struct Form {
    modifiers: Vec<&'static str>,
    words: &'static str,
}

static TABLE: LazyLock<HashMap<&'static str, Vec<Form>>> = LazyLock::new(|| {
    let mut table: HashMap<_, Vec<Form>> = HashMap::new();
    for opcode in OTHERS {
        table.insert(*opcode, Vec::new());
    }
    for (key, words) in FORMS {
        let mut parts = key.split('.');
        let opcode = parts.next().unwrap_or_default();
        table.entry(opcode).or_default().push(Form { modifiers: parts.collect(), words });
    }
    table
});

/// Whether PTX has such an opcode.
pub(super) fn is_opcode(name: &str) -> bool {
    TABLE.contains_key(name)
}

/// What the instruction takes; `None` if that is not known.
pub(super) fn slots(operation: &Operation<'_>) -> Option<Vec<Slot>> {
    if let Some(slots) = matrix::slots(operation) {
        return Some(slots);
    }
    let forms = TABLE.get(operation.opcode)?;
    let form = forms.iter().find(|form| form.modifiers.iter().all(|m| operation.has(m)))?;
    let hinted = operation.has("L2::cache_hint");
    let words = form.words.split_whitespace().filter(|word| *word != "policy" || hinted);
    words.map(|word| slot(word, operation)).collect()
}

/// The slot a word stands for; `None` if the instruction lacks the type it needs.
fn slot(word: &str, operation: &Operation<'_>) -> Option<Slot> {
    let (word, optional) = strip(word, '?');
    let (word, wide) = strip(word, '~');
    let (word, result) = match word.strip_prefix('=') {
        Some(word) => (word, true),
        None => (word, false),
    };
    let (word, sink) = match word.strip_prefix('_') {
        Some(word) => (word, true),
        None => (word, false),
    };
    let value = |want: Want| Value { want, wide, sink };
    let kind = match word {
        "rest" => Kind::Rest,
        "any" => Kind::Anything,
        "imm" => Kind::Constant,
        "label" => Kind::Label,
        "policy" => Kind::Value(value(named("b64"))),
        "cond" => Kind::Condition,
        "mov" => Kind::Movable(operation.ty()?),
        "mem" => Kind::Address(Place::of_access(operation)),
        "mbar" => Kind::Address(Place { align: 8, ..Place::of_access(operation) }),
        "shared" => Kind::Address(Place { space: Memory::Space(Space::Shared), align: 1 }),
        "shared:8" => Kind::Address(Place { space: Memory::Space(Space::Shared), align: 8 }),
        "shared:16" => Kind::Address(Place { space: Memory::Space(Space::Shared), align: 16 }),
        "global" => Kind::Address(Place { space: Memory::Space(Space::Global), align: 1 }),
        "tmem" => Kind::Address(Place { space: Memory::Tensor, align: 1 }),
        "V" => match operation.vector() {
            Some(length) => Kind::Vector(value(operation.ty()?), length),
            None => Kind::Value(value(operation.ty()?)),
        },
        _ => match word
            .strip_suffix("|p")
            .map(|w| (w, true))
            .or(word.strip_suffix("/p").map(|w| (w, false)))
        {
            Some((word, both)) => Kind::Pair { value: value(scalar(word, operation)?), both },
            None => Kind::Value(value(scalar(word, operation)?)),
        },
    };
    Some(Slot { kind, result, optional })
}

fn scalar(word: &str, operation: &Operation<'_>) -> Option<Want> {
    match word {
        "T" => operation.ty(),
        "T1" => operation.types.first().copied(),
        "W" => operation.ty().map(Want::widened),
        _ => Some(named(word)),
    }
}

fn strip(word: &str, suffix: char) -> (&str, bool) {
    match word.strip_suffix(suffix) {
        Some(word) => (word, true),
        None => (word, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_table_is_understood() {
        let module = crate::parse(
            ".version 8.7 .target sm_90a .address_size 64 .entry k() { .reg .b32 a; x.v2.s16.s32; }",
        );
        let module = module.unwrap();
        let body = crate::resolve::resolve(&module, module.entry("k").unwrap()).unwrap();
        let operation = Operation::new(&body, &body.instructions[0]);
        for (key, words) in FORMS {
            for word in words.split_whitespace() {
                assert!(slot(word, &operation).is_some(), "{key}: {word}");
            }
        }
    }

    #[test]
    fn no_form_is_hidden_by_an_earlier_one() {
        for (i, (later, _)) in FORMS.iter().enumerate() {
            for (earlier, _) in &FORMS[..i] {
                let parts: Vec<_> = later.split('.').collect();
                let mut hides = earlier.split('.');
                let same_opcode = hides.next() == parts.first().copied();
                assert!(
                    !(same_opcode && hides.all(|m| parts[1..].contains(&m))),
                    "{earlier} {later}"
                );
            }
        }
    }
}
