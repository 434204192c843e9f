//! No description of a problem makes validation or planning panic, and what is accepted can be asked
//! about; accepted problems without memory are refused, not run.

use sixwarp::{
    Arch, AttnMask, DType, Device, HostBuffers, Mask, MaskElement, Problem, QueryLengths, Segment,
    Storage, View, attention, plan,
};

/// Bytes read as choices; zeros behind their end.
struct Choices<'b>(&'b [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }

    fn one_of(&mut self, count: u8) -> u8 {
        self.byte() % count
    }

    fn yes(&mut self) -> bool {
        self.one_of(2) == 1
    }

    /// Small numbers as often as extreme ones.
    fn number(&mut self) -> u64 {
        match self.one_of(4) {
            0 => u64::from(self.one_of(5)),
            1 => 1 << (self.byte() % 64),
            2 => self.word(),
            _ => 1 + self.word() % 600,
        }
    }

    fn edge(&mut self) -> Option<u64> {
        self.yes().then(|| self.number())
    }

    fn view(&mut self) -> View {
        let dtype = [DType::F32, DType::F16, DType::Bf16][usize::from(self.one_of(3))];
        let shape = [(); 4].map(|()| self.number());
        match self.one_of(3) {
            0 => View::bhsd(dtype, shape),
            1 => View::bshd(dtype, shape),
            _ => View { shape, strides: [self.number(), self.number(), self.number(), 1], dtype },
        }
    }

    fn segment(&mut self) -> Segment {
        let k = self.view();
        let mut segment = match self.yes() {
            true => Segment::shared(k, self.number()),
            false => Segment::new(k, self.view()),
        };
        segment = segment.mask(match self.one_of(4) {
            0 => Mask::Full,
            1 => Mask::Causal,
            2 => Mask::Window { left: self.edge(), right: self.edge() },
            _ => Mask::Compressed { ratio: self.number() },
        });
        if self.yes() {
            segment = segment.paged(self.number());
        }
        if self.yes() {
            segment = segment.packed(self.number());
        }
        if self.yes() {
            segment = segment.indexed(self.number()).list_pitch(self.number());
        }
        if self.yes() {
            segment = segment.stored(Storage::ALL[usize::from(self.one_of(7))]);
        }
        if self.yes() {
            segment = segment.page_bytes(self.number());
        }
        if self.yes() { segment.used() } else { segment }
    }

    fn attn_mask(&mut self) -> AttnMask {
        let floats = [DType::F64, DType::F32, DType::F16, DType::Bf16].map(MaskElement::Float);
        let element = match self.one_of(5) {
            0 => MaskElement::Bool,
            n => floats[usize::from(n - 1)],
        };
        let shape = [(); 4].map(|()| self.number());
        let strides = [(); 4].map(|()| self.number());
        AttnMask { shape, strides, element }
    }

    fn problem(&mut self) -> Option<Problem> {
        let mut builder = Problem::builder(self.view());
        let segments: Vec<Segment> = (0..self.one_of(4)).map(|_| self.segment()).collect();
        if self.yes() {
            let (batch, longest) = (self.number(), self.number());
            builder = builder.query_lengths(QueryLengths::Packed { batch, longest });
        }
        if self.yes() {
            builder = builder.out(self.view());
        }
        builder = builder.scale(f32::from_bits(self.word() as u32));
        // Last, so that seeds from before there were mask tensors mean what they meant.
        for segment in segments {
            builder = builder.segment(match self.yes() {
                true => segment.attn_mask(self.attn_mask()),
                false => segment,
            });
        }
        builder.build().ok()
    }
}

/// Panics where they do not keep that promise.
pub fn check(bytes: &[u8]) {
    let Some(problem) = Choices(bytes).problem() else { return };
    let _ = (problem.flops(), problem.lse_len());
    for slot in problem.slots() {
        assert!(problem.slot_bytes(slot) < 1 << 60, "{slot}");
    }
    assert!(attention(&problem, &mut HostBuffers::new(), &Device::cpu()).is_err());
    for arch in [Arch::Sm90, Arch::Sm100] {
        let _ = plan(&problem, &Device::simulated(arch));
    }
}
