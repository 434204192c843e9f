//! The kernel that merges results, on simulated GPUs, against the merge on the host.

use half::{bf16, f16};
use sixwarp::{
    DType, Device, Error, HostMut, HostRef, HostVec, MOST_PARTS, View, apply_sink, merge,
    plan_merge,
};

const DEVICES: [&str; 2] = ["sim-sm90", "sim-sm100"];

/// Numbers between -1 and 1 that look random enough.
fn values(count: usize, seed: u64) -> Vec<f32> {
    let number = |i: u64| ((i + seed * 7919).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32;
    (0..count as u64).map(|i| number(i) / (1 << 23) as f32 - 1.0).collect()
}

fn rounded(dtype: DType, values: &[f32]) -> HostVec {
    match dtype {
        DType::F16 => HostVec::F16(values.iter().map(|x| f16::from_f32(*x)).collect()),
        DType::Bf16 => HostVec::Bf16(values.iter().map(|x| bf16::from_f32(*x)).collect()),
        _ => HostVec::F32(values.to_vec()),
    }
}

/// Parts of a merge.
struct Parts {
    view: View,
    outs: Vec<HostVec>,
    lses: Vec<Vec<f32>>,
}

impl Parts {
    /// Some parts of some rows, and all parts of some, have seen no key, and hold garbage there.
    fn new(view: View, count: usize) -> Self {
        let rows = view.shape[..3].iter().product::<u64>() as usize;
        let span = view.span().unwrap() as usize;
        let mut outs: Vec<Vec<f32>> = (0..count).map(|n| values(span, n as u64)).collect();
        let mut lses: Vec<Vec<f32>> = (0..count)
            .map(|n| values(rows, 100 + n as u64).into_iter().map(|x| 30.0 * x).collect())
            .collect();
        let nothing = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN];
        for (n, (out, lse)) in outs.iter_mut().zip(&mut lses).enumerate() {
            for row in (0..rows).filter(|row| row % 5 == 1 || (row + n) % 4 == 0) {
                lse[row] = nothing[(row + n) % 3];
                let [_, heads, tokens, dim] = view.shape;
                let at = |d: u64| row as u64 / [heads * tokens, tokens, 1][d as usize];
                let (b, h, t) = (at(0), at(1) % heads, at(2) % tokens);
                let offset = view.row_offset(b, h, t) as usize;
                out[offset..offset + dim as usize].fill(f32::NAN);
            }
        }
        Parts { view, outs: outs.iter().map(|out| rounded(view.dtype, out)).collect(), lses }
    }

    fn parts(&self) -> Vec<(HostRef<'_>, &[f32])> {
        self.outs.iter().map(HostVec::as_ref).zip(self.lses.iter().map(Vec::as_slice)).collect()
    }

    fn on_host(&self, sinks: Option<&[f32]>) -> (HostVec, Vec<f32>) {
        let (mut out, mut lse) = self.room();
        merge(&self.view, &self.parts(), out.as_mut().expect("floats"), &mut lse).unwrap();
        if let Some(sinks) = sinks {
            apply_sink(&self.view, out.as_mut().expect("floats"), &lse, sinks).unwrap();
        }
        (out, lse)
    }

    fn on(&self, device: &str, align: u64, sinks: Option<&[f32]>) -> (HostVec, Vec<f32>) {
        let device: Device = device.parse().unwrap();
        let plan =
            plan_merge(&self.view, self.outs.len(), sinks.is_some(), align, &device).unwrap();
        let (mut out, mut lse) = self.room();
        plan.run(&self.parts(), sinks, out.as_mut().expect("floats"), &mut lse).unwrap();
        (out, lse)
    }

    /// Between rows lies what nobody may touch.
    fn room(&self) -> (HostVec, Vec<f32>) {
        let untouched = vec![7.0; self.view.span().unwrap() as usize];
        (rounded(self.view.dtype, &untouched), vec![7.0; self.lses[0].len()])
    }

    fn check(&self, align: u64, sinks: Option<&[f32]>) {
        let (want, want_lse) = self.on_host(sinks);
        for device in DEVICES {
            let what = format!("{} in {} parts on {device}", self.view, self.outs.len());
            let (got, lse) = self.on(device, align, sinks);
            let near = |a: f64, b: f64, bound: f64| a == b || (a - b).abs() <= bound;
            let bound = match self.view.dtype {
                DType::Bf16 => 8e-3,
                DType::F16 => 1e-3,
                _ => 1e-5,
            };
            for at in 0..want.as_ref().len() {
                let (got, want) = (got.as_ref().get(at), want.as_ref().get(at));
                assert!(near(got, want, bound), "{what}: element {at} is {got}, not {want}");
            }
            for (row, (got, want)) in lse.iter().zip(&want_lse).enumerate() {
                let (got, want) = (f64::from(*got), f64::from(*want));
                let close = near(got, want, 1e-5 * want.abs().max(1.0));
                assert!(close, "{what}: lse of row {row} is {got}, not {want}");
            }
        }
    }
}

#[test]
fn parts_of_every_type_and_layout_merge() {
    let shape = [2, 3, 5, 72];
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        for (view, align) in [
            (View::bhsd(dtype, shape), 16),
            (View::bshd(dtype, shape), 2 * dtype.bytes()),
            (View::bshd(dtype, [1, 3, 4, 37]), 16),
            // A head's rows in the columns of a wider tensor.
            (View::bhsd(dtype, shape).with_strides([1600, 500, 100, 1]), 16),
        ] {
            Parts::new(view, 3).check(align, None);
        }
    }
}

#[test]
fn sinks_and_numbers_of_parts() {
    let sinks = [1.0, f32::NEG_INFINITY, f32::INFINITY, 1e30];
    for parts in [1, 2, 9, MOST_PARTS] {
        Parts::new(View::bshd(DType::Bf16, [1, 4, 3, 160]), parts).check(16, Some(&sinks));
    }
}

#[test]
fn rows_near_the_largest_number_do_not_overflow() {
    let view = View::bhsd(DType::F32, [1, 1, 1, 4]);
    let outs = vec![HostVec::F32(vec![f32::MAX; 4]); 3];
    let parts = Parts { view, outs, lses: vec![vec![1.0]; 3] };
    for device in DEVICES {
        let (out, _) = parts.on(device, 16, None);
        assert!((0..4).all(|at| out.as_ref().get(at) >= 0.9999 * f64::from(f32::MAX)), "{out:?}");
    }
}

#[test]
fn what_cannot_be_merged_is_named() {
    let view = View::bhsd(DType::Bf16, [1, 2, 1, 8]);
    let device: Device = "sim-sm90".parse().unwrap();
    let refused = |view: &View, parts, device: &Device| {
        plan_merge(view, parts, false, 16, device).unwrap_err().to_string()
    };
    assert!(refused(&view, 2, &Device::cpu()).starts_with("device: is a GPU"));
    assert!(refused(&view, MOST_PARTS + 1, &device).contains("65 parts"));
    let wide = View { dtype: DType::F64, ..view };
    assert!(refused(&wide, 2, &device).contains("f64"));
    let plan = plan_merge(&view, 1, false, 16, &device).unwrap();
    let out = [bf16::ZERO; 16];
    let run = |parts: &[(HostRef, &[f32])], sinks| {
        plan.run(parts, sinks, HostMut::Bf16(&mut [bf16::ZERO; 16]), &mut [0.0; 2])
    };
    let part = (HostRef::Bf16(&out), &[0.0f32; 2][..]);
    run(&[part], None).unwrap();
    for (given, sinks) in [
        (&[part, part][..], None),
        (&[(HostRef::Bf16(&out[1..]), part.1)][..], None),
        (&[(part.0, &part.1[1..])][..], None),
        (&[part][..], Some(&[0.0f32, 1.0][..])),
    ] {
        assert!(matches!(run(given, sinks), Err(Error::Invalid(_))));
    }
    assert!(plan.prepare().is_err(), "a simulated GPU launches nothing");
}
