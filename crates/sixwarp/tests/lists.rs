//! Index lists as serving engines write them: several tokens per request, lists with gaps between them, lengths,
//! pages of any size and distance, and entries that name no row.

use cases::Rng;
use half::bf16;
use sixwarp::dsv4::model1;
use sixwarp::{
    DType, Device, HostBuffers, HostVec, Problem, Scales, Segment, SegmentSlot, Slot, Storage,
    View, apply_sink, attention, compare, merge,
};

const HEADS: u64 = 8;

/// A cache of pages that lie some bytes apart, and lists of its rows.
struct Cache {
    segment: Segment,
    memory: HostVec,
    lists: Vec<i32>,
    used: Vec<i32>,
}

/// How a cache is laid out and listed.
#[derive(Clone, Copy)]
struct Layout {
    storage: Storage,
    page_rows: u64,
    width: u64,
    gap: u64,
}

impl Layout {
    /// A cache of at least 70 rows for `tokens` lists, of sequences with so many entries in use.
    fn cache(self, rng: &mut Rng, tokens: u64, used: &[i32]) -> Cache {
        let pages = 70u64.div_ceil(self.page_rows) + 1;
        let dim = self.storage.packed().map_or(512, |format| format.dim);
        let rows = View::bhsd(DType::Bf16, [pages, 1, self.page_rows, dim]);
        let mut segment = Segment::shared(rows, 512).stored(self.storage).paged(0).used();
        segment = segment.indexed(self.width).list_pitch(self.width + self.gap);
        if self.storage != Storage::Elements {
            segment.page_bytes = Some(segment.page_stride().next_multiple_of(16) + 32);
        }
        let total = pages * self.page_rows;
        let entry = |n: u64| match n % 7 {
            0 => -1,
            1 => total as i32,
            2 => i32::MAX - (n % 11) as i32,
            _ => (n % total) as i32,
        };
        let places = tokens * (self.width + self.gap);
        let lists = (0..places).map(|_| entry(rng.below(1 << 40))).collect();
        let memory = self.memory(rng, &segment);
        Cache { segment, memory, lists, used: used.to_vec() }
    }

    fn memory(self, rng: &mut Rng, segment: &Segment) -> HostVec {
        let [pages, _, rows, dim] = segment.k.shape;
        let mut numbers = vec![0.0; (pages * rows * dim) as usize];
        rng.fill_normal(&mut numbers);
        let numbers: Vec<bf16> = numbers.into_iter().map(bf16::from_f32).collect();
        let stride = segment.page_stride() as usize;
        let mut bytes = vec![0xff; pages as usize * stride];
        match self.storage {
            Storage::Elements => return HostVec::Bf16(numbers),
            Storage::Model1 => {
                let pages =
                    bytes.chunks_exact_mut(stride).zip(numbers.chunks((rows * dim) as usize));
                pages.for_each(|(page, row)| model1::pack(page, rows as usize, 0, row).unwrap());
            }
            // Any bytes are rows of the others. With their upper bits clear none is NaN, and scales are below 1.
            _ => bytes.iter_mut().for_each(|byte| *byte = rng.below(0x60) as u8),
        }
        HostVec::U8(bytes)
    }
}

/// A problem and its memory.
struct Question {
    problem: Problem,
    q: Vec<bf16>,
    sinks: Vec<f32>,
    caches: Vec<Cache>,
}

impl Question {
    /// `tokens` queries of each request, over caches of which `used` says how many entries count.
    fn new(tokens: u64, layouts: &[Layout], used: &[&[i32]]) -> Self {
        let mut rng = Rng::new(5);
        let requests = used[0].len() as u64;
        let caches = layouts.iter().zip(used);
        let caches: Vec<Cache> =
            caches.map(|(layout, used)| layout.cache(&mut rng, requests * tokens, used)).collect();
        let dim = caches[0].segment.k.dim();
        let mut q = vec![0.0; (requests * tokens * HEADS * dim) as usize];
        rng.fill_normal(&mut q);
        let q = q.into_iter().map(bf16::from_f32).collect();
        let builder = Problem::builder(View::bshd(DType::Bf16, [requests, HEADS, tokens, dim]));
        let segments = caches.iter().map(|cache| cache.segment.clone());
        let builder = segments.fold(builder, |builder, segment| builder.segment(segment));
        let problem = builder.sinks().return_lse().build().unwrap();
        Self { problem, q, sinks: vec![0.5; HEADS as usize], caches }
    }

    fn inputs(&self) -> HostBuffers<'_> {
        let mut buffers =
            HostBuffers::new().input(Slot::Q, &self.q).input(Slot::Sinks, &self.sinks);
        for (n, cache) in self.caches.iter().enumerate() {
            let slot = |part| Slot::Segment(n as u8, part);
            buffers = buffers
                .input(slot(SegmentSlot::K), cache.memory.as_ref())
                .input(slot(SegmentSlot::Indices), &cache.lists)
                .input(slot(SegmentSlot::Used), &cache.used);
        }
        buffers
    }

    fn answer(&self, device: &str) -> (Vec<bf16>, Vec<f32>) {
        let rows = self.problem.lse_len() as usize;
        let (mut out, mut lse) = (vec![bf16::NAN; rows * 512], vec![f32::NAN; rows]);
        let mut buffers = self.inputs().output(Slot::Out, &mut out).output(Slot::Lse, &mut lse);
        let device: Device = device.parse().unwrap();
        attention(&self.problem, &mut buffers, &device).unwrap();
        (out, lse)
    }

    fn judge(&self, out: &[bf16], lse: &[f32], who: &str) {
        let exact = cpu::oracle::oracle(&self.problem, &self.inputs()).unwrap();
        let naive = cpu::naive::naive(&self.problem, &self.inputs()).unwrap();
        let comparison = compare(&self.problem, out.into(), Some(lse), &exact, &naive);
        assert!(comparison.passes(), "{who}: {comparison}");
    }
}

/// Runs on `devices`, and judges them by the oracle. The last request has no entry in use.
fn check(tokens: u64, layouts: &[Layout], used: &[&[i32]], devices: &[&str]) {
    let question = Question::new(tokens, layouts, used);
    for device in devices {
        let (out, lse) = question.answer(device);
        question.judge(&out, &lse, device);
        let last = lse.len() - (HEADS * tokens) as usize;
        assert!(lse[last..].iter().all(|lse| *lse == f32::NEG_INFINITY), "{device}");
        assert!(out[last * 512..].iter().all(|x| *x == bf16::ZERO), "{device}");
    }
}

#[test]
fn tokens_have_lists_of_their_own_in_pages_of_any_size() {
    let layout = |storage, page_rows, width, gap| Layout { storage, page_rows, width, gap };
    for (near, far) in [((1, 40), (256, 70)), ((64, 65), (2, 33))] {
        for storage in [Storage::Elements, Storage::Model1] {
            let layouts = [layout(storage, near.0, near.1, 24), layout(storage, far.0, far.1, 0)];
            check(
                3,
                &layouts,
                &[&[near.1 as i32, 7, 0], &[far.1 as i32, 0, 0]],
                &["cpu", "sim-sm90"],
            );
        }
    }
}

#[test]
fn every_packed_format_is_read_in_pages_that_lie_apart() {
    let formats =
        Storage::ALL.into_iter().filter(|s| !matches!(s, Storage::Elements | Storage::Model1));
    for storage in formats {
        let layout = Layout { storage, page_rows: 3, width: 50, gap: 1 };
        check(2, &[layout], &[&[50, 1, 0]], &["cpu"]);
    }
    let fp4 = Layout { storage: Storage::V41Fp4(Scales::Row), page_rows: 64, width: 40, gap: 0 };
    let fp8 = Layout { storage: Storage::V41Fp8(Scales::Row), page_rows: 2, ..fp4 };
    check(1, &[fp8, fp4], &[&[40, 0], &[40, 0]], &["cpu"]);
}

/// Ranks that hold every third page each compute without the sink, which is applied to what they make together.
#[test]
fn results_of_ranks_take_the_sink_once() {
    let layout = Layout { storage: Storage::Model1, page_rows: 2, width: 40, gap: 3 };
    let whole = Question::new(2, &[layout], &[&[40, 12]]);
    let lists = &whole.caches[0].lists;
    let parts: Vec<_> = (0..3)
        .map(|rank| {
            let mut part = Question::new(2, &[layout], &[&[40, 12]]);
            part.problem = part.problem.with(|parts| parts.sinks = false).expect("valid");
            let own = |entry: i32| if entry / 2 % 3 == rank { entry } else { -1 };
            part.caches[0].lists = lists.iter().map(|entry| own(*entry)).collect();
            part.answer("cpu")
        })
        .collect();
    let view = whole.problem.out;
    let want = whole.answer("cpu");
    let mut merged = (vec![bf16::NAN; want.0.len()], vec![f32::NAN; want.1.len()]);
    let results: Vec<_> = parts.iter().map(|(out, lse)| (out.into(), &lse[..])).collect();
    merge(&view, &results, (&mut merged.0).into(), &mut merged.1).unwrap();
    apply_sink(&view, (&mut merged.0).into(), &merged.1, &whole.sinks).unwrap();
    // Outputs were rounded on their way, by each rank, by the merge and with the sink.
    for (x, y) in merged.0.iter().zip(&want.0) {
        let (x, y) = (x.to_f32(), y.to_f32());
        assert!((x - y).abs() <= y.abs().max(1.0) / 64.0, "{x} {y}");
    }
    assert!(merged.1.iter().zip(&want.1).all(|(x, y)| (x - y).abs() < 1e-4));
}
