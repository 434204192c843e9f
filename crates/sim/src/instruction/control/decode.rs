//! Decoding of control flow and of questions to the machine.

use crate::instruction::Control;
use crate::load::{Decoded, Loader, arg, kind};
use ptx::resolve::{Arg, Resolved};

impl<'m> Loader<'m> {
    pub(crate) fn control(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        let op = match opcode {
            "bra" => match arg(i, 0)? {
                Arg::Label(at) => Control::Branch { target: *at as u32 },
                other => return Err(format!("a branch to {}", kind(other))),
            },
            "brx" => match arg(i, 1)? {
                Arg::BranchTargets(labels) => Control::BranchIndex {
                    index: self.s32(i, 0)?,
                    targets: labels.iter().map(|at| *at as u32).collect(),
                },
                other => return Err(format!("brx.idx over {}", kind(other))),
            },
            // Inside an inlined function: go on behind it.
            "ret" if self.inlined() => {
                Control::Branch { target: self.body.instructions.len() as u32 }
            }
            "ret" | "exit" => Control::Exit,
            "trap" => Control::Trap("trap"),
            "brkpt" => Control::Trap("brkpt"),
            "call" => return self.call_system(i),
            "nanosleep" => Control::Sleep,
            "setmaxnreg" => {
                let count = self.immediate(i, 0)?;
                let count = u32::try_from(count).map_err(|_| format!("{count} registers"))?;
                Control::SetRegisters(count)
            }
            "activemask" => Control::ActiveMask { d: self.d32(i, 0)? },
            other => return Err(format!("instruction `{other}` is not known here")),
        };
        self.emit(i, op);
        Ok(())
    }
}
