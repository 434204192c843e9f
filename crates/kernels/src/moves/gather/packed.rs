//! A tensor of packed rows, and a row of it as one thread reads it.

use super::format::{Format, Numbers, ScaleKind, ScalePlace};
use super::lookup::Aside;
use super::numbers::{e2m1_pairs, float_scale};
use super::raw::RawMap;
use super::share::{Share, row_at};
use crate::call::tensors::CHUNK;
use problem::Segment;
use program::BufferId;
use program::build::Arguments;
use ptx::build::{Builder, Cmp, GlobalPtr, HalfType, Reg, VECTOR_BYTES};

/// Columns that a thread reads together where it reads a row alone.
const VECTOR: u32 = 8;

/// A row, found for one thread.
#[derive(Clone, Copy, Debug)]
pub struct PackedRow {
    format: Format,
    first: GlobalPtr,
    scales: RowScales,
}

/// The scales of a row that was found.
#[derive(Clone, Copy, Debug)]
enum RowScales {
    Loaded([Reg<u32>; 2]),
    At(GlobalPtr),
}

/// A tensor of packed rows.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    pub format: Format,
    /// First byte.
    pub base: GlobalPtr,
    /// Units of 16 bytes between batches or pages.
    page_vectors: Reg<u32>,
    /// Rows of a batch or page.
    page_rows: Reg<u32>,
    /// The first column that is read, in steps of [`VECTOR`]: 0 if not said.
    first: Option<Reg<u32>>,
    /// Columns that are read.
    columns: u32,
    /// The map of their bytes, where tensor copies bring these.
    pub raw: Option<RawMap>,
}

impl Packed {
    /// Declares the parameters of a segment's rows.
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        segment: &Segment,
        buffer: BufferId,
    ) -> Self {
        let (rows, format) = (segment.k.tokens(), Format::of(segment.storage));
        let page_vectors = segment.page_stride() / u64::from(VECTOR_BYTES);
        Packed {
            format,
            base: args.pointer(b, "k", buffer),
            page_vectors: args.u32(b, "k_page_units", page_vectors as u32),
            page_rows: args.u32(b, "k_page_rows", rows as u32),
            first: None,
            columns: format.dim(),
            raw: None,
        }
    }

    /// The same rows, whose bytes tensor copies bring.
    #[track_caller]
    pub fn mapped(
        self,
        b: &mut Builder,
        args: &mut Arguments,
        segment: &Segment,
        buffer: BufferId,
    ) -> Self {
        Packed { raw: Some(RawMap::declare(b, args, segment, buffer)), ..self }
    }

    /// The same rows, `columns` columns from `first` on.
    #[track_caller]
    pub fn columns(&self, b: &mut Builder, first: Reg<u32>, columns: u32) -> Self {
        Packed { first: Some(b.eval(first / VECTOR)), columns, ..*self }
    }

    /// Stores a warp's share, unpacked; rows and columns that do not exist become zeros.
    #[track_caller]
    pub fn unpack(&self, b: &mut Builder, share: &Share<'_>) {
        share.for_each_run(b, |b, handed, to| {
            let row = self.open(b, handed.row, &handed.aside);
            for panel in 0..share.panels() {
                let column = share.column + panel * CHUNK;
                let words = self.unpack_of_panel(b, share.vector, column, &row, handed.exists);
                b.st_shared_vector(share.panel(to, panel), &words);
            }
        });
    }

    /// A vector of the panel at `column`, of a row if it `exists`.
    #[track_caller]
    fn unpack_of_panel(
        &self,
        b: &mut Builder,
        vector: Reg<u32>,
        column: u32,
        row: &PackedRow,
        exists: Reg<bool>,
    ) -> Vec<Reg<u32>> {
        let within = self.columns.saturating_sub(column) / VECTOR;
        let wanted = |b: &mut Builder| {
            let inside = b.setp(Cmp::Lt, vector, within);
            b.and(exists, inside)
        };
        row.pairs_if(b, wanted, |b| {
            let vector = vector + column / VECTOR;
            b.eval(match self.first {
                None => vector,
                Some(first) => vector + first,
            })
        })
    }

    /// Vector `vector` of a row if it `exists`, else zeros, as pairs of bf16.
    #[track_caller]
    pub fn unpack_vector(
        &self,
        b: &mut Builder,
        vector: Reg<u32>,
        row: &PackedRow,
        exists: Reg<bool>,
    ) -> Vec<Reg<u32>> {
        row.pairs_if(b, |_| exists, |_| vector)
    }

    /// Where a row is, in 16-byte vectors.
    #[track_caller]
    pub fn place(&self, b: &mut Builder, outer: Reg<u32>, token: Reg<u32>) -> Reg<u32> {
        b.eval(token * self.format.row_vectors() + outer * self.page_vectors)
    }

    /// Where the footer of a page is, in 16-byte vectors.
    #[track_caller]
    fn footer(&self, b: &mut Builder, outer: Reg<u32>) -> Reg<u32> {
        b.eval(self.page_rows * self.format.row_vectors() + outer * self.page_vectors)
    }

    /// The first byte of a row, and of its scales in the page's footer.
    #[track_caller]
    pub fn row_and_scales(
        &self,
        b: &mut Builder,
        outer: Reg<u32>,
        token: Reg<u32>,
    ) -> (GlobalPtr, GlobalPtr) {
        let place = self.place(b, outer, token);
        let footer = self.footer(b, outer);
        let (row, footer) = (row_at(b, self.base, place), row_at(b, self.base, footer));
        (row, self.scales_in(b, footer, token))
    }

    /// The first byte of a row's scales in the page's footer.
    #[track_caller]
    pub fn scales(&self, b: &mut Builder, outer: Reg<u32>, token: Reg<u32>) -> GlobalPtr {
        let footer = self.footer(b, outer);
        let footer = row_at(b, self.base, footer);
        self.scales_in(b, footer, token)
    }

    /// The first byte of a row's scales in the footer at `footer`.
    #[track_caller]
    fn scales_in(&self, b: &mut Builder, footer: GlobalPtr, token: Reg<u32>) -> GlobalPtr {
        b.global_add(footer, token.widening_mul(self.format.scale_bytes()))
    }

    /// Finds what is to be known of a row beside its place, if it `exists`: its scales, or where they are.
    #[track_caller]
    pub fn find_aside(
        &self,
        b: &mut Builder,
        outer: Reg<u32>,
        token: Reg<u32>,
        exists: Reg<bool>,
        aside: &Aside,
    ) {
        if aside.words().is_empty() {
            return;
        }
        let footer = self.footer(b, outer);
        match aside.words() {
            [place] => {
                b.assign(*place, token * (self.format.scale_bytes() / VECTOR_BYTES) + footer);
            }
            scales => {
                let from = row_at(b, self.base, footer);
                let from = b.global_add(from, token.widening_mul(self.format.scale_bytes()));
                scales.iter().for_each(|scale| b.assign(*scale, 0));
                b.ld_global_if(exists, from, scales);
            }
        }
    }

    /// Finds a row; one that does not exist may not be read.
    #[track_caller]
    pub fn row(
        &self,
        b: &mut Builder,
        outer: Reg<u32>,
        token: Reg<u32>,
        exists: Reg<bool>,
    ) -> PackedRow {
        let aside = Aside::new(b, self.format.aside());
        self.find_aside(b, outer, token, exists, &aside);
        let place = self.place(b, outer, token);
        self.open(b, place, &aside)
    }

    /// The row at a place.
    #[track_caller]
    fn open(&self, b: &mut Builder, place: Reg<u32>, aside: &Aside) -> PackedRow {
        let first = row_at(b, self.base, place);
        let scales = match *aside.words() {
            [scales] => RowScales::At(row_at(b, self.base, scales)),
            [low, high] => RowScales::Loaded([low, high]),
            _ => RowScales::At(self.in_row(first)),
        };
        PackedRow { format: self.format, first, scales }
    }

    fn in_row(&self, first: GlobalPtr) -> GlobalPtr {
        match self.format.scale_place() {
            ScalePlace::Row(at) => first.plus(at.into()),
            place => panic!("scales are in the row, not {place:?}"),
        }
    }
}

impl PackedRow {
    /// A vector of the row as pairs of bf16, zeros unless it is `wanted`.
    #[track_caller]
    fn pairs_if(
        &self,
        b: &mut Builder,
        wanted: impl FnOnce(&mut Builder) -> Reg<bool>,
        vector: impl FnOnce(&mut Builder) -> Reg<u32>,
    ) -> Vec<Reg<u32>> {
        let words = b.regs::<u32>(4);
        words.iter().for_each(|word| b.assign(*word, 0));
        let wanted = wanted(b);
        b.if_(wanted, |b| {
            let vector = vector(b);
            let numbers = self.vector(b, vector);
            for (&word, pair) in words.iter().zip(numbers.chunks_exact(2)) {
                let packed = b.pack(HalfType::Bf16, pair[0], pair[1]);
                b.assign(word, packed);
            }
        });
        words
    }

    /// Eight neighbouring columns, the `vector`-th of them.
    #[track_caller]
    pub fn vector(&self, b: &mut Builder, vector: Reg<u32>) -> [Reg<f32>; VECTOR as usize] {
        let numbers = std::array::from_fn(|_| b.reg());
        if self.format.scaled() == self.format.dim() {
            self.unpack_scaled(b, vector, &numbers);
            return numbers;
        }
        let is_scaled = b.setp(Cmp::Lt, vector, self.format.scaled() / VECTOR);
        b.if_else(
            is_scaled,
            |b| self.unpack_scaled(b, vector, &numbers),
            |b| self.unpack_bf16(b, vector, &numbers),
        );
        numbers
    }

    #[track_caller]
    fn unpack_scaled(&self, b: &mut Builder, vector: Reg<u32>, numbers: &[Reg<f32>]) {
        let words = self.load_scaled(b, vector);
        let (word, bit) = self.scale_word(b, vector);
        let scale = float_scale(b, self.format.scales(), word, bit);
        let rounds = self.format.scales() == ScaleKind::FloatPerTwo;
        for (&word, numbers) in words.iter().zip(numbers.chunks_exact(numbers.len() / words.len()))
        {
            for (&number, loaded) in numbers.iter().zip(self.numbers_of(b, word)) {
                let scaled = b.mul(loaded, scale);
                let scaled = if rounds { rounded(b, scaled) } else { scaled };
                b.assign(number, scaled);
            }
        }
    }

    /// The words of a vector of numbers that have scales.
    #[track_caller]
    fn load_scaled(&self, b: &mut Builder, vector: Reg<u32>) -> Vec<Reg<u32>> {
        let bytes = self.format.scaled_numbers().quarter_bytes() / 2;
        let at = b.global_add(self.first, vector.widening_mul(bytes));
        match bytes {
            4 => vec![b.ld_global::<u32>(at)],
            _ => b.ld_global_vector::<u32>(at, bytes as usize / 4),
        }
    }

    /// The numbers of a word, without their scale.
    #[track_caller]
    fn numbers_of(&self, b: &mut Builder, word: Reg<u32>) -> Vec<Reg<f32>> {
        if self.format.scaled_numbers() == Numbers::E4m3 {
            return b.unpack_e4m3(word).to_vec();
        }
        let pairs = e2m1_pairs(b, word);
        pairs.into_iter().flat_map(|pair| b.unpack(HalfType::Bf16, pair)).collect()
    }

    /// The word of a vector's scale, and its first bit in it.
    #[track_caller]
    fn scale_word(&self, b: &mut Builder, vector: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let at = match self.scales {
            RowScales::Loaded(scales) => return scale_of_panel(b, vector, scales),
            RowScales::At(at) => at,
        };
        // Vectors that a scale is for, and scales of a word.
        let (vectors, scales) = match self.format.scales() {
            ScaleKind::PowerPerPanel => (CHUNK / VECTOR, 4),
            ScaleKind::PowerPerHalf => (CHUNK / 2 / VECTOR, 4),
            ScaleKind::E4m3PerQuarter => (CHUNK / 4 / VECTOR, 4),
            ScaleKind::FloatPerTwo => (2 * CHUNK / VECTOR, 1),
        };
        let word = vector / (vectors * scales);
        let from = b.global_add(at, word.widening_mul(4));
        let word = b.ld_global::<u32>(from);
        (word, b.eval((vector / vectors % scales) << 3))
    }

    #[track_caller]
    fn unpack_bf16(&self, b: &mut Builder, vector: Reg<u32>, numbers: &[Reg<f32>]) {
        // The columns before take other bytes than two each.
        let behind = i64::from(self.format.tail_at()) - 2 * i64::from(self.format.scaled());
        let at = b.global_add(self.first, vector.widening_mul(2 * VECTOR)).plus(behind);
        let words = b.ld_global_vector::<u32>(at, 4);
        for (word, numbers) in words.into_iter().zip(numbers.chunks_exact(2)) {
            for (&number, loaded) in numbers.iter().zip(b.unpack(HalfType::Bf16, word)) {
                b.assign(number, loaded);
            }
        }
    }
}

/// The word and first bit of the scale of a vector's panel.
#[track_caller]
fn scale_of_panel(
    b: &mut Builder,
    vector: Reg<u32>,
    scales: [Reg<u32>; 2],
) -> (Reg<u32>, Reg<u32>) {
    let panel = b.eval(vector / (CHUNK / VECTOR));
    let upper = b.setp(Cmp::Ge, panel, 4);
    let word = b.select::<u32>(upper, scales[1], scales[0]);
    (word, b.eval((panel % 4) << 3))
}

/// A number rounded to bf16.
#[track_caller]
fn rounded(b: &mut Builder, number: Reg<f32>) -> Reg<f32> {
    let pair = b.pack(HalfType::Bf16, number, number);
    b.unpack(HalfType::Bf16, pair)[0]
}
