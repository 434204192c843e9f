//! DeepSeek-V4 layers: decoding token by token gives what prefill gives, on CPU, oracle and a simulated Hopper,
//! with plain and with fp8 rows.

use cases::Rng;
use half::bf16;
use sixwarp::dsv4::{
    Core, HEAD_DIM, Layer, NewTokens, Pool, Requests, WINDOW, model1, physical_rows, window_list,
};
use sixwarp::{
    Device, HostBuffers, HostRef, HostVec, Problem, SegmentSlot, Slot, Storage, attention,
};

const HEADS: u64 = 8;
const DIM: usize = HEAD_DIM as usize;
const PAGE: u64 = 4;
const TOKENS: u64 = 300;
const FIRST: u64 = 250;
const INDICES: SegmentSlot = SegmentSlot::Indices;

fn random_rows(rng: &mut Rng, rows: u64) -> Vec<bf16> {
    let mut values = vec![0.0; rows as usize * DIM];
    rng.fill_normal(&mut values);
    values.into_iter().map(bf16::from_f32).collect()
}

/// A sequence: queries from `FIRST` on, a row per token, compressed rows.
struct Sequence {
    queries: Vec<bf16>,
    tokens: Vec<bf16>,
    compressed: Vec<bf16>,
    sinks: Vec<f32>,
}

impl Sequence {
    fn new(layer: Layer) -> Self {
        let mut rng = Rng::new(4);
        let compressed = layer.visible_rows(TOKENS - 1);
        let mut sequence = Self {
            queries: random_rows(&mut rng, (TOKENS - FIRST) * HEADS),
            tokens: random_rows(&mut rng, TOKENS),
            compressed: random_rows(&mut rng, compressed),
            sinks: vec![0.0; HEADS as usize],
        };
        rng.fill_normal(&mut sequence.sinks);
        // What fp8 can hold, so that both storages have the same rows.
        for rows in [&mut sequence.tokens, &mut sequence.compressed] {
            let count = rows.len() / DIM;
            let mut page = vec![0; Storage::model1_page_bytes(count as u64) as usize];
            model1::pack(&mut page, count, 0, rows).unwrap();
            let mut wide = vec![0.0; DIM];
            for (at, row) in rows.chunks_exact_mut(DIM).enumerate() {
                model1::unpack_row(&page, count, at, &mut wide).unwrap();
                row.iter_mut().zip(&wide).for_each(|(x, y)| *x = bf16::from_f32(*y));
            }
        }
        sequence
    }
}

fn run(problem: &Problem, inputs: &[(Slot, HostRef)], device: &Device) -> (Vec<f64>, Vec<f32>) {
    let rows = problem.lse_len() as usize;
    let (mut out, mut lse) = (vec![bf16::NAN; rows * DIM], vec![f32::NAN; rows]);
    let mut buffers = HostBuffers::new().output(Slot::Out, &mut out).output(Slot::Lse, &mut lse);
    for (slot, memory) in inputs {
        buffers = buffers.input(*slot, *memory);
    }
    attention(problem, &mut buffers, device).unwrap();
    (out.iter().map(|x| x.to_f64()).collect(), lse)
}

fn prefill(
    core: Core,
    sequence: &Sequence,
    lists: &[i32],
    device: &Device,
) -> (Vec<f64>, Vec<f32>) {
    let new = TOKENS - FIRST;
    let window_rows = new + WINDOW - 1;
    let from = (TOKENS - window_rows) as usize * DIM;
    let compressed = sequence.compressed.len() / DIM;
    let problem = core.prefill(new, window_rows, compressed as u64).unwrap();
    let positions = [FIRST as i32];
    let inputs = [
        (Slot::Q, HostRef::Bf16(&sequence.queries)),
        (Slot::K, HostRef::Bf16(&sequence.tokens[from..])),
        (Slot::Segment(1, SegmentSlot::K), HostRef::Bf16(&sequence.compressed)),
        (Slot::Segment(1, INDICES), HostRef::I32(lists)),
        (Slot::Sinks, HostRef::F32(&sequence.sinks)),
        (Slot::Positions, HostRef::I32(&positions)),
    ];
    run(&problem, &inputs, device)
}

/// Rows laid out in pages in reverse order.
fn paged(rows: &[bf16], storage: Storage) -> (HostVec, Vec<i32>, u64) {
    let pages = (rows.len() / DIM).div_ceil(PAGE as usize).max(1);
    let table: Vec<i32> = (0..pages as i32).rev().collect();
    let page_elements = PAGE as usize * DIM;
    let chunk =
        |page: usize| &rows[page * page_elements..rows.len().min((page + 1) * page_elements)];
    let memory = match storage {
        Storage::Elements => {
            let mut memory = vec![bf16::NAN; pages * page_elements];
            for page in 0..pages {
                let to = &mut memory[table[page] as usize * page_elements..];
                to[..chunk(page).len()].copy_from_slice(chunk(page));
            }
            HostVec::Bf16(memory)
        }
        _ => {
            let bytes = Storage::model1_page_bytes(PAGE) as usize;
            let mut memory = vec![0xff; pages * bytes];
            for page in 0..pages {
                let to = &mut memory[table[page] as usize * bytes..][..bytes];
                model1::pack(to, PAGE as usize, 0, chunk(page)).unwrap();
            }
            HostVec::U8(memory)
        }
    };
    (memory, table, pages as u64)
}

/// Decodes the new tokens as requests of `tokens` tokens each.
fn decode(
    core: Core,
    sequence: &Sequence,
    lists: &[i32],
    storage: Storage,
    tokens: u64,
    device: &Device,
) -> (Vec<f64>, Vec<f32>) {
    let count = (TOKENS - FIRST) / tokens;
    let (window, window_table, window_pages) = paged(&sequence.tokens, storage);
    let (rows, table, pages) = paged(&sequence.compressed, storage);
    let pool = |pages| Pool { pages, page_rows: PAGE, pages_per_request: pages, storage };
    let compressed = (core.layer != Layer::Swa).then(|| pool(pages));
    let requests = Requests { count, tokens, lengths: false };
    let problem = core.decode(requests, pool(window_pages), compressed).unwrap();
    let window_lists: Vec<i32> =
        (FIRST..TOKENS).flat_map(|p| window_list(p, &window_table, PAGE).unwrap()).collect();
    let lists = physical_rows(lists, &table, PAGE).unwrap();
    let used: Vec<i32> = (FIRST..TOKENS).map(|p| core.layer.visible_rows(p) as i32).collect();
    let tables: Vec<i32> = (0..count).flat_map(|_| table.clone()).collect();
    let positions: Vec<i32> =
        (FIRST as i32..).step_by(tokens as usize).take(count as usize).collect();
    let inputs = [
        (Slot::Q, HostRef::Bf16(&sequence.queries)),
        (Slot::K, window.as_ref()),
        (Slot::Segment(0, INDICES), HostRef::I32(&window_lists)),
        (Slot::Segment(1, SegmentSlot::K), rows.as_ref()),
        (Slot::Segment(1, INDICES), HostRef::I32(&lists)),
        (Slot::Segment(1, SegmentSlot::PageTable), HostRef::I32(&tables)),
        (Slot::Segment(1, SegmentSlot::Used), HostRef::I32(&used)),
        (Slot::Sinks, HostRef::F32(&sequence.sinks)),
        (Slot::Positions, HostRef::I32(&positions)),
    ];
    let (out, lse) = run(&problem, &inputs, device);
    (out, by_token(&lse, tokens as usize))
}

/// The new tokens as those of two requests, 20 of the first and the rest of the second, from pages.
fn prefill_pages(
    core: Core,
    sequence: &Sequence,
    lists: &[i32],
    storage: Storage,
    device: &Device,
) -> (Vec<f64>, Vec<f32>) {
    let (second, end) = (FIRST as i32 + 20, TOKENS as i32);
    let (window, window_table, window_pages) = paged(&sequence.tokens, storage);
    let (rows, table, pages) = paged(&sequence.compressed, storage);
    let pool = |pages| Pool { pages, page_rows: PAGE, pages_per_request: pages, storage };
    let compressed = (core.layer != Layer::Swa).then(|| pool(pages));
    let new = NewTokens { requests: 2, tokens: TOKENS - FIRST, longest: 30 };
    let problem = core.prefill_pages(new, pool(window_pages), compressed).unwrap();
    // No window reaches the first pages.
    let forgotten = ((FIRST - WINDOW) / PAGE) as usize;
    let near: Vec<i32> = window_table.iter().skip(forgotten).copied().collect();
    let near = [vec![0; forgotten], near].concat().repeat(2);
    let (lists, table) = (physical_rows(lists, &table, PAGE).unwrap(), table.repeat(2));
    let inputs = [
        (Slot::Q, HostRef::Bf16(&sequence.queries)),
        (Slot::CuSeqlensQ, HostRef::I32(&[0, 20, end - FIRST as i32])),
        (Slot::K, window.as_ref()),
        (Slot::Segment(0, SegmentSlot::PageTable), HostRef::I32(&near)),
        (Slot::Segment(0, SegmentSlot::Used), HostRef::I32(&[second, end])),
        (Slot::Segment(1, SegmentSlot::K), rows.as_ref()),
        (Slot::Segment(1, INDICES), HostRef::I32(&lists)),
        (Slot::Segment(1, SegmentSlot::PageTable), HostRef::I32(&table)),
        (Slot::Sinks, HostRef::F32(&sequence.sinks)),
        (Slot::Positions, HostRef::I32(&[FIRST as i32, second])),
    ];
    run(&problem, &inputs, device)
}

/// LSEs `[request, head, token]` as `[request, token, head]`.
fn by_token(lse: &[f32], tokens: usize) -> Vec<f32> {
    let requests = lse.chunks_exact(HEADS as usize * tokens);
    let of_request = |lse: &[f32]| {
        (0..tokens)
            .flat_map(|t| lse.iter().skip(t).step_by(tokens).copied().collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    requests.flat_map(of_request).collect()
}

/// Prefill's LSE is `[head, token]`, decode's `[token, head]`; outputs are `[token, head, dim]`.
fn agree(prefill: &(Vec<f64>, Vec<f32>), decode: &(Vec<f64>, Vec<f32>), tolerance: f64) {
    for (at, (x, y)) in prefill.0.iter().zip(&decode.0).enumerate() {
        assert!((x - y).abs() <= tolerance, "out {at}: {x} {y}");
    }
    let (heads, tokens) = (HEADS as usize, (TOKENS - FIRST) as usize);
    for (h, t) in (0..heads).flat_map(|h| (0..tokens).map(move |t| (h, t))) {
        let (x, y) = (prefill.1[h * tokens + t], decode.1[t * heads + h]);
        assert!((x - y).abs() < 1e-4, "lse of head {h}, token {t}: {x} {y}");
    }
}

fn check(layer: Layer, lists: &[i32]) {
    let core = Core { heads: HEADS, layer };
    let sequence = Sequence::new(layer);
    let exact = prefill(core, &sequence, lists, &Device::oracle());
    // One unit in the last place of a bf16 output of at most 2.
    let tolerance = 2f64.powi(-7);
    agree(&exact, &with_decode_order(&prefill(core, &sequence, lists, &Device::cpu())), tolerance);
    let hopper: Device = "sim-sm90".parse().unwrap();
    agree(&exact, &with_decode_order(&prefill(core, &sequence, lists, &hopper)), tolerance);
    let mut ragged = vec![
        (Storage::Elements, Device::oracle()),
        (Storage::Model1, Device::oracle()),
        (Storage::Model1, Device::cpu()),
    ];
    if matches!(layer, Layer::Hca | Layer::Swa) {
        // A block of rows for every token of a CSA layer takes long: the table has a small one.
        ragged.push((Storage::Model1, hopper.clone()));
    }
    for (storage, device) in &ragged {
        let (storage, device) = (*storage, device);
        let ragged = prefill_pages(core, &sequence, lists, storage, device);
        agree(&exact, &with_decode_order(&ragged), tolerance);
    }
    for storage in [Storage::Elements, Storage::Model1] {
        let decode =
            |tokens, device: &Device| decode(core, &sequence, lists, storage, tokens, device);
        for tokens in [1, 5] {
            agree(&exact, &decode(tokens, &Device::oracle()), 0.0);
            agree(&exact, &decode(tokens, &Device::cpu()), tolerance);
        }
        let tokens = if storage == Storage::Elements { 5 } else { 1 };
        agree(&exact, &decode(tokens, &hopper), tolerance);
    }
}

/// A prefill result with its LSE transposed to decode's order.
fn with_decode_order(result: &(Vec<f64>, Vec<f32>)) -> (Vec<f64>, Vec<f32>) {
    let (heads, tokens) = (HEADS as usize, (TOKENS - FIRST) as usize);
    let lse = (0..tokens)
        .flat_map(|t| (0..heads).map(move |h| h * tokens + t))
        .map(|at| result.1[at])
        .collect();
    (result.0.clone(), lse)
}

#[test]
fn window_only_layers() {
    check(Layer::Swa, &[]);
}

#[test]
fn dense_compressed_layers() {
    check(Layer::Hca, &[]);
}

#[test]
fn sparse_compressed_layers() {
    let layer = Layer::Csa { top_k: 24 };
    let mut rng = Rng::new(9);
    let lists: Vec<i32> = (FIRST..TOKENS)
        .flat_map(|p| {
            let order = rng.permutation(layer.visible_rows(p));
            order.into_iter().take(24).map(|row| row as i32).collect::<Vec<_>>()
        })
        .collect();
    check(layer, &lists);
}
