//! No description of a problem makes validation panic, and what is accepted can be asked about; small
//! accepted problems without memory are refused, not run.
//!
//! ```text
//! cargo +nightly fuzz run problem
//! ```
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use sixwarp::{
    DType, Device, HostBuffers, Mask, Problem, QueryLengths, Segment, Storage, View, attention,
};

fn number(u: &mut Unstructured) -> Result<u64> {
    // Small numbers as often as extreme ones.
    Ok(match u.int_in_range(0..=3)? {
        0 => u.int_in_range(0..=4)?,
        1 => 1 << u.int_in_range(0..=63)?,
        2 => u.arbitrary()?,
        _ => u.int_in_range(1..=600)?,
    })
}

fn view(u: &mut Unstructured) -> Result<View> {
    let dtype = *u.choose(&[DType::F32, DType::F16, DType::Bf16])?;
    let shape = [number(u)?, number(u)?, number(u)?, number(u)?];
    Ok(match u.int_in_range(0..=2)? {
        0 => View::bhsd(dtype, shape),
        1 => View::bshd(dtype, shape),
        _ => View { shape, strides: [number(u)?, number(u)?, number(u)?, 1], dtype },
    })
}

fn segment(u: &mut Unstructured) -> Result<Segment> {
    let k = view(u)?;
    let mut segment = match u.arbitrary()? {
        true => Segment::shared(k, number(u)?),
        false => Segment::new(k, view(u)?),
    };
    segment = segment.mask(match u.int_in_range(0..=3)? {
        0 => Mask::Full,
        1 => Mask::Causal,
        2 => Mask::Window { left: u.arbitrary()?, right: u.arbitrary()? },
        _ => Mask::Compressed { ratio: number(u)? },
    });
    if u.arbitrary()? {
        segment = segment.paged(number(u)?);
    }
    if u.arbitrary()? {
        segment = segment.packed(number(u)?);
    }
    if u.arbitrary()? {
        segment = segment.indexed(number(u)?);
    }
    if u.arbitrary()? {
        segment = segment.stored(Storage::Model1);
    }
    Ok(if u.arbitrary()? { segment.used() } else { segment })
}

fn check(bytes: &[u8]) -> Result<()> {
    let mut u = Unstructured::new(bytes);
    let mut builder = Problem::builder(view(&mut u)?);
    for _ in 0..u.int_in_range(0..=3)? {
        builder = builder.segment(segment(&mut u)?);
    }
    if u.arbitrary()? {
        let (batch, longest) = (number(&mut u)?, number(&mut u)?);
        builder = builder.query_lengths(QueryLengths::Packed { batch, longest });
    }
    if u.arbitrary()? {
        builder = builder.out(view(&mut u)?);
    }
    let Ok(problem) = builder.scale(u.arbitrary()?).build() else { return Ok(()) };
    let _ = (problem.flops(), problem.lse_len());
    for slot in problem.slots() {
        assert!(problem.slot_bytes(slot) < 1 << 60, "{slot}");
    }
    assert!(attention(&problem, &mut HostBuffers::new(), &Device::cpu()).is_err());
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _ = check(bytes);
});
