//! Attention as an operation of candle.

use crate::{cpu, problem};
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, CustomOp3, Error, Layout, Result, Shape, Tensor};
use sixwarp::{Mask, SegmentSlot, Slot};

/// What a call says beside `q`, `k` and `v`.
pub(crate) struct Attention {
    pub(crate) scale: f32,
    pub(crate) mask: Mask,
    pub(crate) softcap: Option<f32>,
    pub(crate) sequences: Sequences,
    /// Offsets, lengths, tables and biases, by the slots they fill.
    pub(crate) others: Vec<(Slot, Tensor)>,
}

/// How tokens are divided into sequences.
#[derive(Clone, Copy)]
pub(crate) enum Sequences {
    /// By the batch dimension.
    Batch,
    /// By offsets, with a bound of the queries and of the keys of one.
    Packed { count: usize, queries: usize, keys: usize },
    /// By offsets, keys in pages of a table of so many columns.
    Paged { count: usize, queries: usize, columns: usize },
}

impl Attention {
    pub(crate) fn new(scale: f32, left: Option<usize>, right: Option<usize>, softcap: f32) -> Self {
        let side = |keys: Option<usize>| keys.map(|keys| keys as u64);
        let mask = match (left, right) {
            (None, None) => Mask::Full,
            (None, Some(0)) => Mask::Causal,
            _ => Mask::Window { left: side(left), right: side(right) },
        };
        let softcap = (softcap > 0.).then_some(softcap);
        Attention { scale, mask, softcap, sequences: Sequences::Batch, others: Vec::new() }
    }

    pub(crate) fn bias(mut self, bias: Tensor) -> Self {
        self.others.push((segment(SegmentSlot::AttnMask), bias));
        self
    }

    /// Sequences one after the other, at most `longest` queries and keys each.
    pub(crate) fn packed(
        mut self,
        q: &Tensor,
        k: &Tensor,
        longest: (usize, usize),
    ) -> Result<Self> {
        let count = sequences(q, k)?;
        let (queries, keys) = longest;
        self.sequences = Sequences::Packed { count, queries, keys };
        self.others.push((Slot::CuSeqlensQ, q.clone()));
        self.others.push((segment(SegmentSlot::CuSeqlens), k.clone()));
        Ok(self)
    }

    /// As `packed`, with keys in the pages that `table` names.
    pub(crate) fn paged(
        mut self,
        q: &Tensor,
        k: &Tensor,
        table: &Tensor,
        longest: (usize, usize),
    ) -> Result<Self> {
        let count = sequences(q, k)?;
        let (rows, columns) = table.dims2()?;
        if rows != count {
            candle_core::bail!("block_table has {rows} rows: there are {count} sequences");
        }
        self.sequences = Sequences::Paged { count, queries: longest.0, columns };
        let used = k.narrow(0, 1, count)?.sub(&k.narrow(0, 0, count)?)?;
        self.others.push((Slot::CuSeqlensQ, q.clone()));
        self.others.push((segment(SegmentSlot::Used), used));
        self.others.push((segment(SegmentSlot::PageTable), table.clone()));
        Ok(self)
    }

    pub(crate) fn apply(self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        for (name, x) in [("k", k), ("v", v)] {
            if x.dtype() != q.dtype() {
                candle_core::bail!(
                    "{name} is {:?} and q {:?}: they must be the same",
                    x.dtype(),
                    q.dtype()
                );
            }
        }
        q.apply_op3(k, v, self)
    }
}

/// A slot of the only segment.
fn segment(slot: SegmentSlot) -> Slot {
    Slot::Segment(0, slot)
}

/// How many sequences offsets divide tokens into.
fn sequences(q: &Tensor, k: &Tensor) -> Result<usize> {
    let (ends, others) = (q.dims1()?, k.dims1()?);
    if ends != others || ends < 2 {
        candle_core::bail!(
            "seqlens_q has {ends} offsets and seqlens_k {others}: (batch + 1,) of both is needed"
        );
    }
    Ok(ends - 1)
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "sixwarp-attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let shape = problem::out_shape(q_layout, v_layout)?;
        let problem = problem::describe(self, q, [q_layout, k_layout, v_layout])?;
        let inputs = [(Slot::Q, q, q_layout), (Slot::K, k, k_layout), (Slot::V, v, v_layout)];
        let out = cpu::run(&problem, &inputs, &self.others, shape.elem_count())?;
        Ok((out, shape))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        q: &CudaStorage,
        q_layout: &Layout,
        k: &CudaStorage,
        k_layout: &Layout,
        v: &CudaStorage,
        v_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let shape = problem::out_shape(q_layout, v_layout)?;
        let problem = problem::describe(self, q, [q_layout, k_layout, v_layout])?;
        let inputs = [(Slot::Q, q, q_layout), (Slot::K, k, k_layout), (Slot::V, v, v_layout)];
        let out = crate::cuda::run(&problem, &inputs, &self.others, shape.elem_count())?;
        Ok((out, shape))
    }
}

/// An error of sixwarp as candle's.
pub(crate) fn failed(error: impl Into<sixwarp::Error>) -> Error {
    Error::wrap(error.into())
}
