use half::{bf16, f16};
use problem::{AttnMask, HostRef};
use std::f32::consts::LOG2_E;

/// A mask tensor and its memory, checked to hold every element.
#[derive(Clone, Copy)]
pub(crate) struct MaskTensor<'a> {
    /// Elements between neighbours of each dimension of the problem.
    steps: [u64; 4],
    memory: HostRef<'a>,
}

impl<'a> MaskTensor<'a> {
    /// `memory` holds `mask`, in its element type.
    pub fn new(mask: &AttnMask, memory: HostRef<'a>) -> Self {
        Self { steps: mask.steps(), memory }
    }

    fn offset(&self, at: [u64; 4]) -> usize {
        at.iter().zip(self.steps).map(|(index, step)| index * step).sum::<u64>() as usize
    }

    /// What is added to the score of `[batch, head, query, key]`; `-inf` hides the key.
    pub fn bias(&self, at: [u64; 4]) -> f64 {
        match self.memory {
            HostRef::U8(bytes) => hidden_unless(bytes[self.offset(at)]).into(),
            memory => bounded(memory.get(self.offset(at))),
        }
    }

    /// Whether the queries and heads of a sequence have one row of elements between them.
    pub fn has_one_row(&self) -> bool {
        self.steps[1] == 0 && self.steps[2] == 0
    }

    /// Calls `put` with the number and the bias, to base 2, of each of `count` keys from `first` on.
    #[inline(always)]
    pub fn for_each_key(&self, first: [u64; 4], count: usize, put: impl FnMut(usize, f32)) {
        let keys = (0..count).map(|n| self.offset(first) + n * self.steps[3] as usize);
        match self.memory {
            HostRef::U8(s) => keys.map(|at| hidden_unless(s[at])).enumerate().for_each(call(put)),
            HostRef::F64(s) => floats(keys, |at| bounded(s[at]) as f32, put),
            HostRef::F32(s) => floats(keys, |at| s[at], put),
            HostRef::F16(s) => floats(keys, |at| f16::to_f32(s[at]), put),
            HostRef::Bf16(s) => floats(keys, |at| bf16::to_f32(s[at]), put),
            HostRef::E4m3(_) | HostRef::I32(_) => unreachable!("checked with the inputs"),
        }
    }
}

#[inline(always)]
fn floats(
    keys: impl Iterator<Item = usize>,
    get: impl Fn(usize) -> f32,
    put: impl FnMut(usize, f32),
) {
    keys.map(|at| to_base_2(get(at))).enumerate().for_each(call(put));
}

#[inline(always)]
fn call(mut put: impl FnMut(usize, f32)) -> impl FnMut((usize, f32)) {
    move |(n, bias)| put(n, bias)
}

fn hidden_unless(seen: u8) -> f32 {
    if seen == 0 { f32::NEG_INFINITY } else { 0.0 }
}

/// A bias that is finite unless it hides.
fn bounded(bias: f64) -> f64 {
    match bias {
        f64::NEG_INFINITY => f64::NEG_INFINITY,
        bias => bias.clamp(-f64::from(AttnMask::MOST), AttnMask::MOST.into()),
    }
}

/// A bias to base 2, which is finite unless it hides.
fn to_base_2(bias: f32) -> f32 {
    match bias {
        f32::NEG_INFINITY => f32::NEG_INFINITY,
        bias => bias.clamp(-AttnMask::MOST, AttnMask::MOST) * LOG2_E,
    }
}
