//! The type of a problem's numbers, in a kernel.

use problem::{DType, Problem};
use ptx::build::{Builder, GlobalPtr, HalfType, Reg};

/// Numbers that are read together: 16 bytes of 16-bit elements.
pub const VECTOR: u32 = 8;
/// Words that one instruction moves.
const WORDS: usize = 4;

/// The type of queries, keys, values and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 16 bits.
    Half(HalfType),
    /// f32.
    Single,
}

impl Precision {
    /// That of a problem that has a kernel.
    pub fn of(problem: &Problem) -> Self {
        match problem.dtype() {
            DType::F16 => Precision::Half(HalfType::F16),
            DType::F32 => Precision::Single,
            DType::Bf16 | DType::F64 | DType::E4m3 => Precision::Half(HalfType::Bf16),
        }
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            Precision::Half(_) => 2,
            Precision::Single => 4,
        }
    }

    /// The 16-bit type, where it is one.
    pub fn half(self) -> Option<HalfType> {
        match self {
            Precision::Half(half) => Some(half),
            Precision::Single => None,
        }
    }

    /// Loads [`VECTOR`] neighbouring numbers.
    #[track_caller]
    pub fn load(self, b: &mut Builder, from: GlobalPtr) -> [Reg<f32>; VECTOR as usize] {
        let numbers: Vec<_> = match self {
            Precision::Half(half) => {
                let words = b.ld_global_vector::<u32>(from, WORDS);
                words.into_iter().flat_map(|word| b.unpack(half, word)).collect()
            }
            Precision::Single => {
                let halves = [0, 16].map(|at| b.ld_global_vector::<f32>(from.plus(at), WORDS));
                halves.concat()
            }
        };
        numbers.try_into().expect("eight numbers in one or two vectors")
    }

    /// Numbers as words of memory, rounded.
    #[track_caller]
    pub fn words(self, b: &mut Builder, numbers: &[Reg<f32>]) -> Vec<Reg<u32>> {
        match self {
            Precision::Half(half) => {
                numbers.chunks_exact(2).map(|pair| b.pack(half, pair[0], pair[1])).collect()
            }
            Precision::Single => numbers.iter().map(|number| b.bits(*number)).collect(),
        }
    }

    /// Stores words from a multiple of 16 bytes on.
    #[track_caller]
    pub fn store(b: &mut Builder, to: GlobalPtr, words: &[Reg<u32>]) {
        for (n, vector) in (0..).zip(words.chunks(WORDS)) {
            b.st_global_vector(to.plus(n * 16), vector);
        }
    }
}
