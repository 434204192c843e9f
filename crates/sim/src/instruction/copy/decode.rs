//! Decoding of mbarriers and asynchronous copies.

use crate::instruction::{AsyncCopy, BulkCopy, MemSpace, Op, TensorCopy, TensorDirection};
use crate::instruction::{atom_type, reduce_op, space};
use crate::load::{Decoded, Loader, arg};
use crate::register::{R32, Reg};
use crate::tensor_copy::{ReduceOp, ReduceType};
use ptx::ast::Type;
use ptx::resolve::{Arg, Resolved};

impl<'m> Loader<'m> {
    pub(crate) fn copy(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let has = |name: &str| i.instruction.has(name);
        if has("bulk") {
            return match () {
                _ if has("commit_group") => self.emit_ok(i, AsyncCopy::BulkCommit),
                _ if has("wait_group") => {
                    let pending = self.count(i, 0)?;
                    self.emit_ok(i, AsyncCopy::BulkWait { pending, read: has("read") })
                }
                _ if has("tensor") => self.tensor_copy(i),
                _ if has("prefetch") => self.emit_ok(i, Op::Nop),
                _ => self.bulk_copy(i),
            };
        }
        if has("commit_group") {
            return self.emit_ok(i, AsyncCopy::CpAsyncCommit);
        }
        if has("wait_all") {
            return self.emit_ok(i, AsyncCopy::CpAsyncWait(None));
        }
        if has("wait_group") {
            let n = self.count(i, 0)?;
            return self.emit_ok(i, AsyncCopy::CpAsyncWait(Some(n)));
        }
        if has("mbarrier") {
            let (addr, space) = (self.address(i, 0)?, space(i.instruction));
            return self.emit_ok(i, AsyncCopy::CpAsyncArrive { addr, noinc: has("noinc"), space });
        }
        self.cp_async(i)
    }

    fn emit_ok(&mut self, i: &Resolved<'m>, op: impl Into<Op>) -> Decoded<()> {
        self.emit(i, op);
        Ok(())
    }

    fn cp_async(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let (dst, src) = (self.address(i, 0)?, self.address(i, 1)?);
        let bytes = self.count(i, 2)?;
        if !matches!(bytes, 4 | 8 | 16) {
            return Err(format!("cp.async of {bytes} bytes: 4, 8 or 16 are possible"));
        }
        let (mut source_bytes, mut ignore) = (None, None);
        let hint = i.instruction.has("L2::cache_hint");
        if i.args.len() > 3 + usize::from(hint) {
            let operand = arg(i, 3)?;
            match operand {
                Arg::Reg(r) if matches!(self.registers[r.0 as usize], Reg::P(_)) => {
                    ignore = Some(self.predicate(operand)?.0);
                }
                _ => source_bytes = Some(self.source32(operand)?),
            }
        }
        self.emit_ok(i, AsyncCopy::CpAsync { dst, src, bytes, source_bytes, ignore })
    }

    fn reduction(&self, i: &Resolved<'m>) -> Decoded<Option<(ReduceOp, ReduceType)>> {
        if !i.instruction.has("reduce") {
            return Ok(None);
        }
        let ty =
            i.instruction.modifiers.iter().rev().find(|m| Type::from_name(m.as_str()).is_some());
        let ty = atom_type(ty.ok_or("a bulk reduction without a type")?.as_str())?;
        Ok(Some((reduce_op(i).ok_or("a bulk reduction without an operation")?, ty.0)))
    }

    fn bulk_copy(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let (dst_space, src_space) = copy_spaces(i)?;
        let group = i.instruction.has("bulk_group");
        let mut next = 3;
        let mbar = if group { None } else { Some(self.address(i, next)?) };
        next += usize::from(!group);
        let multicast = if i.instruction.has("multicast::cluster") {
            next += 1;
            Some(self.s32(i, next - 1)?)
        } else {
            None
        };
        let byte_mask = match i.instruction.has("cp_mask") {
            true => Some(self.s32(i, i.args.len() - 1)?),
            false => None,
        };
        let copy = BulkCopy {
            dst: self.address(i, 0)?,
            dst_space,
            src: self.address(i, 1)?,
            src_space,
            size: self.s32(i, 2)?,
            mbar,
            multicast,
            reduce: self.reduction(i)?,
            byte_mask,
        };
        self.emit_ok(i, AsyncCopy::Bulk(Box::new(copy)))
    }

    fn tensor_copy(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let has = |name: &str| i.instruction.has(name);
        let im2col = i.instruction.modifiers.iter().find(|m| m.as_str().starts_with("im2col"));
        match im2col.map(|m| m.as_str()) {
            None | Some("im2col") => {}
            Some("im2col_no_offs") => return Err("im2col stores are not simulated".into()),
            Some(other) => return Err(format!("{other} copies are not simulated")),
        }
        let load = !has("bulk_group") && !has("prefetch");
        let direction = match () {
            _ if has("prefetch") => TensorDirection::Prefetch,
            _ if has("reduce") => {
                TensorDirection::Reduce(reduce_op(i).ok_or("a reduction without an operation")?)
            }
            _ if load => TensorDirection::Load,
            _ => TensorDirection::Store,
        };
        let map_at = usize::from(load);
        let Arg::TensorAddress(_, _, groups) = arg(i, map_at)? else {
            return Err("a tensor copy needs [map, {coordinates}]".into());
        };
        let coords = groups.first().ok_or("no coordinates")?.clone();
        let coords = self.elements(&coords).iter().map(|c| self.source32(c));
        let coords = coords.collect::<Decoded<Box<[R32]>>>()?;
        let shared = match direction {
            TensorDirection::Prefetch => None,
            TensorDirection::Load => Some(self.address(i, 0)?),
            TensorDirection::Store | TensorDirection::Reduce(_) => Some(self.address(i, 1)?),
        };
        let mbar = if load { Some(self.address(i, 2)?) } else { None };
        let mut next = if load { 3 } else { 1 };
        let im2col = match im2col {
            Some(_) => {
                let offsets = arg(i, next)?.clone();
                next += 1;
                let offsets = self.elements(&offsets).iter().map(|offset| self.source32(offset));
                Some(offsets.collect::<Decoded<Box<[R32]>>>()?)
            }
            None => None,
        };
        let multicast = match load && has("multicast::cluster") {
            true => Some(self.s32(i, next)?),
            false => None,
        };
        let copy = TensorCopy {
            direction,
            shared,
            map: self.address(i, map_at)?,
            coords,
            rows4: has("tile::gather4") || has("tile::scatter4"),
            im2col,
            mbar,
            multicast,
            pair: has("cta_group::2"),
        };
        self.emit_ok(i, AsyncCopy::Tensor(Box::new(copy)))
    }

    pub(crate) fn tensormap(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let has = |name: &str| i.instruction.has(name);
        if has("cp_fenceproxy") {
            let (dst, src) = (self.address(i, 0)?, self.address(i, 1)?);
            let bytes = self.count(i, 2)?;
            if bytes != 128 {
                return Err(format!(
                    "tensormap.cp_fenceproxy of {bytes} bytes: a tensor map has 128"
                ));
            }
            return self.emit_ok(i, AsyncCopy::TensormapCopy { dst, src });
        }
        if !has("replace") {
            return Err("this tensormap instruction is not known here".into());
        }
        const FIELDS: [&str; 11] = [
            "global_address",
            "rank",
            "box_dim",
            "global_dim",
            "global_stride",
            "element_stride",
            "elemtype",
            "interleave_layout",
            "swizzle_mode",
            "fill_mode",
            "swizzle_atomicity",
        ];
        let field = FIELDS.into_iter().find(|f| has(f)).ok_or("tensormap.replace of this field")?;
        let indexed =
            matches!(field, "box_dim" | "global_dim" | "global_stride" | "element_stride");
        let ordinal = if indexed { self.count(i, 1)? } else { 0 };
        let bits = if has("b64") { 64 } else { 32 };
        let value = self.source(arg(i, 1 + usize::from(indexed))?, bits)?;
        let (map, space) = (self.address(i, 0)?, space(i.instruction));
        self.emit_ok(i, AsyncCopy::TensormapReplace { map, space, field, ordinal, value })
    }

    /// `st.async` and `red.async`.
    pub(crate) fn store_async(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let ty = i.instruction.modifiers.last().and_then(|m| Type::from_name(m.as_str()));
        let bits = ty.ok_or("unknown type")?.bits();
        if !matches!(bits, 32 | 64) {
            return Err(format!("numbers of {bits} bits: 32 and 64 are known here"));
        }
        let value = arg(i, 1)?.clone();
        let src = self.elements(&value).iter().map(|e| self.source(e, bits));
        let src = src.collect::<Decoded<Box<[Reg]>>>()?;
        let reduce = match i.instruction.opcode.as_str() {
            "red" => {
                let ty = i.instruction.modifiers.last().ok_or("no type")?;
                Some((
                    reduce_op(i).ok_or("red.async without an operation")?,
                    atom_type(ty.as_str())?.0,
                ))
            }
            _ => None,
        };
        let (addr, mbar) = (self.address(i, 0)?, self.address(i, 2)?);
        self.emit_ok(i, AsyncCopy::StoreAsync { addr, src, bytes: bits / 8, mbar, reduce })
    }
}

/// Destination and source space of a bulk copy: the first and second space modifier.
fn copy_spaces(i: &Resolved) -> Decoded<(MemSpace, MemSpace)> {
    let mut spaces = i.instruction.modifiers.iter().filter_map(|m| match m.as_str() {
        "global" => Some(MemSpace::Global),
        "shared::cta" | "shared::cluster" => Some(MemSpace::Shared),
        _ => None,
    });
    match (spaces.next(), spaces.next()) {
        (Some(dst), Some(src)) => Ok((dst, src)),
        _ => Err("a bulk copy names two spaces".into()),
    }
}
