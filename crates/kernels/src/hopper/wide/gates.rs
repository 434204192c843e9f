//! How warps that unpack rows learn that a piece of a KV tile has been read: by named barriers.
//!
//! A wait for an mbarrier is a loop, and before a loop the assembler waits for everything that was loaded to registers.
//! Warps that unpack load the rows of the next tile there, and would wait for memory at every tile. A named barrier is one
//! instruction.
//!
//! Each piece of a stage has a barrier. Those who read the piece arrive, those who fill it wait. Readers arrive once
//! before the first tile, and those who fill wait once more behind the last one, so that every arrival meets its wait.

use super::kernel::WARPS;
use crate::moves::gather::UNPACKING_WARPS;
use ptx::build::{Builder, Reg};

/// First named barrier; barrier 0 is the CTA's.
const FIRST: u32 = 1;

/// The named barriers of all pieces.
#[derive(Clone, Debug)]
pub struct Gates {
    stages: u32,
    /// Warpgroups that read each piece.
    readers: Vec<u32>,
}

impl Gates {
    /// Gates of so many stages, of pieces that so many warpgroups read each.
    pub fn new(stages: u32, readers: Vec<u32>) -> Self {
        Gates { stages, readers }
    }

    /// Lets the first tiles in, for the warpgroup that reads `pieces`.
    #[track_caller]
    pub fn open(&self, b: &mut Builder, pieces: impl Iterator<Item = usize> + Clone) {
        for stage in 0..self.stages {
            for piece in pieces.clone() {
                let stage = b.value(stage);
                self.release(b, stage, piece);
            }
        }
    }

    /// Says that the threads of a warp have read a piece of a stage.
    #[track_caller]
    pub fn release(&self, b: &mut Builder, stage: Reg<u32>, piece: usize) {
        let barrier = self.barrier(b, stage, piece);
        b.barrier_arrive(barrier, self.threads(piece));
    }

    /// Waits until a piece of a stage has been read.
    #[track_caller]
    pub fn wait(&self, b: &mut Builder, stage: Reg<u32>, piece: usize) {
        let barrier = self.barrier(b, stage, piece);
        b.barrier_sync(barrier, self.threads(piece));
    }

    /// Waits until everything has been read.
    #[track_caller]
    pub fn drain(&self, b: &mut Builder) {
        for stage in 0..self.stages {
            for piece in 0..self.readers.len() {
                let stage = b.value(stage);
                self.wait(b, stage, piece);
            }
        }
    }

    #[track_caller]
    fn barrier(&self, b: &mut Builder, stage: Reg<u32>, piece: usize) -> Reg<u32> {
        b.eval(stage * self.readers.len() as u32 + (FIRST + piece as u32))
    }

    /// Threads that meet at the barriers of a piece.
    fn threads(&self, piece: usize) -> u32 {
        (UNPACKING_WARPS + self.readers[piece] * WARPS) * 32
    }
}
