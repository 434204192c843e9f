//! Rows of a problem's memory, which was checked, as f64.

use crate::mask::MaskTensor;
use crate::packed;
use problem::{HostRef, View};
pub(crate) use problem::{Inputs, RowAt, SegmentInputs};

/// Reading a problem's queries.
pub(crate) trait LoadQueries {
    /// A query row.
    fn load_query(&self, head: u64, at: RowAt) -> Vec<f64>;
}

impl LoadQueries for Inputs<'_> {
    fn load_query(&self, head: u64, at: RowAt) -> Vec<f64> {
        load_row(self.q, &self.problem.q, head, at)
    }
}

/// Reading a segment's rows and its mask tensor.
pub(crate) trait LoadRows<'a> {
    /// A key row and its value row, of sequence `b`.
    fn load(&self, b: u64, kv_head: u64, at: RowAt) -> (Vec<f64>, Vec<f64>);

    /// The mask tensor, where there is one.
    fn mask(&self) -> Option<MaskTensor<'a>>;
}

impl<'a> LoadRows<'a> for SegmentInputs<'a> {
    fn load(&self, b: u64, kv_head: u64, at: RowAt) -> (Vec<f64>, Vec<f64>) {
        if let HostRef::U8(bytes) = self.k {
            let key = unpack(self, bytes, at);
            let value = key[..self.segment.value_dim() as usize].to_vec();
            return (key, value);
        }
        let mut key = load_row(self.k, &self.segment.k, kv_head, at);
        let mut value = load_row(self.v, &self.segment.value_view(), kv_head, at);
        if self.segment.is_e4m3() {
            let factors = self.descales(b, kv_head).map(f64::from);
            key.iter_mut().for_each(|x| *x *= factors[0]);
            value.iter_mut().for_each(|x| *x *= factors[1]);
        }
        (key, value)
    }

    fn mask(&self) -> Option<MaskTensor<'a>> {
        self.attn_mask.map(|(mask, memory)| MaskTensor::new(&mask, memory))
    }
}

fn unpack(segment: &SegmentInputs, bytes: &[u8], at: RowAt) -> Vec<f64> {
    let mut row = vec![0.0; segment.segment.k.dim() as usize];
    packed::unpack(segment.segment, bytes, at, &mut row);
    row.into_iter().map(f64::from).collect()
}

fn load_row(memory: HostRef, view: &View, head: u64, at: RowAt) -> Vec<f64> {
    let offset = view.row_offset(at.batch, head, at.token) as usize;
    (offset..offset + view.dim() as usize).map(|i| memory.get(i)).collect()
}
