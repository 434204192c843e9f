//! One decoding step of a DeepSeek-V4 HCA layer: 64 heads, four requests, fp8 caches in pages, the
//! window and every compressed row under one softmax with a sink per head. On the CPU, compared with the
//! oracle, and on a GPU where there is one.
//!
//! ```text
//! cargo run --release -p sixwarp --example dsv4_decode
//! ```

use cases::Rng;
use half::bf16;
use sixwarp::dsv4::{Core, HEAD_DIM, Layer, Pool, WINDOW, model1, window_list};
use sixwarp::{Device, Error, HostBuffers, SegmentSlot, Slot, Storage, attention};
use std::time::Instant;

const REQUESTS: u64 = 4;
const HEADS: u64 = 64;
/// Where each request stands.
const POSITIONS: [u64; REQUESTS as usize] = [40_000, 700, 65_535, 12];
const PAGES_PER_REQUEST: u64 = 256;

/// Random rows in a pool's pages.
fn fill(rng: &mut Rng, pool: Pool) -> Result<Vec<u8>, Error> {
    let page_bytes = Storage::model1_page_bytes(pool.page_rows) as usize;
    let mut bytes = vec![0; page_bytes * pool.pages as usize];
    let mut rows = vec![0.0; (pool.page_rows * HEAD_DIM) as usize];
    for page in bytes.chunks_exact_mut(page_bytes) {
        rng.fill_normal(&mut rows);
        let rounded: Vec<bf16> = rows.iter().map(|x| bf16::from_f32(*x)).collect();
        model1::pack(page, pool.page_rows as usize, 0, &rounded)?;
    }
    Ok(bytes)
}

/// Decodes one step on every device there is, and compares.
pub fn main() -> Result<(), Error> {
    let mut rng = Rng::new(1);
    let layer = Layer::Hca;
    let storage = Storage::Model1;
    // The window's pages of 64 rows are reused as the request moves on: three hold any window.
    let window = Pool { pages: 3 * REQUESTS, page_rows: 64, pages_per_request: 0, storage };
    let compressed = Pool {
        pages: PAGES_PER_REQUEST * REQUESTS,
        page_rows: 2,
        pages_per_request: PAGES_PER_REQUEST,
        storage,
    };
    let problem = Core { heads: HEADS, layer }.decode(REQUESTS, window, Some(compressed))?;

    let mut queries = vec![0.0; (REQUESTS * HEADS * HEAD_DIM) as usize];
    let mut sinks = vec![0.0; HEADS as usize];
    rng.fill_normal(&mut queries);
    rng.fill_normal(&mut sinks);
    let queries: Vec<bf16> = queries.iter().map(|x| bf16::from_f32(*x)).collect();
    let (window_rows, compressed_rows) = (fill(&mut rng, window)?, fill(&mut rng, compressed)?);

    let mut windows = Vec::new();
    for (request, position) in POSITIONS.into_iter().enumerate() {
        let first_page = 3 * request as i32;
        let table: Vec<i32> =
            (0..=position / 64).map(|page| first_page + page as i32 % 3).collect();
        windows.extend(window_list(position, &table, 64)?);
    }
    let used = POSITIONS.map(|position| layer.visible_rows(position) as i32);
    let pages: Vec<i32> =
        rng.permutation(compressed.pages).into_iter().map(|page| page as i32).collect();

    let mut devices = vec![Device::oracle(), Device::cpu()];
    match Device::cuda(0) {
        Ok(gpu) => devices.push(gpu),
        Err(why) => println!("on the CPU: {why}"),
    }
    let mut results = Vec::new();
    for device in &devices {
        let mut out = vec![bf16::NAN; queries.len()];
        let mut lse = vec![f32::NAN; (REQUESTS * HEADS) as usize];
        let mut buffers = HostBuffers::new()
            .input(Slot::Q, &queries)
            .input(Slot::K, &window_rows)
            .input(Slot::Segment(0, SegmentSlot::Indices), &windows)
            .input(Slot::Segment(1, SegmentSlot::K), &compressed_rows)
            .input(Slot::Segment(1, SegmentSlot::PageTable), &pages)
            .input(Slot::Segment(1, SegmentSlot::Used), &used[..])
            .input(Slot::Sinks, &sinks)
            .output(Slot::Out, &mut out)
            .output(Slot::Lse, &mut lse);
        let start = Instant::now();
        attention(&problem, &mut buffers, device)?;
        println!("{:8} {:?}, {}", device.to_string(), start.elapsed(), device.describe());
        results.push((out, lse));
    }
    for request in 0..REQUESTS as usize {
        let keys = WINDOW.min(POSITIONS[request] + 1) + used[request] as u64;
        let lse = results[0].1[request * HEADS as usize];
        println!("request {request}: {keys:4} rows, log-sum-exp of head 0 is {lse:.4}");
    }
    let difference = |(a, b): (&bf16, &bf16)| (a.to_f32() - b.to_f32()).abs();
    for (device, (out, _)) in devices.iter().zip(&results).skip(1) {
        let worst = out.iter().zip(&results[0].0).map(difference).fold(0.0, f32::max);
        println!("largest difference between {device} and the oracle: {worst:.1e}");
        assert!(worst < 2e-2, "the oracle says otherwise");
    }
    Ok(())
}
