//! Rows of queries, keys and values, read by one thread from where they lie.

use crate::call::index::TensorToken;
use crate::call::precision::{Precision, VECTOR};
use crate::call::sequence::element;
use crate::call::task::{Keys, OpenTile};
use crate::moves::gather::{Packed, PackedRow};
use problem::{DType, View};
use program::BufferId;
use program::build::Arguments;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg};

/// A tensor of elements.
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    base: GlobalPtr,
    /// Bytes between batches or pages, heads, and tokens.
    strides: [Reg<u64>; 3],
    /// Columns of a row.
    columns: u32,
    /// Whether elements are e4m3.
    e4m3: bool,
}

impl Tensor {
    /// Declares the parameters of a tensor.
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        name: &str,
        view: &View,
        buffer: BufferId,
    ) -> Self {
        let base = args.pointer(b, &format!("{name}_rows"), buffer);
        let strides =
            [0, 1, 2].map(|d| args.u64(b, &format!("{name}_rows_stride{d}"), view.step_bytes(d)));
        Tensor { base, strides, columns: view.dim() as u32, e4m3: view.dtype == DType::E4m3 }
    }

    /// The first element of a row.
    #[track_caller]
    pub fn row(&self, b: &mut Builder, at: [Reg<u32>; 3]) -> GlobalPtr {
        let mut offset = b.value::<u64>(0);
        for (index, stride) in at.into_iter().zip(self.strides) {
            let index = b.widen(index);
            offset = b.eval(index * stride + offset);
        }
        b.global_add(self.base, offset)
    }

    /// The row `tokens` tokens further on.
    #[track_caller]
    pub fn further(&self, b: &mut Builder, row: GlobalPtr, tokens: Reg<u32>) -> GlobalPtr {
        let tokens = b.widen(tokens);
        b.global_add(row, tokens * self.strides[2])
    }

    /// Bytes between `tokens` tokens.
    #[track_caller]
    pub fn bytes_of(&self, b: &mut Builder, tokens: u32) -> Reg<u64> {
        b.eval(self.strides[2] * u64::from(tokens))
    }
}

/// Where the keys and values of a segment lie.
#[derive(Clone, Copy, Debug)]
pub enum Rows {
    /// Rows of elements: keys, and values.
    Elements(Tensor, Tensor),
    /// Packed rows, values being the first columns.
    Packed(Packed),
}

/// The rows of a segment, to be found by key.
pub struct SegmentRows<'a> {
    pub keys: &'a Keys,
    pub precision: Precision,
}

/// A key and its value.
pub struct Key<'a> {
    rows: &'a SegmentRows<'a>,
    /// Whether there is one: lists leave entries out.
    pub exists: Reg<bool>,
    place: Place,
}

/// Where they are.
enum Place {
    Elements { key: GlobalPtr, value: GlobalPtr },
    Packed(PackedRow),
}

impl SegmentRows<'_> {
    /// Finds key `key` of a tile's sequence, or entry `key` of the list of the view's token `token`.
    #[track_caller]
    pub fn find(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        token: TensorToken,
        key: Reg<u32>,
    ) -> Key<'_> {
        let (outer, row, exists) = self.row_of(b, open, token, key);
        let place = match &self.keys.exact {
            Rows::Elements(keys, values) => {
                let at = [outer, open.tile.kv_head.reg(), row];
                Place::Elements { key: keys.row(b, at), value: values.row(b, at) }
            }
            Rows::Packed(rows) => Place::Packed(rows.row(b, outer, row, exists)),
        };
        Key { rows: self, exists, place }
    }

    /// Batch or page of a key, row of it, and whether it exists.
    #[track_caller]
    pub fn row_of(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        token: TensorToken,
        key: Reg<u32>,
    ) -> (Reg<u32>, Reg<u32>, Reg<bool>) {
        let (keys, sequence) = (self.keys, &open.sequence);
        if let Some(lists) = keys.lists {
            let list = sequence.q_batch.reg() * lists.tokens + token.reg();
            let list = b.global_add(lists.entries, list.widening_mul(lists.bytes));
            let at = element(b, list, key);
            let entry = b.ld_global::<u32>(at);
            let exists = b.setp(Cmp::Lt, entry, lists.rows);
            let (outer, row) = match lists.page_rows {
                None => (sequence.k_batch.reg(), entry),
                Some(page_rows) => page_rows.divide(b, entry),
            };
            return (outer, row, exists);
        }
        let Some(pages) = keys.page_table else {
            let exists = b.predicate(true);
            return (sequence.k_batch.reg(), b.eval(key + sequence.k_start), exists);
        };
        let key = sequence.key_in_pages(b, key);
        let (entry, row) = pages.page_rows.divide(b, key);
        let entry = b.eval(open.tile.sequence.reg() * pages.pages_per_sequence + entry);
        let at = element(b, pages.table, entry);
        let page = b.ld_global::<u32>(at);
        let exists = b.setp(Cmp::Lt, page, pages.pages);
        (page, row, exists)
    }
}

impl Key<'_> {
    /// The raw score with the query at `query`.
    #[track_caller]
    pub fn dot(&self, b: &mut Builder, query: GlobalPtr) -> Reg<f32> {
        let sum = b.value::<f32>(0.0);
        b.range(0, self.key_dim() / VECTOR, |b, vector| {
            let left = elements(b, self.rows.precision, query, vector);
            let right = self.vector(b, true, vector);
            for (q, k) in left.into_iter().zip(right) {
                let added = b.fma(q, k, sum);
                b.assign(sum, added);
            }
        });
        sum
    }

    /// Vector `vector` of the value.
    #[track_caller]
    pub fn value(&self, b: &mut Builder, vector: Reg<u32>) -> [Reg<f32>; VECTOR as usize] {
        self.vector(b, false, vector)
    }

    fn key_dim(&self) -> u32 {
        match self.rows.keys.exact {
            Rows::Elements(keys, _) => keys.columns,
            Rows::Packed(rows) => rows.format.dim(),
        }
    }

    #[track_caller]
    fn vector(
        &self,
        b: &mut Builder,
        of_key: bool,
        vector: Reg<u32>,
    ) -> [Reg<f32>; VECTOR as usize] {
        match self.place {
            Place::Elements { key, value } => {
                let row = if of_key { key } else { value };
                match self.rows.keys.exact {
                    Rows::Elements(Tensor { e4m3: true, .. }, _) => numbers(b, row, vector),
                    _ => elements(b, self.rows.precision, row, vector),
                }
            }
            Place::Packed(row) => row.vector(b, vector),
        }
    }
}

/// Vector `vector` of a row of elements.
#[track_caller]
pub fn elements(
    b: &mut Builder,
    precision: Precision,
    row: GlobalPtr,
    vector: Reg<u32>,
) -> [Reg<f32>; VECTOR as usize] {
    let at = b.global_add(row, vector.widening_mul(VECTOR * precision.bytes()));
    precision.load(b, at)
}

/// Vector `vector` of a row of e4m3.
#[track_caller]
fn numbers(b: &mut Builder, row: GlobalPtr, vector: Reg<u32>) -> [Reg<f32>; VECTOR as usize] {
    let at = b.global_add(row, vector.widening_mul(VECTOR));
    let words = b.ld_global_vector::<u32>(at, 2);
    let numbers: Vec<_> = words.into_iter().flat_map(|word| b.unpack_e4m3(word)).collect();
    numbers.try_into().expect("four numbers in each of two words")
}
