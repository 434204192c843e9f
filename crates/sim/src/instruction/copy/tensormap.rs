//! Tensor maps in memory: reading them, `tensormap.replace`, `tensormap.cp_fenceproxy`.

use crate::exec::Execution;
use crate::exec::Flow;
use crate::instruction::{Access, Order, Place, advance, lane_address};
use crate::instruction::{Addr, MemSpace};
use crate::judge::Judge;
use crate::machine::{Machine, Run};
use crate::register::{Lane, Reg};
use crate::warp::WarpId;

impl Execution<'_, '_> {
    /// The 128 bytes at an address.
    pub(crate) fn map_bytes(
        &mut self,
        w: WarpId,
        lane: Lane,
        at: u64,
        space: MemSpace,
    ) -> Run<[u8; 128]> {
        if !at.is_multiple_of(64) {
            let message = format!("a tensor map at {at:#x}, which is not a multiple of 64");
            return self.machine.fault(w, Some(lane), "misaligned", message, None);
        }
        let place = self.machine.map_place(self.judge, w, lane, space, at)?;
        let mut bytes = [0; 128];
        self.copy_out(w, lane, place, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies bytes out of any memory.
    pub(crate) fn copy_out(
        &mut self,
        w: WarpId,
        lane: Lane,
        place: Place,
        out: &mut [u8],
    ) -> Run<()> {
        for (i, chunk) in out.chunks_mut(8).enumerate() {
            let at = advance(place, 8 * i as u32);
            self.before_access(w, lane, Access::read(at, 8, Order::Strong))?;
            chunk.copy_from_slice(&self.machine.read(w, lane, at, 8).to_le_bytes());
        }
        Ok(())
    }

    fn copy_in(&mut self, w: WarpId, lane: Lane, place: Place, bytes: &[u8]) -> Run<()> {
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let at = advance(place, 8 * i as u32);
            self.before_access(w, lane, Access::write(at, 8, Order::Strong))?;
            let word = chunk.try_into().map_or(0, u64::from_le_bytes);
            self.machine.write(w, lane, at, 8, word);
        }
        Ok(())
    }

    pub(crate) fn replace_field(
        &mut self,
        w: WarpId,
        lane: Lane,
        (addr, space): (Addr, MemSpace),
        (field, ordinal): (&str, u32),
        value: Reg,
    ) -> Run<()> {
        let at = lane_address(&self.machine.warps[w].registers, addr, lane);
        let value = self.machine.warps[w].registers.lane(value, lane);
        let place = self.machine.map_place(self.judge, w, lane, space, at)?;
        let mut bytes = [0; 128];
        for (i, chunk) in bytes.chunks_mut(8).enumerate() {
            chunk.copy_from_slice(
                &self.machine.read(w, lane, advance(place, 8 * i as u32), 8).to_le_bytes(),
            );
        }
        if let Err(reason) = replace(&mut bytes, field, ordinal, value) {
            return self.machine.unsupported(w, reason);
        }
        self.copy_in(w, lane, place, &bytes)
    }

    pub(crate) fn tensormap_copy(
        &mut self,
        w: WarpId,
        dst: Addr,
        src: Addr,
        mask: u32,
    ) -> Run<Flow> {
        // All lanes name the same addresses; one copies.
        let lane = Lane::first(mask);
        let registers = &self.machine.warps[w].registers;
        let (to, from) = (lane_address(registers, dst, lane), lane_address(registers, src, lane));
        let from = self.machine.map_place(self.judge, w, lane, MemSpace::Shared, from)?;
        let to = self.machine.map_place(self.judge, w, lane, MemSpace::Generic, to)?;
        let mut data = [0; 128];
        self.copy_out(w, lane, from, &mut data)?;
        self.machine.event();
        self.copy_in(w, lane, to, &data)?;
        Ok(Flow::Next)
    }
}

impl Machine<'_> {
    /// Where the 128 bytes of a tensor map are: aligned to 64 and all of them there.
    fn map_place(
        &self,
        judge: &Judge<'_>,
        w: WarpId,
        lane: Lane,
        space: MemSpace,
        at: u64,
    ) -> Run<Place> {
        self.place(judge, w, lane, space, at.wrapping_add(64), 64)?;
        self.place(judge, w, lane, space, at, 64)
    }
}

fn put(bytes: &mut [u8; 128], at: usize, mask: u32, value: u32) {
    let word = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let shift = mask.trailing_zeros();
    let word = word & !mask | value << shift & mask;
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// The hardware's element type of `tensormap.replace`'s numbering, and whether f32 rounds to tf32.
fn element_type(value: u64) -> Result<(u32, u32), String> {
    Ok(match value {
        0..=10 => (value as u32, 0),
        11 => (7, 1),
        12 => (8, 1),
        other => return Err(format!("tensormap.replace with element type {other}")),
    })
}

/// Writes one field of a tensor map, given as the instruction gives it.
fn replace(bytes: &mut [u8; 128], field: &str, ordinal: u32, value: u64) -> Result<(), String> {
    let i = ordinal as usize;
    if i > 4 {
        return Err(format!("tensormap.replace of dimension {ordinal}"));
    }
    let low = value as u32;
    match field {
        "global_address" => bytes[0..8].copy_from_slice(&value.to_le_bytes()),
        "rank" => put(bytes, 0x08, 0b111 << 4, low),
        "elemtype" => {
            let (ty, tf32) = element_type(value)?;
            put(bytes, 0x08, 0b1111 << 7, ty);
            put(bytes, 0x08, 1 << 16, tf32);
        }
        "interleave_layout" => put(bytes, 0x08, 0b11 << 11, low),
        "swizzle_mode" => put(bytes, 0x08, 0b11 << 13, low),
        "fill_mode" => put(bytes, 0x08, 1 << 15, low),
        "swizzle_atomicity" => put(bytes, 0x08, 0b11 << 19, low),
        "global_stride" => {
            put(bytes, 0x0C + 4 * i, u32::MAX, (value >> 4) as u32);
            put(bytes, 0x1C, 0xF << (4 * i), (value >> 36) as u32);
        }
        "global_dim" => put(bytes, 0x20 + 4 * i, u32::MAX, low.wrapping_sub(1)),
        "element_stride" => put(bytes, 0x34, 0b111 << (3 * i), low.wrapping_sub(1)),
        "box_dim" if i == 0 => put(bytes, 0x34, 0xFF << 24, low.wrapping_sub(1)),
        "box_dim" => put(bytes, 0x38, 0xFF << (8 * (i - 1)), low.wrapping_sub(1)),
        other => return Err(format!("tensormap.replace of {other}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::{ElementType, Swizzle, TensorDescriptor};

    #[test]
    fn a_map_written_field_by_field_decodes() {
        let mut bytes = [0u8; 128];
        let fields: [(&str, u32, u64); 14] = [
            ("global_address", 0, 0x7F00_0000_1000),
            ("rank", 0, 1),
            ("elemtype", 0, 6),
            ("global_dim", 0, 64),
            ("global_dim", 1, 512),
            ("global_stride", 0, 128),
            ("box_dim", 0, 64),
            ("box_dim", 1, 128),
            ("element_stride", 0, 1),
            ("element_stride", 1, 1),
            ("interleave_layout", 0, 0),
            ("swizzle_mode", 0, 3),
            ("fill_mode", 0, 0),
            ("swizzle_atomicity", 0, 0),
        ];
        for (field, ordinal, value) in fields {
            replace(&mut bytes, field, ordinal, value).unwrap();
        }
        let map = TensorDescriptor::decode(&bytes).unwrap();
        assert_eq!((map.address, map.rank, map.element), (0x7F00_0000_1000, 2, ElementType::F16));
        assert_eq!((&map.dims[..2], map.strides[1]), (&[64, 512][..], 128));
        assert_eq!((&map.box_dims[..2], map.swizzle), (&[64, 128][..], Swizzle::B128));
    }
}
