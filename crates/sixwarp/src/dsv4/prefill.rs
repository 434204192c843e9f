//! New tokens of several requests, which read the pages of their caches in place.

use super::{Core, HEAD_DIM, Layer, Pool, by_position, near};
use crate::Error;
use problem::{DType, Problem, QueryLengths, View};

/// New tokens of several requests, one request behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTokens {
    /// How many requests there are.
    pub requests: u64,
    /// Tokens of all requests.
    pub tokens: u64,
    /// No request has more tokens than these.
    pub longest: u64,
}

impl Core {
    /// New tokens of several requests at different positions. Pages of any format are read in place: nothing is
    /// gathered or unpacked before the call.
    ///
    /// [`Slot::CuSeqlensQ`](crate::Slot::CuSeqlensQ) says where the queries of each request begin. Segment 0 reads
    /// `window` by a page table. [`SegmentSlot::Used`](crate::SegmentSlot::Used) says how many tokens a request has,
    /// the new ones included, and each query sees the last 128 up to its own. Entries of the table before all windows
    /// may name any page. Segment 1 reads `compressed`: by index lists of `top_k` entries, one per new token, in a CSA
    /// layer; by a page table in an HCA layer, where [`Slot::Positions`](crate::Slot::Positions) holds the position of
    /// each request's first new token.
    ///
    /// ```
    /// use sixwarp::dsv4::{Core, Layer, NewTokens, Pool};
    /// use sixwarp::Storage;
    /// // 3 requests with 5,000 new tokens in all, at most 4,096 each, 128 heads, fp8 caches as served.
    /// let core = Core { heads: 128, layer: Layer::Csa { top_k: 1024 } };
    /// let new = NewTokens { requests: 3, tokens: 5000, longest: 4096 };
    /// let storage = Storage::Model1;
    /// let window = Pool { pages: 300, page_rows: 64, pages_per_request: 100, storage };
    /// let problem = core.prefill_pages(new, window, Some(Pool { pages_per_request: 0, ..window }))?;
    /// assert_eq!((problem.batch(), problem.q.tokens()), (3, 5000));
    /// # Ok::<(), sixwarp::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `compressed` is missing where the layer has compressed rows, or given where it has none.
    pub fn prefill_pages(
        &self,
        new: NewTokens,
        window: Pool,
        compressed: Option<Pool>,
    ) -> Result<Problem, Error> {
        let q = View::bshd(DType::Bf16, [1, self.heads, new.tokens, HEAD_DIM]);
        let lengths = QueryLengths::Packed { batch: new.requests, longest: new.longest };
        let paged = |pool: Pool, mask| pool.segment().paged(pool.pages_per_request).mask(mask);
        let builder = Problem::builder(q).query_lengths(lengths).sinks().return_lse();
        let builder = builder.segment(paged(window, near()).used());
        let builder = match (self.layer, compressed) {
            (Layer::Swa, None) => builder,
            (Layer::Csa { top_k }, Some(pool)) => {
                builder.segment(pool.segment().paged(0).indexed(top_k))
            }
            (Layer::Hca, Some(pool)) => builder.segment(paged(pool, by_position())),
            _ => return Err(self.wrong_pools()),
        };
        Ok(builder.build()?)
    }
}
