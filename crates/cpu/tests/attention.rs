//! The fast engine against the oracle on a few small shapes, and what does not change a row's bits.
//!
//! The table of cases holds the engine to far more.

use problem::{DType, HostBuffers, HostVec, Mask, Problem, Segment, Slot, View};
use sixwarp_cpu::{Isa, attention_on, compare, naive::naive, oracle::oracle};

/// Queries, keys and values of a problem, irregular numbers in -1..1.
struct Tensors {
    q: HostVec,
    k: HostVec,
    v: HostVec,
}

fn numbers(dtype: DType, len: u64, seed: u32) -> HostVec {
    let mut state = seed.wrapping_mul(2654435761).wrapping_add(12345);
    let mut memory = HostVec::filled(dtype, len as usize, 0.0);
    for at in 0..len as usize {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        memory.set(at, (state >> 8) as f32 / (1 << 23) as f32 - 1.0);
    }
    memory
}

impl Tensors {
    fn new(problem: &Problem) -> Self {
        let make = |slot, seed| {
            let dtype = problem.dtype();
            numbers(dtype, problem.slot_bytes(slot) / dtype.bytes(), seed)
        };
        Self { q: make(Slot::Q, 1), k: make(Slot::K, 2), v: make(Slot::V, 3) }
    }

    fn inputs(&self) -> HostBuffers<'_> {
        HostBuffers::new()
            .input(Slot::Q, self.q.as_ref())
            .input(Slot::K, self.k.as_ref())
            .input(Slot::V, self.v.as_ref())
    }

    fn run(&self, problem: &Problem, isa: Isa) -> (HostVec, Vec<f32>) {
        let elements = problem.slot_bytes(Slot::Out) / problem.dtype().bytes();
        let mut out = HostVec::filled(problem.dtype(), elements as usize, f32::NAN);
        let mut lse = vec![f32::NAN; problem.lse_len() as usize];
        let mut buffers = self.inputs().output(Slot::Lse, &mut lse);
        buffers = buffers.output(Slot::Out, out.as_mut().expect("floats"));
        attention_on(isa, problem, &mut buffers).expect("valid inputs");
        (out, lse)
    }
}

fn problem(
    dtype: DType,
    [batch, heads, kv_heads]: [u64; 3],
    [t, s, d]: [u64; 3],
    mask: Mask,
) -> Problem {
    let k = View::bhsd(dtype, [batch, kv_heads, s, d]);
    let segment = Segment::new(k, k).mask(mask);
    let q = View::bhsd(dtype, [batch, heads, t, d]);
    Problem::builder(q).segment(segment).return_lse().build().expect("valid")
}

fn check(problem: &Problem) {
    let tensors = Tensors::new(problem);
    let exact = oracle(problem, &tensors.inputs()).unwrap();
    let yardstick = naive(problem, &tensors.inputs()).unwrap();
    for isa in Isa::detected() {
        let (out, lse) = tensors.run(problem, isa);
        let report = compare(problem, out.as_ref(), Some(&lse), &exact, &yardstick);
        assert!(report.passes(), "{isa:?}: {report}");
    }
}

#[test]
fn decoding_and_prefill_of_every_dtype() {
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        check(&problem(dtype, [1, 2, 1], [1, 99, 9], Mask::Full));
        check(&problem(dtype, [1, 2, 1], [13, 17, 12], Mask::Causal));
    }
    check(&problem(
        DType::F32,
        [2, 1, 1],
        [5, 100, 4],
        Mask::Window { left: Some(3), right: Some(1) },
    ));
}

#[test]
fn an_instruction_set_that_is_not_there_is_done_without() {
    // As many rows as only the longest vectors stream.
    let problem = problem(DType::F32, [1, 8, 1], [1, 5, 4], Mask::Full);
    let tensors = Tensors::new(&problem);
    let want = tensors.run(&problem, Isa::Portable).0;
    for isa in Isa::ALL.iter().filter(|isa| !isa.is_detected()) {
        let (got, _) = tensors.run(&problem, *isa);
        assert_eq!(format!("{got:?}"), format!("{want:?}"), "{isa:?}");
    }
}

#[test]
fn memory_that_a_changed_problem_lacks_is_refused() {
    let problem = problem(DType::F32, [1, 2, 1], [1, 9, 8], Mask::Full);
    let tensors = Tensors::new(&problem);
    let wider = problem.with(|parts| parts.segments[0].k.strides[2] = 1 << 40).expect("valid");
    let (mut out, mut lse) = (vec![0.0; 16], vec![0.0; 2]);
    let inputs = tensors.inputs();
    let mut buffers = inputs.output(Slot::Out, &mut out).output(Slot::Lse, &mut lse);
    let error = attention_on(Isa::best(), &wider, &mut buffers).unwrap_err().to_string();
    assert!(error.starts_with("k: must hold"), "{error}");
}

/// Bits of row `[0, head, token]`.
#[cfg(not(miri))]
fn row(problem: &Problem, out: problem::HostRef, head: u64, token: u64) -> Vec<u64> {
    let at = problem.out.row_offset(0, head, token) as usize;
    (at..at + problem.value_dim() as usize).map(|i| out.get(i).to_bits()).collect()
}

#[test]
#[cfg(not(miri))]
fn bits_do_not_depend_on_threads_or_on_the_rest_of_the_batch() {
    for dtype in [DType::F32, DType::Bf16] {
        for (t, s) in [(1, 5000), (40, 5000), (40, 700), (300, 700)] {
            let alone = problem(dtype, [1, 2, 2], [t, s, 64], Mask::Causal);
            let many = problem(dtype, [3, 2, 2], [t, s, 64], Mask::Causal);
            // The first sequence of `many` has the numbers of `alone`.
            let (few, more) = (Tensors::new(&alone), Tensors::new(&many));
            let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let (one, five) = (pool(1).unwrap(), pool(5).unwrap());
            let want = one.install(|| few.run(&alone, Isa::best())).0;
            let threads = five.install(|| few.run(&alone, Isa::best())).0;
            let batch = five.install(|| more.run(&many, Isa::best())).0;
            for (head, token) in [(0, 0), (1, t / 2), (1, t - 1)] {
                let bits = row(&alone, want.as_ref(), head, token);
                assert_eq!(bits, row(&alone, threads.as_ref(), head, token), "{dtype} {t} threads");
                assert_eq!(bits, row(&many, batch.as_ref(), head, token), "{dtype} {t} batch");
            }
        }
    }
}
