use crate::attn_mask;
use crate::packed;
use crate::special::{self, Special, Tensor};
use crate::{Case, Keys, Layout, Lengths, Lists, Rng, Sinks};
use problem::{
    AttnMask, DType, HostBuffers, HostMut, HostVec, InvalidProblem, Problem, Segment, SegmentSlot,
    Slot, Storage, Values, View,
};
use std::collections::BTreeMap;

/// What entries of lists hold that name no row.
const UNUSED: [i32; 3] = [-1, i32::MAX, i32::MIN];
/// What entries of tables and lists hold that nobody may read.
const NONSENSE: [i32; 3] = [i32::MAX, -1, i32::MIN];

/// A problem and memory for all of its slots.
///
/// Inputs are NaN wherever an engine must not look: beyond lengths, in unused pages and rows, in
/// the gaps between rows. Outputs are NaN everywhere. Entries of page tables and index lists that nobody
/// uses name no page or row.
#[derive(Clone, Debug)]
pub struct CaseData {
    /// What is asked.
    pub problem: Problem,
    /// Memory of every slot, outputs included.
    pub tensors: BTreeMap<Slot, HostVec>,
}

impl CaseData {
    /// Expands `case`, drawing its inputs from its seed.
    ///
    /// # Errors
    /// If the case describes no valid problem.
    pub fn new(case: &Case) -> Result<Self, InvalidProblem> {
        Self::of(case, case.problem()?)
    }

    /// As [`CaseData::new`], where the case's problem is there already.
    ///
    /// # Errors
    /// If `special` of the case cannot be read.
    pub fn of(case: &Case, problem: Problem) -> Result<Self, InvalidProblem> {
        let special = special::parse(&case.special)?;
        let mut maker = Maker { case, problem: &problem, rng: Rng::new(case.seed()), special };
        let mut tensors = maker.queries();
        for (n, keys) in case.segments().enumerate() {
            maker.segment(n as u8, keys, &mut tensors);
        }
        let elements =
            |slot: Slot, dtype: DType| (problem.slot_bytes(slot) / dtype.bytes()) as usize;
        let out = HostVec::filled(problem.dtype(), elements(Slot::Out, problem.dtype()), f32::NAN);
        tensors.insert(Slot::Out, out);
        if problem.return_lse {
            let lse = HostVec::filled(DType::F32, elements(Slot::Lse, DType::F32), f32::NAN);
            tensors.insert(Slot::Lse, lse);
        }
        Ok(Self { problem, tensors })
    }

    /// The inputs, to read on the host.
    pub fn inputs(&self) -> HostBuffers<'_> {
        let inputs = self.tensors.iter().filter(|(slot, _)| !slot.is_output());
        inputs.fold(HostBuffers::new(), |b, (slot, memory)| b.input(*slot, memory.as_ref()))
    }

    /// A slot's memory as a device would hold it, little-endian.
    ///
    /// # Panics
    /// If the problem has no such slot.
    pub fn bytes(&self, slot: Slot) -> Vec<u8> {
        self.tensors[&slot].to_bytes()
    }

    /// Runs `f` on host buffers with fresh, poisoned outputs, and returns those.
    pub fn with_outputs<R>(
        &self,
        f: impl FnOnce(HostBuffers<'_>) -> R,
    ) -> (R, HostVec, Option<Vec<f32>>) {
        let mut out = self.tensors[&Slot::Out].clone();
        let mut lse = match self.tensors.get(&Slot::Lse) {
            Some(HostVec::F32(lse)) => Some(lse.clone()),
            _ => None,
        };
        let mut buffers = self.inputs();
        if let Some(out) = out.as_mut() {
            buffers = buffers.output(Slot::Out, out);
        }
        if let Some(lse) = &mut lse {
            buffers = buffers.output(Slot::Lse, HostMut::F32(lse));
        }
        let result = f(buffers);
        (result, out, lse)
    }
}

struct Maker<'c> {
    case: &'c Case,
    problem: &'c Problem,
    rng: Rng,
    special: Vec<Special>,
}

impl Maker<'_> {
    fn queries(&mut self) -> BTreeMap<Slot, HostVec> {
        let mut tensors = BTreeMap::new();
        let q = self.problem.q;
        let mut memory = poisoned(self.problem, Slot::Q, &q);
        let lean = self.case.lean.unwrap_or(0.0);
        match &self.case.queries {
            Lengths::Same(_) => self.fill(Tensor::Q, &q, &mut memory, lean, |_, t| Some(t)),
            Lengths::Each(list) => {
                let rows: Vec<u64> = list.iter().flat_map(|n| 0..*n).collect();
                let row = |_, t: u64| rows.get(t as usize).copied();
                self.fill(Tensor::Q, &q, &mut memory, lean, row);
                tensors.insert(Slot::CuSeqlensQ, offsets(list.iter().copied()));
            }
        }
        tensors.insert(Slot::Q, memory);
        if let Some(sinks) = &self.case.sinks {
            let heads = self.problem.query_heads() as usize;
            let mut logits = vec![0.0; heads];
            match sinks {
                Sinks::Random(_) => self.rng.fill_normal(&mut logits),
                Sinks::Values(list) => {
                    logits = list.iter().cycle().take(heads).map(|x| *x as f32).collect();
                }
            }
            tensors.insert(Slot::Sinks, HostVec::F32(logits));
        }
        if self.problem.needs_positions() {
            tensors.insert(Slot::Positions, HostVec::I32(self.positions()));
        }
        tensors
    }

    /// Positions default to those at which the last query sees every compressed key.
    fn positions(&self) -> Vec<i32> {
        let list = &self.case.positions;
        let of = |b: u64| match list.is_empty() {
            false => list[b as usize % list.len()],
            true => self.last_position(b).saturating_sub(self.case.queries.of(b)),
        };
        let batch = 0..self.problem.batch();
        batch.map(|b| i32::try_from(of(b)).unwrap_or(i32::MAX)).collect()
    }

    fn last_position(&self, b: u64) -> u64 {
        let tokens = |(keys, segment): (&Keys, &Segment)| match segment.mask {
            problem::Mask::Compressed { ratio } => keys.keys.of(b).saturating_mul(ratio),
            _ => 0,
        };
        self.case.segments().zip(&self.problem.segments).map(tokens).max().unwrap_or(0)
    }

    fn segment(&mut self, n: u8, keys: &Keys, tensors: &mut BTreeMap<Slot, HostVec>) {
        let problem = self.problem;
        let segment = &problem.segments[n as usize];
        let slot = |part| Slot::Segment(n, part);
        let batch = problem.batch();
        let placed = self.place(keys, segment);
        if keys.layout == Layout::Packed {
            let cu = offsets((0..batch).map(|b| keys.keys.of(b)));
            tensors.insert(slot(SegmentSlot::CuSeqlens), cu);
        }
        if segment.lengths.used {
            let used = (0..batch as usize).map(|b| match keys.entries.is_empty() {
                true => keys.keys.of(b as u64),
                false => keys.entries[b % keys.entries.len()],
            });
            let used = used.map(|n| i32::try_from(n).unwrap_or(i32::MAX));
            tensors.insert(slot(SegmentSlot::Used), HostVec::I32(used.collect()));
        }
        if segment.reads_page_table() {
            let table = HostVec::I32(placed.table.clone());
            tensors.insert(slot(SegmentSlot::PageTable), table);
        }
        if let Some(width) = keys.indices {
            let lists = self.lists(keys, segment, &placed, width);
            tensors.insert(slot(SegmentSlot::Indices), HostVec::I32(lists));
        }
        if let Some(mask) = &segment.attn_mask {
            let memory = self.attn_mask(keys, segment, mask);
            tensors.insert(slot(SegmentSlot::AttnMask), memory);
        }
        let k = match segment.storage {
            Storage::Elements => self.rows(Tensor::K, slot(SegmentSlot::K), &segment.k, &placed),
            storage => self.packed_rows(storage, segment, &placed),
        };
        tensors.insert(slot(SegmentSlot::K), k);
        for (part, descale) in
            [(SegmentSlot::KDescale, segment.k_descale), (SegmentSlot::VDescale, segment.v_descale)]
        {
            if descale.is_some() {
                let factors = self.factors(slot(part));
                tensors.insert(slot(part), factors);
            }
        }
        if let Values::Separate(view) = segment.values {
            let v = self.rows(Tensor::V, slot(SegmentSlot::V), &view, &placed);
            tensors.insert(slot(SegmentSlot::V), v);
        }
    }

    /// Factors on e4m3 numbers, around 1.
    fn factors(&mut self, slot: Slot) -> HostVec {
        let mut factors = vec![0.0; (self.problem.slot_bytes(slot) / 4) as usize];
        self.rng.fill_normal(&mut factors);
        factors.iter_mut().for_each(|x| *x = (*x / 2.0).exp2());
        HostVec::F32(factors)
    }

    /// A mask tensor, of which only what some query sees of its keys may be looked at.
    fn attn_mask(&mut self, keys: &Keys, segment: &Segment, mask: &AttnMask) -> HostVec {
        let queries = self.problem.longest_query();
        let positions = self.positions();
        let mut seen = vec![false; mask.span().unwrap_or(0) as usize];
        for (b, query) in (0..self.problem.batch()).flat_map(|b| (0..queries).map(move |q| (b, q)))
        {
            let (length, position) = (keys.keys.of(b), positions[b as usize] as u64);
            let (first, end) = segment.mask.range(query, queries, length, position);
            for head in 0..mask.shape[1] {
                for key in first..end {
                    seen[mask.offset([b, head, query, key]) as usize] = true;
                }
            }
        }
        attn_mask::fill(&mut self.rng, mask, |at| seen[at as usize])
    }

    /// Decides where each sequence's keys lie.
    fn place(&mut self, keys: &Keys, segment: &Segment) -> Placed {
        let [batch, _, tokens, _] = segment.k.shape;
        let mut placed =
            Placed { keys: vec![None; (batch * tokens) as usize], ..Placed::default() };
        let (columns, page) = (keys.pages(), keys.page_rows());
        let pages = match keys.layout {
            Layout::Paged => self.rng.permutation(batch),
            _ => Vec::new(),
        };
        let mut start = 0;
        for b in 0..self.problem.batch() {
            let length = keys.keys.of(b);
            let row = |j: u64| match keys.layout {
                Layout::Batched => b * tokens + j,
                Layout::Packed => start + j,
                Layout::Paged => pages[(b * columns + j / page) as usize] * page + j % page,
            };
            let rows: Vec<u64> = (0..length).map(row).collect();
            for (key, row) in (0..).zip(&rows) {
                placed.keys[*row as usize] = Some(key);
            }
            if keys.layout == Layout::Paged {
                let in_use = length.div_ceil(page);
                let entry = |c: u64| match c < in_use {
                    true => pages[(b * columns + c) as usize] as i32,
                    false => NONSENSE[c as usize % NONSENSE.len()],
                };
                placed.table.extend((0..columns).map(entry));
            }
            placed.rows.push(rows);
            start += length;
        }
        placed
    }

    /// Index lists: rows of the sequence in random order, some entries unused.
    fn lists(&mut self, keys: &Keys, segment: &Segment, placed: &Placed, width: u64) -> Vec<i32> {
        let q = self.problem.q;
        let count = (q.batch() * q.tokens() * width) as usize;
        let mut lists: Vec<i32> = NONSENSE.into_iter().cycle().take(count).collect();
        let mut first = 0;
        for b in 0..self.problem.batch() {
            let queries = self.case.queries.of(b);
            let in_use = match keys.entries.is_empty() {
                true => width,
                false => keys.entries[b as usize % keys.entries.len()].min(width),
            };
            let start = if segment.paging.is_some() { 0 } else { b * segment.k.tokens() };
            for token in first..first + queries {
                let rows = self.list(keys, &placed.rows[b as usize], token, in_use);
                let list = &mut lists[(token * width) as usize..][..in_use as usize];
                for (i, (entry, row)) in list.iter_mut().zip(rows).enumerate() {
                    *entry = row.map_or(UNUSED[i % UNUSED.len()], |row| (row - start) as i32);
                }
            }
            first += queries;
        }
        lists
    }

    /// The rows that the list of a token names, among those of its sequence.
    fn list(&mut self, keys: &Keys, rows: &[u64], token: u64, entries: u64) -> Vec<Option<u64>> {
        let count = rows.len() as u64;
        if keys.lists == Lists::Mixed {
            let order = self.rng.permutation(count);
            let row = |i: u64| {
                let unused = keys.entries.is_empty() && self.rng.one_in(8);
                order.get(i as usize).filter(|_| !unused).map(|j| rows[*j as usize])
            };
            return (0..entries).map(row).collect();
        }
        let hidden = |i: u64| token % 4 == 3 || (i / 128 + token).is_multiple_of(2);
        let unused = |i: u64| count == 0 || (keys.lists == Lists::Holes && hidden(i));
        let row = |i: u64| (!unused(i)).then(|| rows[self.rng.below(count) as usize]);
        (0..entries).map(row).collect()
    }

    fn rows(&mut self, tensor: Tensor, slot: Slot, view: &View, placed: &Placed) -> HostVec {
        let mut memory = poisoned(self.problem, slot, view);
        let tokens = view.tokens();
        let lean = self.keys_lean();
        self.fill(tensor, view, &mut memory, lean, |b, t| placed.keys[(b * tokens + t) as usize]);
        memory
    }

    /// Gives every row that belongs to a sequence, whose row it is by `number`, normally distributed numbers
    /// around `lean`, and the case's special ones.
    fn fill(
        &mut self,
        tensor: Tensor,
        view: &View,
        memory: &mut HostVec,
        lean: f32,
        number: impl Fn(u64, u64) -> Option<u64>,
    ) {
        let [batch, heads, tokens, dim] = view.shape;
        let mut row = vec![0.0; dim as usize];
        for (b, h, t) in (0..batch)
            .flat_map(|b| (0..heads).flat_map(move |h| (0..tokens).map(move |t| (b, h, t))))
        {
            if let Some(number) = number(b, t) {
                self.row(&mut row, lean, tensor, number);
                let offset = view.row_offset(b, h, t) as usize;
                for (i, x) in row.iter().enumerate() {
                    memory.set(offset + i, *x);
                }
            }
        }
    }

    /// Row `number` of a sequence.
    fn row(&mut self, row: &mut [f32], lean: f32, tensor: Tensor, number: u64) {
        self.rng.fill_normal(row);
        let amplitude = self.case.amplitude.unwrap_or(1.0);
        row.iter_mut().for_each(|x| *x = *x * amplitude + lean);
        let special = self.special.iter().filter(|s| s.tensor == tensor && s.is_in(number));
        special.for_each(|special| special.put(row));
    }

    fn keys_lean(&self) -> f32 {
        -self.case.lean.unwrap_or(0.0)
    }

    fn packed_rows(&mut self, storage: Storage, segment: &Segment, placed: &Placed) -> HostVec {
        let [pages, _, page_rows, dim] = segment.k.shape;
        let page_bytes = segment.page_stride() as usize;
        // 0xff is NaN in e4m3, in bf16 and as a scale.
        let mut bytes = vec![0xff; pages as usize * page_bytes];
        if bytes.is_empty() {
            return HostVec::U8(bytes);
        }
        let mut row = vec![0.0; dim as usize];
        for (p, page) in bytes.chunks_exact_mut(page_bytes).enumerate() {
            for r in 0..page_rows as usize {
                let Some(key) = placed.keys[p * page_rows as usize + r] else { continue };
                self.row(&mut row, self.keys_lean(), Tensor::K, key);
                packed::pack(storage, page, page_rows as usize, r, &row);
            }
        }
        // Padding is between pages, and not behind the last.
        let rows_end = storage.packed().map_or(0, |format| format.page_bytes(page_rows));
        bytes.truncate(bytes.len() - (page_bytes - rows_end as usize));
        HostVec::U8(bytes)
    }
}

/// Where the keys of each sequence lie.
#[derive(Default)]
struct Placed {
    /// Which key of a sequence a row (batch · tokens + token of the view) is.
    keys: Vec<Option<u64>>,
    /// Rows of each sequence, in order.
    rows: Vec<Vec<u64>>,
    /// The page table.
    table: Vec<i32>,
}

fn offsets(lengths: impl Iterator<Item = u64>) -> HostVec {
    let mut total = 0;
    let ends = lengths.map(|n| {
        total += n as i32;
        total
    });
    HostVec::I32(std::iter::once(0).chain(ends).collect())
}

fn poisoned(problem: &Problem, slot: Slot, view: &View) -> HostVec {
    let elements = problem.slot_bytes(slot) / view.dtype.bytes();
    HostVec::filled(view.dtype, elements as usize, f32::NAN)
}
