//! The oracle against answers worked out by hand, and against itself under other descriptions of
//! the same attention.

use problem::{
    AttnMask, DType, HostBuffers, HostMut, HostRef, Mask, MaskElement, Problem, QueryLengths,
    Segment, SegmentSlot, Slot, View,
};
use sixwarp_cpu::oracle::oracle;
use sixwarp_cpu::{Reference, compare, naive::naive};

const SEG1_K: Slot = Slot::Segment(1, SegmentSlot::K);
const SEG1_V: Slot = Slot::Segment(1, SegmentSlot::V);

fn view(shape: [u64; 4]) -> View {
    View::bhsd(DType::F32, shape)
}

/// A fixed, irregular sequence in -1..1.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2654435761).wrapping_add(12345);
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

fn close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!(x == y || (x - y).abs() < 1e-12, "{i}: {x} {y}");
    }
}

fn run(problem: &Problem, buffers: HostBuffers) -> Reference {
    oracle(problem, &buffers).expect("valid inputs")
}

#[test]
fn one_key_gives_its_value_and_a_sink_of_equal_logit_halves_it() {
    let (q, k, v) = (vec![2.0f32, 0.0], vec![3.0f32, 5.0], vec![10.0f32, -4.0]);
    let one = view([1, 1, 1, 2]);
    let base = || Problem::builder(one).segment(Segment::new(one, one)).scale(0.5);
    let buffers = || HostBuffers::new().input(Slot::Q, &q).input(Slot::K, &k).input(Slot::V, &v);

    let plain = run(&base().build().unwrap(), buffers());
    close(&plain.out, &[10.0, -4.0]);
    close(&plain.lse, &[3.0]);

    let sinks = vec![3.0f32];
    let sunk = run(&base().sinks().build().unwrap(), buffers().input(Slot::Sinks, &sinks));
    close(&sunk.out, &[5.0, -2.0]);
    close(&sunk.lse, &[3.0]);

    let capped = run(&base().softcap(2.0).build().unwrap(), buffers());
    close(&capped.lse, &[2.0 * 1.5f64.tanh()]);
}

#[test]
fn causal_is_bottom_right_and_rows_without_keys_are_zero() {
    let (q, k) = (vec![0.0f32; 3], vec![0.0f32; 2]);
    let v = vec![1.0f32, 3.0];
    let keys = view([1, 1, 2, 1]);
    let problem = Problem::builder(view([1, 1, 3, 1]))
        .segment(Segment::new(keys, keys).mask(Mask::Causal))
        .build()
        .unwrap();
    let buffers = HostBuffers::new().input(Slot::Q, &q).input(Slot::K, &k).input(Slot::V, &v);
    let result = run(&problem, buffers);
    close(&result.out, &[0.0, 1.0, 2.0]);
    close(&result.lse, &[f64::NEG_INFINITY, 0.0, 2f64.ln()]);
}

#[test]
fn compressed_keys_appear_once_their_last_token_has_passed() {
    let (q, k) = (vec![0.0f32; 3], vec![0.0f32; 3]);
    let v = vec![1.0f32, 3.0, 100.0];
    let keys = view([1, 1, 3, 1]);
    let problem = Problem::builder(view([1, 1, 3, 1]))
        .segment(Segment::new(keys, keys).mask(Mask::Compressed { ratio: 4 }))
        .build()
        .unwrap();
    let positions = vec![5i32];
    let buffers = HostBuffers::new()
        .input(Slot::Q, &q)
        .input(Slot::K, &k)
        .input(Slot::V, &v)
        .input(Slot::Positions, &positions);
    // Positions 5, 6, 7 see floor(6/4), floor(7/4) and floor(8/4) keys.
    close(&run(&problem, buffers).out, &[1.0, 1.0, 2.0]);
}

#[test]
fn two_segments_are_one_softmax_over_all_their_keys() {
    let q = numbers(2 * 4 * 3, 1);
    let (k, v) = (numbers(2 * 7 * 4, 2), numbers(2 * 7 * 4, 3));
    let cut = |x: &[f32], from: usize, to: usize| -> Vec<f32> {
        x.chunks(7 * 4).flat_map(|head| head[from * 4..to * 4].to_vec()).collect()
    };
    let queries = view([1, 2, 3, 4]);
    let whole = view([1, 2, 7, 4]);
    let joined = Problem::builder(queries).segment(Segment::new(whole, whole)).build().unwrap();
    let joined =
        run(&joined, HostBuffers::new().input(Slot::Q, &q).input(Slot::K, &k).input(Slot::V, &v));
    let (a, b) = (view([1, 2, 5, 4]), view([1, 2, 2, 4]));
    let split = Problem::builder(queries)
        .segment(Segment::new(a, a))
        .segment(Segment::new(b, b))
        .build()
        .unwrap();
    let (k0, v0, k1, v1) = (cut(&k, 0, 5), cut(&v, 0, 5), cut(&k, 5, 7), cut(&v, 5, 7));
    let buffers = HostBuffers::new()
        .input(Slot::Q, &q)
        .input(Slot::K, &k0)
        .input(Slot::V, &v0)
        .input(SEG1_K, &k1)
        .input(SEG1_V, &v1);
    let split = run(&split, buffers);
    close(&joined.out, &split.out);
    close(&joined.lse, &split.lse);
}

/// The same two ragged sequences, packed, paged and listed.
#[test]
fn packed_paged_and_listed_keys_agree() {
    let q = numbers(4, 1);
    let packed_k = numbers(5 * 2, 2);
    let queries = view([1, 1, 2, 2]);
    let packed = view([1, 1, 5, 2]);
    let base =
        || Problem::builder(queries).query_lengths(QueryLengths::Packed { batch: 2, longest: 1 });
    let (cu_q, cu_k) = (vec![0i32, 1, 2], vec![0i32, 2, 5]);
    let inputs = || HostBuffers::new().input(Slot::Q, &q).input(Slot::CuSeqlensQ, &cu_q);
    let part = |p| Slot::Segment(0, p);

    let problem = base().segment(Segment::shared(packed, 2).packed(3)).build().unwrap();
    let want = run(
        &problem,
        inputs().input(Slot::K, &packed_k).input(part(SegmentSlot::CuSeqlens), &cu_k),
    );

    // Pages of 2: sequence 0 in page 1, sequence 1 in pages 2 and 0; everything else is NaN.
    let row = |i: usize| [packed_k[2 * i], packed_k[2 * i + 1]];
    let nan = [f32::NAN; 2];
    let pool: Vec<f32> = [row(4), nan, row(0), row(1), row(2), row(3), nan, nan].concat();
    let pages = view([4, 1, 2, 2]);
    let table = vec![1i32, -1, 2, 0];
    let used = vec![2i32, 3];
    let problem = base().segment(Segment::shared(pages, 2).paged(2).used()).build().unwrap();
    let paged = run(
        &problem,
        inputs()
            .input(Slot::K, &pool)
            .input(part(SegmentSlot::PageTable), &table)
            .input(part(SegmentSlot::Used), &used),
    );
    close(&want.out, &paged.out);
    close(&want.lse, &paged.lse);

    let lists = vec![3i32, -1, 2, 5, 0, 4];
    let problem = base().segment(Segment::shared(pages, 2).paged(0).indexed(3)).build().unwrap();
    let listed =
        run(&problem, inputs().input(Slot::K, &pool).input(part(SegmentSlot::Indices), &lists));
    close(&want.out, &listed.out);
    close(&want.lse, &listed.lse);
}

#[test]
fn impossible_memory_is_refused_by_name() {
    let one = view([1, 1, 1, 2]);
    let pages = view([4, 1, 2, 2]);
    let (q, pool) = (vec![0.0f32; 2], vec![0.0f32; 16]);
    let problem =
        Problem::builder(one).segment(Segment::shared(pages, 2).paged(2).used()).build().unwrap();
    let check = |table: &[i32], used: &[i32], message: &str| {
        let buffers = HostBuffers::new()
            .input(Slot::Q, &q)
            .input(Slot::K, &pool)
            .input(Slot::Segment(0, SegmentSlot::PageTable), table)
            .input(Slot::Segment(0, SegmentSlot::Used), used);
        match oracle(&problem, &buffers) {
            Ok(_) => assert_eq!(message, ""),
            Err(error) => assert_eq!(error.to_string(), message),
        }
    };
    check(&[0, 99], &[2], "");
    check(&[0], &[2], "page_table: must hold 2 elements (memory rule 1), but it is 1");
    let rule = "must lie in 0..4 (memory rule 4)";
    check(&[0, 4], &[3], &format!("page_table: entry [0,1] {rule}, but it is 4"));
    let rule = "must lie in 0..=4 (memory rule 3)";
    check(&[0, 0], &[5], &format!("seqused_k: entry 0 {rule}, but it is 5"));
    let missing = oracle(&problem, &HostBuffers::new()).unwrap_err().to_string();
    assert_eq!(missing, "q: needs memory (memory rule 1), but it is missing");
}

/// Lists hold anything: entries that name no row, or that are past those in use, are skipped.
#[test]
fn list_entries_that_name_no_row_are_skipped() {
    let rows = view([2, 1, 4, 2]);
    let packed = QueryLengths::Packed { batch: 2, longest: 1 };
    let problem = Problem::builder(view([1, 1, 3, 2]))
        .query_lengths(packed)
        .segment(Segment::shared(rows, 2).indexed(2).used())
        .build()
        .unwrap();
    let (q, keys) = (vec![0.0f32; 6], Vec::from_iter((0..16).map(|x| x as f32)));
    let check = |lists: &[i32], want: [f64; 2]| {
        let buffers = HostBuffers::new()
            .input(Slot::Q, &q)
            .input(Slot::CuSeqlensQ, &[0, 1, 2][..])
            .input(Slot::K, &keys)
            .input(Slot::Segment(0, SegmentSlot::Used), &[1, 2][..])
            .input(Slot::Segment(0, SegmentSlot::Indices), lists);
        let found = oracle(&problem, &buffers).unwrap().out;
        assert_eq!([found[0], found[2]], want);
    };
    // The first columns of the second sequence's keys are 8, 10, 12, 14.
    check(&[3, i32::MAX, 0, -5, i32::MAX, i32::MIN], [6.0, 8.0]);
    check(&[4, 0, 0, 0, 0, 0], [0.0, 8.0]);
    check(&[0, 0, 3, 9, 0, 0], [0.0, 14.0]);
    check(&[i32::MAX, 1, 4, i32::MAX, 0, 0], [0.0, 0.0]);
}

#[test]
fn comparison_accepts_rounding_and_refuses_errors_and_nan() {
    let shape = view([1, 2, 5, 8]);
    let (q, k, v) = (numbers(80, 1), numbers(80, 2), numbers(80, 3));
    let problem =
        Problem::builder(shape).segment(Segment::new(shape, shape)).return_lse().build().unwrap();
    let buffers = HostBuffers::new().input(Slot::Q, &q).input(Slot::K, &k).input(Slot::V, &v);
    let exact = oracle(&problem, &buffers).unwrap();
    let yardstick = naive(&problem, &buffers).unwrap();
    let out: Vec<f32> = exact.out.iter().map(|x| *x as f32).collect();
    let lse: Vec<f32> = exact.lse.iter().map(|x| *x as f32).collect();
    let judge = |out: &[f32], lse: &[f32]| {
        compare(&problem, HostRef::F32(out), Some(lse), &exact, &yardstick)
    };
    assert!(judge(&out, &lse).passes());

    let mut wrong = out.clone();
    wrong[8 * 5 + 8 + 3] += 1e-3;
    let report = judge(&wrong, &lse);
    assert!(!report.passes());
    assert_eq!(report.worst.unwrap().at, [0, 1, 1, 3]);

    let mut poisoned = out.clone();
    poisoned[7] = f32::NAN;
    assert!(!judge(&poisoned, &lse).passes());

    let mut wrong = lse.clone();
    wrong[4] += 2e-4;
    assert!(!judge(&out, &wrong).passes());
    wrong[4] = f32::NAN;
    assert!(!judge(&out, &wrong).passes());
}

/// One query of two heads over three keys with scores 0, whose values are 1, 2 and 4.
fn masked(mask: AttnMask, memory: HostRef) -> Reference {
    let (q, k, v) = ([0.0f32; 2], [0.0f32; 6], [1.0f32, 2.0, 4.0, 1.0, 2.0, 4.0]);
    let keys = view([1, 2, 3, 1]);
    let segment = Segment::new(keys, keys).attn_mask(mask);
    let problem = Problem::builder(view([1, 2, 1, 1])).segment(segment).build().unwrap();
    let inputs = HostBuffers::new().input(Slot::Q, &q[..]).input(Slot::K, &k[..]);
    let slot = Slot::Segment(0, SegmentSlot::AttnMask);
    run(&problem, inputs.input(Slot::V, &v[..]).input(slot, memory))
}

#[test]
fn a_mask_tensor_hides_keys_or_is_added_to_scores() {
    let bools = AttnMask::new(MaskElement::Bool, [1, 2, 1, 3]);
    let hidden = masked(bools, HostRef::U8(&[1, 0, 255, 0, 0, 0]));
    close(&hidden.out, &[2.5, 0.0]);
    close(&hidden.lse, &[2f64.ln(), f64::NEG_INFINITY]);
    let floats = AttnMask::new(MaskElement::Float(DType::F64), [1, 1, 1, 3]);
    let added = masked(floats, HostRef::F64(&[3f64.ln(), f64::NEG_INFINITY, 0.0]));
    close(&added.out, &[7.0 / 4.0, 7.0 / 4.0]);
    close(&added.lse, &[4f64.ln(), 4f64.ln()]);
}

#[test]
fn only_minus_infinity_hides_and_other_biases_are_kept_finite() {
    let floats = AttnMask::new(MaskElement::Float(DType::F32), [1, 1, 1, 3]);
    let lowest = masked(floats, HostRef::F32(&[f32::MIN; 3]));
    close(&lowest.out, &[7.0 / 3.0; 2]);
    assert_eq!(lowest.lse[0], -1e38f32 as f64);
    let most = masked(floats, HostRef::F32(&[0.0, f32::MAX, f32::INFINITY]));
    close(&most.out, &[3.0; 2]);
    let nan = masked(floats, HostRef::F32(&[0.0, f32::NAN, 0.0]));
    assert!(nan.out[0].is_nan() && nan.lse[0].is_nan());
    let one_row = masked(floats.with_strides([9, 9, 9, 0]), HostRef::F32(&[1.0]));
    close(&one_row.out, &[7.0 / 3.0; 2]);
}

#[test]
fn a_batch_may_be_empty() {
    let none = View::bhsd(DType::F32, [0, 2, 3, 4]);
    let mask = AttnMask::new(MaskElement::Bool, [0, 1, 3, 3]);
    let segment = Segment::new(none, none).attn_mask(mask);
    let problem = Problem::builder(none).segment(segment).return_lse().build().unwrap();
    let (no, no_bytes): ([f32; 0], [u8; 0]) = ([], []);
    let slot = Slot::Segment(0, SegmentSlot::AttnMask);
    let inputs = || {
        let inputs = HostBuffers::new().input(Slot::Q, &no[..]).input(Slot::K, &no[..]);
        inputs.input(Slot::V, &no[..]).input(slot, &no_bytes[..])
    };
    assert!(run(&problem, inputs()).out.is_empty());
    let mut outputs: [[f32; 0]; 2] = [[], []];
    let [out, lse] = outputs.each_mut().map(|memory| HostMut::F32(memory));
    let mut buffers = inputs().output(Slot::Out, out).output(Slot::Lse, lse);
    sixwarp_cpu::attention(&problem, &mut buffers).unwrap();
}

#[test]
fn double_precision_is_kept() {
    let numbers = |seed| numbers(24, seed).into_iter().map(f64::from).collect::<Vec<_>>();
    let (q, k, v) = (numbers(1), numbers(2), numbers(3));
    let rows = View::bhsd(DType::F64, [1, 2, 3, 4]);
    let segment = Segment::new(rows, rows).mask(Mask::Causal);
    let problem = Problem::builder(rows).segment(segment).build().unwrap();
    let inputs = || HostBuffers::new().input(Slot::Q, &q).input(Slot::K, &k).input(Slot::V, &v);
    let mut out = vec![0.0f64; 24];
    sixwarp_cpu::attention(&problem, &mut inputs().output(Slot::Out, &mut out)).unwrap();
    close(&out, &run(&problem, inputs()).out);
    assert!(out.iter().any(|x| f64::from(*x as f32) != *x), "rounded to single precision");
    let mut narrow = vec![0.0f32; 24];
    let error = sixwarp_cpu::attention(&problem, &mut inputs().output(Slot::Out, &mut narrow));
    assert!(error.unwrap_err().to_string().starts_with("out: needs memory for 24 f64"));
}

/// Attention over scores of this size, of which f32 keeps only so many digits.
struct Scaled {
    problem: Problem,
    exact: Reference,
    yardstick: Reference,
}

impl Scaled {
    fn new(scale: f32) -> Self {
        let shape = view([1, 2, 5, 64]);
        let (q, k, v) = (numbers(640, 1), numbers(640, 2), numbers(640, 3));
        let problem = Problem::builder(shape).segment(Segment::new(shape, shape)).scale(scale);
        let problem = problem.return_lse().build().unwrap();
        let buffers = HostBuffers::new().input(Slot::Q, &q).input(Slot::K, &k).input(Slot::V, &v);
        let exact = oracle(&problem, &buffers).unwrap();
        let yardstick = naive(&problem, &buffers).unwrap();
        Self { problem, exact, yardstick }
    }

    /// Whether a result is accepted whose log-sum-exps and outputs are off by a factor of the largest score's
    /// magnitude.
    fn accepts(&self, lse_error: f64, out_error: f64) -> bool {
        let lse = self.exact.lse.iter().zip(&self.exact.magnitudes);
        let lse: Vec<f32> = lse.map(|(x, m)| (x + lse_error * m.scores) as f32).collect();
        let out = self.exact.out.iter().enumerate().map(|(i, x)| {
            let of_row = self.exact.magnitudes[i / 64];
            let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
            (x + sign * out_error * of_row.scores * of_row.values) as f32
        });
        let out: Vec<f32> = out.collect();
        let (exact, yardstick) = (&self.exact, &self.yardstick);
        compare(&self.problem, HostRef::F32(&out), Some(&lse), exact, yardstick).passes()
    }
}

/// What is accepted grows with the scores, as rounding does; an error of a hundred roundings never is.
#[test]
fn comparison_scales_as_rounding_does() {
    let rounding = 2f64.powi(-24);
    for scale in [1000.0, 1e6, 1e12] {
        let scaled = Scaled::new(scale);
        assert!(scaled.accepts(4.0 * rounding, 0.5 * rounding), "{scale}");
        assert!(!scaled.accepts(100.0 * rounding, 0.0), "{scale}");
    }
    assert!(!Scaled::new(1000.0).accepts(0.0, 100.0 * rounding));
    // Where scores are small, so are the errors: 1e-4 and 1e-3 are none of rounding.
    let small = Scaled::new(0.125);
    assert!(small.accepts(0.0, 0.0));
    let unit = small.exact.magnitudes[0].scores;
    assert!(!small.accepts(2e-4 / unit, 0.0) && !small.accepts(0.0, 1e-3 / unit));
}

/// Small outputs are held to as much as large ones: nothing is accepted only because it is near 0.
#[test]
fn comparison_holds_small_values_to_their_own_size() {
    let shape = view([1, 1, 4, 8]);
    let (q, k) = (numbers(32, 1), numbers(32, 2));
    let v: Vec<f32> = numbers(32, 3).iter().map(|x| x * 1e-20).collect();
    let problem = Problem::builder(shape).segment(Segment::new(shape, shape)).build().unwrap();
    let buffers = HostBuffers::new().input(Slot::Q, &q).input(Slot::K, &k).input(Slot::V, &v);
    let (exact, yardstick) =
        (oracle(&problem, &buffers).unwrap(), naive(&problem, &buffers).unwrap());
    let judge = |f: &dyn Fn(f64) -> f64| {
        let out: Vec<f32> = exact.out.iter().map(|x| f(*x) as f32).collect();
        compare(&problem, HostRef::F32(&out), None, &exact, &yardstick).passes()
    };
    assert!(judge(&|x| x));
    assert!(!judge(&|_| 0.0) && !judge(&|x| x + 1e-22) && !judge(&|x| 1.01 * x));
}

/// Where the oracle is not finite the result must not be either, and nowhere else.
#[test]
fn comparison_wants_nan_and_infinity_where_they_belong() {
    let shape = view([1, 1, 3, 2]);
    let (q, k) = (vec![0.0f32, 0.0, 0.0, 0.0, f32::NAN, 0.0], vec![0.0f32; 6]);
    let v = vec![1.0f32, f32::INFINITY, 2.0, 3.0, 4.0, 5.0];
    let problem = Problem::builder(shape).segment(Segment::new(shape, shape));
    let problem = problem.return_lse().build().unwrap();
    let buffers = HostBuffers::new().input(Slot::Q, &q).input(Slot::K, &k).input(Slot::V, &v);
    let (exact, yardstick) =
        (oracle(&problem, &buffers).unwrap(), naive(&problem, &buffers).unwrap());
    let judge = |out: [f32; 6], lse: [f32; 3]| {
        compare(&problem, HostRef::F32(&out), Some(&lse), &exact, &yardstick).passes()
    };
    let (mean, inf, nan) = (7.0 / 3.0, f32::INFINITY, f32::NAN);
    let lse = [3f32.ln(), 3f32.ln(), nan];
    assert!(judge([mean, inf, mean, inf, nan, nan], lse));
    // A probability that an engine rounds to 0 gives NaN.
    assert!(judge([mean, nan, mean, inf, nan, nan], lse));
    assert!(!judge([mean, -inf, mean, inf, nan, nan], lse));
    assert!(!judge([mean, 1e38, mean, inf, nan, nan], lse));
    assert!(!judge([nan, inf, mean, inf, nan, nan], lse));
    assert!(!judge([inf, inf, mean, inf, nan, nan], lse));
    assert!(!judge([mean, inf, mean, inf, 0.0, nan], lse));
    assert!(!judge([mean, inf, mean, inf, inf, nan], lse));
    assert!(!judge([mean, inf, mean, inf, nan, nan], [lse[0], nan, nan]));
    assert!(!judge([mean, inf, mean, inf, nan, nan], [lse[0], lse[1], 0.0]));
}

/// Keys that score −∞ are hidden, with whatever value they have; scores of +∞ and NaN leave nothing.
#[test]
fn scores_that_are_not_finite() {
    let (queries, keys) = (view([1, 1, 1, 1]), view([1, 1, 2, 1]));
    let problem = Problem::builder(queries).segment(Segment::new(keys, keys)).scale(1.0);
    let problem = problem.build().unwrap();
    let (q, v) = (vec![1.0f32], vec![7.0f32, f32::NAN]);
    let with_keys = |k: [f32; 2]| {
        let buffers = HostBuffers::new().input(Slot::Q, &q).input(Slot::K, &k[..]);
        let result = run(&problem, buffers.input(Slot::V, &v));
        (result.out[0], result.lse[0])
    };
    assert_eq!(with_keys([0.5, f32::NEG_INFINITY]), (7.0, 0.5));
    assert_eq!(with_keys([f32::NEG_INFINITY; 2]), (0.0, f64::NEG_INFINITY));
    let (out, lse) = with_keys([0.5, 0.5]);
    assert!(out.is_nan() && lse == 0.5 + 2f64.ln());
    for key in [f32::INFINITY, f32::NAN] {
        let (out, lse) = with_keys([key, f32::NEG_INFINITY]);
        assert!(out.is_nan() && lse.is_nan(), "{key}");
    }
}
