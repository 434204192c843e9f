//! Tensor copies and matrix descriptors that permute addresses differently.
//!
//! A copy through a tensor map permutes addresses by the map's swizzle, which is also the pitch of its
//! rows; a multiply by that of its descriptor, moved by its base offset. Where the two differ, the
//! multiply reads other rows or columns than the copy wrote. Only what a copy wrote last is looked at:
//! threads may store in any order they like.

use super::agent::AgentId;
use super::pipes::{Checker, Memory};
use super::shadow::Access;
use super::touched::{Operand, Touched};
use crate::exec::Work;
use crate::judge::Judge;
use crate::machine::{Machine, Run};
use crate::matrix::{MatrixSwizzle, SharedMatrix};
use crate::rules::Rule;
use crate::tensor_copy::{permute, swizzle_name};
use crate::warp::WarpId;
use program::Swizzle;
use std::collections::HashMap;

/// How bulk copies were swizzled: for each agent, from which of its times on.
#[derive(Default)]
pub(super) struct Swizzles(HashMap<AgentId, Vec<(u32, Option<Swizzle>)>>);

impl Swizzles {
    /// An agent makes a copy; `None` where rows have no meaning.
    fn note(&mut self, agent: AgentId, time: u32, swizzle: Option<Swizzle>) {
        let last = self.0.get(&agent).and_then(|changes| changes.last()?.1);
        if last != swizzle {
            self.0.entry(agent).or_default().push((time, swizzle));
        }
    }

    /// How the copy that made an access was swizzled, if it was one through a tensor map.
    fn of(&self, access: Access) -> Option<Swizzle> {
        let changes = self.0.get(&access.agent())?;
        let next = changes.partition_point(|(from, _)| *from <= access.time());
        changes.get(next.checked_sub(1)?)?.1
    }
}

/// How a copy swizzles. A map of one dimension copies bytes, whatever they mean.
fn swizzle(work: &Work) -> Option<Swizzle> {
    match work {
        Work::TensorLoad { map, .. } if map.rank > 1 || map.swizzle != Swizzle::None => {
            Some(map.swizzle)
        }
        _ => None,
    }
}

/// Whether a copy and a multiply permute the 128-byte line of `address` alike.
fn agrees(copied: Swizzle, matrix: &SharedMatrix, address: u32) -> bool {
    let same = match copied {
        Swizzle::None => MatrixSwizzle::None,
        Swizzle::B32 => MatrixSwizzle::B32,
        Swizzle::B64 => MatrixSwizzle::B64,
        Swizzle::B128 => MatrixSwizzle::B128,
        Swizzle::B128Atom32 => MatrixSwizzle::B128Base32,
        Swizzle::B128Atom32Flip8 | Swizzle::B128Atom64 => return false,
    };
    matrix.swizzle == same && matrix.flips(address) == permute(copied, address) ^ address
}

impl Checker {
    /// An agent of its own makes a copy.
    pub(super) fn note_copy(&mut self, agent: AgentId, time: u32, work: &Work) {
        self.swizzles.note(agent, time, swizzle(work));
    }

    /// The first byte of a part of an operand that was copied with another swizzle than it is read with.
    fn other_swizzle(&self, touched: &Touched, matrix: &SharedMatrix) -> Option<(u64, Access)> {
        let chunks = (touched.start..touched.start + touched.len).step_by(16);
        let mut known: Option<(Access, Option<Swizzle>)> = None;
        { chunks }.find_map(|at| {
            let write = self.last_write(touched.memory, at)?;
            let swizzle = match known {
                Some((same, swizzle)) if same == write => swizzle,
                _ => self.swizzles.of(write),
            };
            known = Some((write, swizzle));
            (!agrees(swizzle?, matrix, at as u32)).then_some((at, write))
        })
    }
}

impl Judge<'_> {
    /// Reports the first operand of an operation that was copied otherwise than it is read.
    pub(super) fn check_swizzles(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        touched: &[Touched],
    ) -> Run<()> {
        let Some(checker) = self.checker.as_ref().filter(|c| !c.swizzles.0.is_empty()) else {
            return Ok(());
        };
        let mut reported = "";
        for part in touched {
            let Some(operand) = part.operand.filter(|operand| operand.name != reported) else {
                continue;
            };
            if let Some((at, write)) = checker.other_swizzle(part, &operand.matrix) {
                reported = operand.name;
                self.report_swizzle(machine, w, (part.memory, at), operand, write)?;
            }
        }
        Ok(())
    }

    fn report_swizzle(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        (memory, at): (Memory, u64),
        Operand { name, matrix }: Operand,
        write: Access,
    ) -> Run<()> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let copied = checker.swizzles.of(write).map_or("", swizzle_name);
        let base = match matrix.base_offset {
            0 => String::new(),
            base => format!(" at base offset {base}"),
        };
        let message = format!(
            "{name} is read with {}{base}, but a tensor copy wrote it with {copied} ({})",
            matrix.swizzle.name(),
            machine.name_place(memory, at)
        );
        let site = machine.site(checker.warp_of(write.agent()), write.pc(), None);
        let help = "the swizzle of the tensor map and that of the matrix descriptor (its top bits) name the same \
                    pattern; copies swizzle by absolute addresses, as base offset 0 does";
        self.hazard(
            machine,
            w,
            Rule::OperandLayout,
            message,
            Some(("copied:".into(), site)),
            Some(help),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_found_by_its_time() {
        let mut swizzles = Swizzles::default();
        for (time, swizzle) in [
            (3, None),
            (5, Some(Swizzle::B128)),
            (7, Some(Swizzle::B128)),
            (9, None),
            (11, Some(Swizzle::B64)),
        ] {
            swizzles.note(AgentId(2), time, swizzle);
        }
        let at = |time| swizzles.of(Access::new(AgentId(2), time, 0, 15));
        assert_eq!([3, 5, 7].map(at), [None, Some(Swizzle::B128), Some(Swizzle::B128)]);
        assert_eq!([9, 11, 13].map(at), [None, Some(Swizzle::B64), Some(Swizzle::B64)]);
        assert_eq!(swizzles.of(Access::new(AgentId(1), 5, 0, 15)), None);
        assert_eq!(swizzles.0[&AgentId(2)].len(), 3);
    }
}
