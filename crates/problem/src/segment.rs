use crate::{AttnMask, DType, Descale, Mask, Storage, View};

/// Where a segment's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// A tensor of their own.
    Separate(View),
    /// The first `dim` columns of the keys: K and V are one tensor, loaded once.
    SameAsKeys {
        /// Length of a value row.
        dim: u64,
    },
}

/// How many keys each sequence has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLengths {
    /// Sequences lie one after the other in the token dimension of a view of batch 1;
    /// `cu_seqlens_k` holds `batch + 1` offsets (i32). The value is an upper bound of one length.
    pub packed: Option<u64>,
    /// `seqused_k` holds the number of keys in use per sequence (i32), at most what the view has;
    /// with index lists, the number of leading entries in use of each list of the sequence.
    pub used: bool,
}

impl KeyLengths {
    /// Every sequence has as many keys as the view (or its page table) has tokens.
    pub const FULL: KeyLengths = KeyLengths { packed: None, used: false };
}

/// Keys and values live in pages: the view's batch dimension counts pages and its token dimension is
/// the page size; `page_table` (i32 `[batch, pages_per_sequence]`) names each sequence's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// Columns of the page table.
    pub pages_per_sequence: u64,
}

/// Each query token sees only the keys of its list: `indices` (i32 `[batch, tokens, width]`), each a
/// row number of the sequence's own keys. Where keys are paged, an entry is `page · page_size + row`
/// with the page's number in memory, and no page table is read. An entry that names no row, negative
/// or too large, is skipped. The lists say what is visible, so the mask is [`Mask::Full`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexList {
    /// Entries per query token.
    pub width: u64,
    /// Entries from one query token's list to the next one's.
    pub pitch: u64,
}

/// One run of keys and values.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Keys.
    pub k: View,
    /// Values.
    pub values: Values,
    /// Lengths.
    pub lengths: KeyLengths,
    /// Paging.
    pub paging: Option<Paging>,
    /// Index lists.
    pub indices: Option<IndexList>,
    /// Visibility.
    pub mask: Mask,
    /// How rows lie in memory.
    pub storage: Storage,
    /// Bytes from one page (or sequence) of packed rows to the next; `None` is what the format has.
    pub page_bytes: Option<u64>,
    /// A tensor that hides keys or is added to scores, beside what `mask` hides.
    pub attn_mask: Option<AttnMask>,
    /// Factors on e4m3 keys; 1 if absent.
    pub k_descale: Option<Descale>,
    /// Factors on e4m3 values; 1 if absent.
    pub v_descale: Option<Descale>,
}

impl Segment {
    /// A plain segment: every query sees every key.
    pub fn new(k: View, v: View) -> Self {
        Self::with_values(k, Values::Separate(v))
    }

    /// A segment whose values are the first `dim` columns of its keys.
    pub fn shared(k: View, dim: u64) -> Self {
        Self::with_values(k, Values::SameAsKeys { dim })
    }

    fn with_values(k: View, values: Values) -> Self {
        Self {
            k,
            values,
            lengths: KeyLengths::FULL,
            paging: None,
            indices: None,
            mask: Mask::Full,
            storage: Storage::Elements,
            page_bytes: None,
            attn_mask: None,
            k_descale: None,
            v_descale: None,
        }
    }

    /// Sets the mask.
    pub fn mask(self, mask: Mask) -> Self {
        Self { mask, ..self }
    }
    /// Sequences are packed one after the other; none is longer than `longest`.
    pub fn packed(mut self, longest: u64) -> Self {
        self.lengths.packed = Some(longest);
        self
    }
    /// Lengths in use are given per sequence.
    pub fn used(mut self) -> Self {
        self.lengths.used = true;
        self
    }
    /// Keys and values live in pages.
    pub fn paged(self, pages_per_sequence: u64) -> Self {
        Self { paging: Some(Paging { pages_per_sequence }), ..self }
    }
    /// Each query token sees only the keys of its list.
    pub fn indexed(self, width: u64) -> Self {
        Self { indices: Some(IndexList { width, pitch: width }), ..self }
    }
    /// Lists of query tokens begin `pitch` entries apart.
    pub fn list_pitch(mut self, pitch: u64) -> Self {
        self.indices = self.indices.map(|list| IndexList { pitch, ..list });
        self
    }

    /// A tensor hides keys or is added to scores.
    pub fn attn_mask(self, mask: AttnMask) -> Self {
        Self { attn_mask: Some(mask), ..self }
    }

    /// Keys and values, which are e4m3, have factors.
    pub fn descaled(self, k: Descale, v: Descale) -> Self {
        Self { k_descale: Some(k), v_descale: Some(v), ..self }
    }

    /// Rows lie in memory as `storage` says.
    pub fn stored(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// Pages of packed rows begin `bytes` apart.
    pub fn page_bytes(self, bytes: u64) -> Self {
        Self { page_bytes: Some(bytes), ..self }
    }

    /// Bytes from one page (or sequence) of packed rows to the next; 0 for elements.
    pub fn page_stride(&self) -> u64 {
        let tight = self.storage.packed().map_or(0, |format| format.page_stride(self.k.tokens()));
        self.page_bytes.unwrap_or(tight)
    }

    /// Length of a value row.
    pub fn value_dim(&self) -> u64 {
        match self.values {
            Values::Separate(v) => v.dim(),
            Values::SameAsKeys { dim } => dim,
        }
    }

    /// The view that value rows are read through.
    pub fn value_view(&self) -> View {
        match self.values {
            Values::Separate(v) => v,
            Values::SameAsKeys { dim } => {
                let [b, h, t, _] = self.k.shape;
                View { shape: [b, h, t, dim], ..self.k }
            }
        }
    }

    /// Whether keys and values are e4m3 elements.
    pub fn is_e4m3(&self) -> bool {
        self.k.dtype == DType::E4m3
    }

    /// Whether keys are found through a page table.
    pub fn reads_page_table(&self) -> bool {
        self.paging.is_some() && self.indices.is_none()
    }

    /// Rows that an entry of a list can name.
    pub fn listed_rows(&self) -> u64 {
        let pages = if self.paging.is_some() { self.k.batch() } else { 1 };
        self.k.tokens().saturating_mul(pages)
    }

    /// The most keys that lengths on the device can give a sequence.
    pub fn most_keys(&self) -> u64 {
        if self.lengths.packed.is_some() { self.k.tokens() } else { self.longest() }
    }

    /// The most keys one query can have before masking.
    pub fn longest(&self) -> u64 {
        match (self.indices, self.paging, self.lengths.packed) {
            (Some(list), _, _) => list.width,
            (_, Some(paging), _) => paging.pages_per_sequence * self.k.tokens(),
            (_, _, Some(longest)) => longest.min(self.k.tokens()),
            _ => self.k.tokens(),
        }
    }
}
