use problem::{HostMut, Problem};

/// A result in f64: dense `[batch, heads, tokens, value dim]` in the shape of `q`.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Output.
    pub out: Vec<f64>,
    /// Log-sum-exp, `[batch, heads, tokens]`.
    pub lse: Vec<f64>,
    /// Whether a token `[batch, tokens]` belongs to a sequence; engines leave the others alone.
    pub covered: Vec<bool>,
}

impl Reference {
    pub(crate) fn empty(problem: &Problem) -> Self {
        let rows = problem.lse_len() as usize;
        Self {
            out: vec![0.0; rows * problem.value_dim() as usize],
            lse: vec![f64::NEG_INFINITY; rows],
            covered: vec![false; (problem.q.batch() * problem.q.tokens()) as usize],
        }
    }

    /// Writes the rows that belong to a sequence, rounded, to memory in the problem's strides.
    ///
    /// # Panics
    /// If the memory is smaller than the problem's views.
    pub fn store(&self, problem: &Problem, out: &mut HostMut, mut lse: Option<&mut [f32]>) {
        let [batches, heads, tokens, dim] = problem.out.shape;
        for (b, t) in (0..batches).flat_map(|b| (0..tokens).map(move |t| (b, t))) {
            if !self.covered[(b * tokens + t) as usize] {
                continue;
            }
            for h in 0..heads {
                let row = dense_row(problem, b, h, t);
                let offset = problem.out.row_offset(b, h, t) as usize;
                for d in 0..dim as usize {
                    out.set(offset + d, self.out[row * dim as usize + d]);
                }
                if let Some(lse) = &mut lse {
                    lse[row] = self.lse[row] as f32;
                }
            }
        }
    }
}

/// Index of a row of `q`'s shape in dense `[batch, heads, tokens]` order.
pub(crate) fn dense_row(problem: &Problem, batch: u64, head: u64, token: u64) -> usize {
    ((batch * problem.query_heads() + head) * problem.q.tokens() + token) as usize
}
