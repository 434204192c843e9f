//! Memory beyond the tensors grows neither with the number of keys nor with the number of calls.

use problem::{DType, HostBuffers, HostMut, Problem, Segment, Slot, View};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

/// The system's allocator, counting bytes.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is the system allocator's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held by the test that counts.
static COUNTING: Mutex<()> = Mutex::new(());

/// The most bytes that one call allocates, on a thread of its own: what it kept for the next call is
/// freed before this returns, and not during the next count.
fn extra(queries: u64, keys: u64) -> usize {
    std::thread::spawn(move || extra_here(queries, keys)).join().unwrap()
}

fn problem(queries: u64, keys: u64) -> Problem {
    let (q, k) =
        (View::bhsd(DType::Bf16, [1, 4, queries, 64]), View::bhsd(DType::Bf16, [1, 1, keys, 64]));
    Problem::builder(q).segment(Segment::new(k, k)).build().unwrap()
}

fn extra_here(queries: u64, keys: u64) -> usize {
    let problem = problem(queries, keys);
    let zeros = |slot| vec![half::bf16::ZERO; problem.slot_bytes(slot) as usize / 2];
    let (q, k, v, mut out) = (zeros(Slot::Q), zeros(Slot::K), zeros(Slot::V), zeros(Slot::Out));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().unwrap();
    pool.install(|| {
        let mut buffers = HostBuffers::new()
            .input(Slot::Q, &q)
            .input(Slot::K, &k)
            .input(Slot::V, &v)
            .output(Slot::Out, HostMut::Bf16(&mut out));
        let before = NOW.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        sixwarp_cpu::attention(&problem, &mut buffers).unwrap();
        MOST.load(Ordering::Relaxed) - before
    })
}

#[test]
fn extra_memory_does_not_grow_with_keys() {
    let _counting = COUNTING.lock();
    for (queries, most) in [(1, 1 << 19), (64, 4 << 20)] {
        let (short, long) = (extra(queries, 40_000), extra(queries, 160_000));
        assert!(long <= short + 4096, "{queries} queries: {short} then {long} bytes");
        assert!(long < most, "{queries} queries: {long} bytes");
    }
}

#[test]
fn memory_does_not_grow_with_calls_while_the_other_threads_are_busy() {
    let _counting = COUNTING.lock();
    let problem = problem(64, 4);
    let zeros = |slot| vec![half::bf16::ZERO; problem.slot_bytes(slot) as usize / 2];
    let (q, k, v, mut out) = (zeros(Slot::Q), zeros(Slot::K), zeros(Slot::V), zeros(Slot::Out));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let (begin, begun) = mpsc::channel();
    let (free, busy) = mpsc::channel::<()>();
    pool.spawn(move || {
        begin.send(()).unwrap();
        let _ = busy.recv();
    });
    begun.recv().unwrap();
    let grown = pool.install(|| {
        let mut buffers = HostBuffers::new()
            .input(Slot::Q, &q)
            .input(Slot::K, &k)
            .input(Slot::V, &v)
            .output(Slot::Out, HostMut::Bf16(&mut out));
        let mut call = || sixwarp_cpu::attention(&problem, &mut buffers).unwrap();
        (0..10).for_each(|_| call());
        let before = NOW.load(Ordering::Relaxed);
        (0..2000).for_each(|_| call());
        NOW.load(Ordering::Relaxed).saturating_sub(before)
    });
    drop(free);
    assert!(grown < 4096, "2000 calls left {grown} bytes");
}
