//! Programs as people read them.

use crate::{Access, Argument, Launch, Pointer, Program, TensorMap};
use std::fmt::{self, Display, Formatter};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.module.version;
        let target = self.module.target.first().map_or("no target", |t| t.as_str());
        writeln!(f, "program for {target}, PTX {major}.{minor}")?;
        let width = self.buffers.iter().map(|b| b.name.len()).max().unwrap_or(0);
        for buffer in &self.buffers {
            let (name, bytes, align) = (&buffer.name, buffer.bytes, buffer.align);
            write!(f, "  {name:width$}  {:9}  {bytes:>12} B  align {align}", buffer.access)?;
            buffer.pointers.iter().try_for_each(|pointer| Of(self, pointer).fmt(f))?;
            writeln!(f)?;
        }
        for (number, launch) in self.launches.iter().enumerate() {
            writeln!(f, "  {number}: {}", Of(self, launch))?;
            for (i, argument) in launch.args.iter().enumerate() {
                writeln!(f, "     {i:>2}  {}", Of(self, argument))?;
            }
        }
        Ok(())
    }
}

impl Display for Access {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::ReadWrite => "read and write",
            Access::Workspace => "workspace",
        })
    }
}

/// A part of a program, with the program for its buffers' names.
struct Of<'a, T>(&'a Program, &'a T);

impl<T> Of<'_, T> {
    fn name(&self, id: crate::BufferId) -> &str {
        self.0.get(id).map_or("?", |buffer| buffer.name.as_str())
    }
}

impl Display for Of<'_, Launch> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let launch = self.1;
        let [x, y, z] = launch.grid;
        write!(f, "{}: grid {x}×{y}×{z}, {} threads", launch.kernel, threads(launch))?;
        if launch.cluster != [1; 3] {
            let [x, y, z] = launch.cluster;
            write!(f, ", cluster {x}×{y}×{z}")?;
        }
        if launch.shared_bytes > 0 {
            write!(f, ", {} B shared", launch.shared_bytes)?;
        }
        f.write_str(if launch.overlaps_previous { ", overlaps the previous launch" } else { "" })
    }
}

fn threads(launch: &Launch) -> u64 {
    launch.block.iter().map(|&n| u64::from(n)).product()
}

impl Display for Of<'_, Argument> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1 {
            Argument::Buffer(id, 0) => write!(f, "&{}", self.name(*id)),
            Argument::Buffer(id, offset) => write!(f, "&{} + {offset}", self.name(*id)),
            Argument::U32(value) => write!(f, "{value}"),
            Argument::U64(value) => write!(f, "{value} (64 bits)"),
            Argument::F32(value) => write!(f, "{value:?}"),
            Argument::TensorMap(map) => Of(self.0, map).fmt(f),
            Argument::Bytes(bytes, pointers) => {
                write!(f, "{} bytes", bytes.len())?;
                pointers.iter().try_for_each(|pointer| Of(self.0, pointer).fmt(f))
            }
        }
    }
}

impl Display for Of<'_, Pointer> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Pointer { offset, buffer, addend } = *self.1;
        write!(f, ", at {offset} &{}", self.name(buffer))?;
        if addend == 0 { Ok(()) } else { write!(f, " {addend:+}") }
    }
}

impl Display for Of<'_, TensorMap> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let map = self.1;
        write!(f, "tensor map &{}", self.name(map.buffer))?;
        if map.offset > 0 {
            write!(f, " + {}", map.offset)?;
        }
        write!(f, ": {:?} {:?} strides {:?} B", map.element, map.dims, map.strides)?;
        write!(f, ", box {:?}, swizzle {:?}", map.box_dims, map.swizzle)?;
        match (&map.im2col, map.dims.len().saturating_sub(2)) {
            (Some(pixels), spatial) => write!(
                f,
                ", im2col {:?} to {:?}",
                &pixels.lower[..spatial.min(3)],
                &pixels.upper[..spatial.min(3)]
            ),
            (None, _) => Ok(()),
        }
    }
}
