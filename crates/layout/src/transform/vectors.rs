//! Cutting what a thread holds into vector accesses.

/// One vector access of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorAccess {
    /// First element index in memory.
    pub index: u64,
    /// The thread's values in memory order.
    pub values: Vec<u64>,
}

/// Cuts one thread's values, given as their memory indices in value order, into aligned runs of
/// `width` elements; none when they do not form such runs. Any values may share a run: registers
/// are named one by one in a vector store.
pub(super) fn aligned_runs(indices: &[u64], width: u64) -> Option<Vec<VectorAccess>> {
    let mut by_index: Vec<(u64, u64)> = indices.iter().copied().zip(0..).collect();
    by_index.sort_unstable();
    let mut runs = Vec::new();
    for run in by_index.chunks(width as usize) {
        let index = run[0].0;
        let whole = run.len() as u64 == width && index.is_multiple_of(width);
        if !whole || run.iter().zip(index..).any(|((found, _), wanted)| *found != wanted) {
            return None;
        }
        runs.push(VectorAccess { index, values: run.iter().map(|(_, value)| *value).collect() });
    }
    // Threads issue their runs in the order in which the values appear, so that run `i` of all
    // threads is one instruction.
    runs.sort_by_key(|run| run.values.iter().copied().min());
    Some(runs)
}

/// Whether consecutive values already lie in consecutive memory, run by run.
pub(super) fn in_value_order(indices: &[u64], width: u64) -> bool {
    (indices.len() as u64).is_multiple_of(width)
        && indices.chunks(width as usize).all(|run| {
            run[0].is_multiple_of(width)
                && run.iter().zip(run[0]..).all(|(found, wanted)| *found == wanted)
        })
}
