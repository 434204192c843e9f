use problem::Problem;

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
}

/// Index of a row of `q`'s shape in dense `[batch, heads, tokens]` order.
pub(crate) fn dense_row(problem: &Problem, batch: u64, head: u64, token: u64) -> usize {
    ((batch * problem.query_heads() + head) * problem.q.tokens() + token) as usize
}
