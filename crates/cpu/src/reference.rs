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
    /// What each row `[batch, heads, tokens]` was computed from.
    pub magnitudes: Vec<Magnitudes>,
}

/// How large the numbers are that a row was computed from, which says how large its rounding errors are. `p` is
/// the probability of a key; what is not finite is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Magnitudes {
    /// `Σ p · (|scale| · ‖q‖ · ‖k‖ + |bias|)`, `p` being without the sink: no sum of the magnitudes that a score is
    /// added up from is larger on average.
    pub scores: f64,
    /// `Σ p · max |v|`: no sum of the magnitudes of an output element's products is larger.
    pub values: f64,
    /// `√Σ (p · ‖v‖)² / dim`: what an output element would be if the signs of its products were random.
    pub spread: f64,
}

impl Reference {
    pub(crate) fn empty(problem: &Problem) -> Self {
        let rows = problem.lse_len() as usize;
        Self {
            out: vec![0.0; rows * problem.value_dim() as usize],
            lse: vec![f64::NEG_INFINITY; rows],
            covered: vec![false; (problem.q.batch() * problem.q.tokens()) as usize],
            magnitudes: vec![Magnitudes::default(); rows],
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
