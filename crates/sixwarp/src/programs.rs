//! Host tensors in and out of a [`Program`]'s buffers.

use crate::Error;
use problem::{HostBuffers, InvalidProblem, Problem, Slot};
use program::Program;
use std::ops::Range;

/// Bytes for each of the program's buffers: those of the slot it is named by; other buffers stay empty for
/// the engine to allocate.
pub(crate) fn gather(
    problem: &Problem,
    program: &Program,
    buffers: &mut HostBuffers,
) -> Result<Vec<Vec<u8>>, Error> {
    let bytes = |buffer: &program::Buffer| match problem.slot_named(&buffer.name) {
        Some(slot) => slot_bytes(problem, slot, buffers),
        None => Ok(Vec::new()),
    };
    Ok(program.buffers.iter().map(bytes).collect::<Result<_, _>>()?)
}

fn slot_bytes(
    problem: &Problem,
    slot: Slot,
    buffers: &mut HostBuffers,
) -> Result<Vec<u8>, InvalidProblem> {
    let found = match slot.is_output() {
        true => buffers.get_mut(slot).map(|memory| memory.as_ref()),
        false => buffers.get(slot),
    };
    let memory = found.ok_or_else(|| InvalidProblem::new(slot, "needs memory", "missing"))?;
    let (bytes, found_element) = (memory.to_bytes(), memory.element());
    let element = problem.slot_element(slot);
    if !element.is_held_by(found_element) {
        let rule = format!("must hold {element}");
        return Err(InvalidProblem::new(slot, rule, found_element));
    }
    let needed = problem.slot_bytes(slot);
    if (bytes.len() as u64) < needed {
        let rule = format!("must hold {needed} bytes");
        return Err(InvalidProblem::new(slot, rule, bytes.len()));
    }
    Ok(bytes)
}

/// Copies what a program wrote to the host tensors; `unwritten` bytes of each buffer keep what the host
/// has.
pub(crate) fn scatter(
    problem: &Problem,
    program: &Program,
    bytes: Vec<Vec<u8>>,
    unwritten: &[Vec<Range<usize>>],
    buffers: &mut HostBuffers,
) {
    for (i, (buffer, mut bytes)) in program.buffers.iter().zip(bytes).enumerate() {
        let slot = problem.slot_named(&buffer.name);
        let Some(memory) = slot.and_then(|slot| buffers.get_mut(slot)) else { continue };
        let unwritten = unwritten.get(i).map(Vec::as_slice).unwrap_or_default();
        if !unwritten.is_empty() {
            let before = memory.as_ref().to_bytes();
            for range in unwritten {
                bytes[range.clone()].copy_from_slice(&before[range.clone()]);
            }
        }
        memory.copy_from_bytes(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use problem::{DType, HostMut, Segment, View};
    use program::{Access, Buffer};

    #[test]
    fn what_was_written_arrives_whatever_its_bits() {
        let view = View::bhsd(DType::F32, [1, 1, 1, 4]);
        let problem = Problem::builder(view).segment(Segment::new(view, view)).build().unwrap();
        let mut out = [1.0f32, 2.0, 3.0, 4.0];
        let mut buffers = HostBuffers::new().output(Slot::Out, HostMut::F32(&mut out));
        let named = |name: &str| Buffer::new(name, 16, 16, Access::Write);
        let all = vec![named("scratch"), named("out")];
        let module = ptx::parse(".version 8.0\n.target sm_90\n.address_size 64\n").unwrap();
        let program = Program { module: module.into(), buffers: all, launches: vec![] };
        let written = vec![vec![], vec![0xff; 16]];
        scatter(&problem, &program, written, &[vec![], vec![4..8, 8..12]], &mut buffers);
        assert_eq!(out.map(f32::to_bits), [!0, 2f32.to_bits(), 3f32.to_bits(), !0]);
    }
}
