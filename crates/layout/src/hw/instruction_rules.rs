//! The rules of `tcgen05.mma` instruction descriptors, each checked where it is listed.
//!
//! 1. M is 32, 64, 128 or 256; N is a multiple of 8 from 8 to 256.
//! 2. D is f32 for tf32 and the block-scaled kinds, s32 for i8, f16 or f32 otherwise.
//! 3. Scales are given for the block-scaled kinds and only for them; mxf8f6f4 and mxf4 take ue8m0;
//!    a scale id is 0 to 3, and 0 or 2 for the 4-bit kinds.
//! 4. Saturation belongs to i8; the 4-bit kinds are K-major; a sparsity selector has two bits.
//! 5. One CTA: M 64 or 128, N step 8 (i8: step 16 above 32; block-scaled: M 128). Two CTAs: M 128
//!    or 256, N step 16.

use super::instruction::{Accumulator, CtaGroup, InstructionDescriptor, MmaKind, ScaleFormat};
use super::smem::Major;
use crate::error::{LayoutError, Result};

fn refuse<T>(rule: &'static str, found: String) -> Result<T> {
    Err(LayoutError::hardware(rule, found))
}

/// Rules 1 to 4: what the bits can say at all.
pub(super) fn check(descriptor: &InstructionDescriptor) -> Result<()> {
    let (m, n) = (descriptor.m, descriptor.n);
    if !matches!(m, 32 | 64 | 128 | 256) {
        return refuse("M is 32, 64, 128 or 256", format!("M = {m}"));
    }
    if !(8..=256).contains(&n) || n % 8 != 0 {
        return refuse("N is a multiple of 8 from 8 to 256", format!("N = {n}"));
    }
    check_accumulator(descriptor)?;
    check_scale(descriptor)?;
    check_modifiers(descriptor)
}

fn check_accumulator(descriptor: &InstructionDescriptor) -> Result<()> {
    let legal = match descriptor.kind {
        MmaKind::F16 | MmaKind::F8f6f4 => descriptor.d != Accumulator::S32,
        MmaKind::I8 => descriptor.d == Accumulator::S32,
        _ => descriptor.d == Accumulator::F32,
    };
    if legal {
        return Ok(());
    }
    refuse(
        "D is f32 for tf32 and block-scaled kinds, s32 for i8, f16 or f32 otherwise",
        format!("D {:?} for kind {:?}", descriptor.d, descriptor.kind),
    )
}

fn check_scale(descriptor: &InstructionDescriptor) -> Result<()> {
    let kind = descriptor.kind;
    let Some(scale) = descriptor.scale else {
        return if kind.is_block_scaled() {
            refuse("block-scaled kinds need scales", format!("kind {kind:?} without scales"))
        } else {
            Ok(())
        };
    };
    if !kind.is_block_scaled() {
        return refuse("only block-scaled kinds take scales", format!("kind {kind:?} with scales"));
    }
    if scale.format == ScaleFormat::Ue4m3 && kind != MmaKind::Mxf4nvf4 {
        return refuse("ue4m3 scales belong to mxf4nvf4", format!("kind {kind:?} with ue4m3"));
    }
    let step = if kind == MmaKind::Mxf8f6f4 { 1 } else { 2 };
    match [scale.a_id, scale.b_id].into_iter().find(|id| *id > 3 || id % step != 0) {
        Some(id) => {
            refuse("scale ids are 0 to 3, and even for 4-bit kinds", format!("scale id {id}"))
        }
        None => Ok(()),
    }
}

fn check_modifiers(descriptor: &InstructionDescriptor) -> Result<()> {
    let kind = descriptor.kind;
    if descriptor.saturate && kind != MmaKind::I8 {
        return refuse("saturation belongs to kind i8", format!("kind {kind:?}"));
    }
    let transposed = descriptor.a_major == Major::Mn || descriptor.b_major == Major::Mn;
    if transposed && matches!(kind, MmaKind::Mxf4 | MmaKind::Mxf4nvf4) {
        return refuse(
            "4-bit kinds are K-major",
            format!("kind {kind:?} with an MN-major operand"),
        );
    }
    match descriptor.sparsity {
        Some(selector) if selector > 3 => {
            refuse("a sparsity selector has two bits", format!("selector {selector}"))
        }
        Some(selector) if kind.is_block_scaled() && selector != 0 => {
            refuse("block-scaled kinds have no sparsity selector", format!("selector {selector}"))
        }
        _ => Ok(()),
    }
}

/// Rule 5: what the CTA group allows.
pub(super) fn check_shape(descriptor: &InstructionDescriptor, group: CtaGroup) -> Result<()> {
    check(descriptor)?;
    let (m, n, kind) = (descriptor.m, descriptor.n, descriptor.kind);
    let found = || format!("M = {m}, N = {n}, kind {kind:?}");
    let legal = match group {
        CtaGroup::One if kind.is_block_scaled() => m == 128,
        CtaGroup::One if kind == MmaKind::I8 => matches!(m, 64 | 128) && (n <= 32 || n % 16 == 0),
        CtaGroup::One => matches!(m, 64 | 128),
        CtaGroup::Two => matches!(m, 128 | 256) && n % 16 == 0,
    };
    match (legal, group) {
        (true, _) => Ok(()),
        (false, CtaGroup::One) => {
            refuse("one CTA: M 64 or 128 (block-scaled: 128), N step 8 (i8: 16 above 32)", found())
        }
        (false, CtaGroup::Two) => refuse("two CTAs: M 128 or 256, N step 16", found()),
    }
}
