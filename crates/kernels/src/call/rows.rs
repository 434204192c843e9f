//! Which query a row of a tile is.
//!
//! A block of `capacity` rows (64 for a warpgroup, 128 for a tcgen05 tile) holds `tokens × heads`
//! queries of one KV head: row `r` is token `r / heads`, head `r % heads` of the block. With long
//! queries `heads` is 1; when there are few tokens, heads of the KV head fill the tile instead.

use crate::call::index::{HeadOfKvHead, QueryToken, RowBlockIndex};
use problem::Problem;
use ptx::build::{Builder, Reg};

/// How queries fill a row block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packing {
    /// Rows of a block.
    pub capacity: u32,
    /// Heads of the KV head side by side in a block.
    pub heads: u32,
    /// Tokens of a block.
    pub tokens: u32,
}

impl Packing {
    /// The packing with the fewest blocks; heads are packed only if that saves more than a tenth.
    pub fn choose(problem: &Problem, capacity: u32) -> Self {
        let (group, tokens) = (problem.group() as u32, problem.longest_query());
        let plain = Packing { capacity, heads: 1, tokens: capacity };
        let packed = Self::of_heads(problem, capacity);
        let saves = packed.blocks(group, tokens) * 10 < plain.blocks(group, tokens) * 9;
        if saves { packed } else { plain }
    }

    /// As many heads of a token as a block has rows for, and as many tokens as there is room for then.
    pub fn of_heads(problem: &Problem, capacity: u32) -> Self {
        let heads = Self::most_heads(problem, capacity);
        Packing { capacity, heads, tokens: capacity / heads }
    }

    /// As many heads of one token as a block has rows for.
    pub fn of_one_token(problem: &Problem, capacity: u32) -> Self {
        Packing { capacity, heads: Self::most_heads(problem, capacity), tokens: 1 }
    }

    /// The most heads of a KV head that fill the same number of rows in every block.
    fn most_heads(problem: &Problem, capacity: u32) -> u32 {
        let group = problem.group() as u32;
        (1..=group.min(capacity)).rev().find(|h| group.is_multiple_of(*h)).unwrap_or(1)
    }

    /// Blocks of one KV head of one sequence of `tokens` queries.
    pub fn blocks(&self, group: u32, tokens: u64) -> u64 {
        tokens.div_ceil(self.tokens as u64) * self.head_blocks(group) as u64
    }

    /// Blocks that share the same tokens.
    pub fn head_blocks(&self, group: u32) -> u32 {
        group / self.heads
    }

    /// Rows of a block that are queries.
    pub fn used(&self) -> u32 {
        self.heads * self.tokens
    }
}

/// One row block: its first token and its first head of the KV head.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    packing: Packing,
    /// First token, relative to the sequence.
    pub token: QueryToken,
    /// First head, relative to the KV head.
    pub head: HeadOfKvHead,
}

impl Block {
    /// The block of number `index`; head blocks of the same tokens are neighbours.
    #[track_caller]
    pub fn at(b: &mut Builder, packing: Packing, group: u32, index: RowBlockIndex) -> Self {
        let index = index.reg();
        let head_blocks = packing.head_blocks(group);
        let (token_block, head_block) = if head_blocks == 1 {
            (index, b.value::<u32>(0))
        } else {
            (b.eval(index / head_blocks), b.eval(index % head_blocks))
        };
        let token = QueryToken::new(b.eval(token_block * packing.tokens));
        let head = HeadOfKvHead::new(b.eval(head_block * packing.heads));
        Block { packing, token, head }
    }

    /// The last token of the block.
    #[track_caller]
    pub fn last_token(&self, b: &mut Builder) -> QueryToken {
        QueryToken::new(b.eval(self.token.reg() + (self.packing.tokens - 1)))
    }

    /// Token (relative to the sequence) and head (relative to the KV head) of a row.
    #[track_caller]
    pub fn query(&self, b: &mut Builder, row: Reg<u32>) -> (QueryToken, HeadOfKvHead) {
        let (first_token, first_head) = (self.token.reg(), self.head.reg());
        if self.packing.heads == 1 {
            return (QueryToken::new(b.eval(first_token + row)), self.head);
        }
        let (token, head) = (b.eval(row / self.packing.heads), b.eval(row % self.packing.heads));
        let token = QueryToken::new(b.eval(first_token + token));
        (token, HeadOfKvHead::new(b.eval(first_head + head)))
    }
}
