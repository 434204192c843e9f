//! How `wmma` fragments hold matrices.
//!
//! The manual leaves it open. Here a fragment is a list of the 8-row tiles that `mma.sync` works on:
//! lane `l` holds a *unit* of neighbouring elements in line `l/4` of every tile, at `l%4` units from
//! its start. A line is a row of A, C and D, and a column of B; a unit is what a register holds of A
//! and B, and two elements of C and D. Where a fragment has more registers than that needs (A and B
//! of f16) they hold the same again.

use super::error::OperandError;

/// Which operand a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    A,
    B,
    Accumulator,
}

/// A matrix that `wmma.load` reads or `wmma.store` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WmmaMatrix {
    role: Role,
    lines: usize,
    length: usize,
    bits: usize,
    /// Whether the elements of a line are neighbours in memory.
    along_lines: bool,
}

/// Rows, columns and depth of a multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WmmaShape {
    /// M.
    pub rows: usize,
    /// N.
    pub columns: usize,
    /// K.
    pub depth: usize,
}

impl WmmaShape {
    /// The shape a modifier names.
    pub fn from_modifier(name: &str) -> Option<WmmaShape> {
        let (rows, columns, depth) = match name {
            "m16n16k16" => (16, 16, 16),
            "m8n32k16" => (8, 32, 16),
            "m32n8k16" => (32, 8, 16),
            "m16n16k8" => (16, 16, 8),
            "m8n8k4" => (8, 8, 4),
            _ => return None,
        };
        Some(WmmaShape { rows, columns, depth })
    }

    /// The shape among the modifiers of an instruction.
    pub fn from_modifiers<'m>(
        modifiers: impl IntoIterator<Item = &'m str>,
    ) -> Result<WmmaShape, OperandError> {
        let shape = modifiers.into_iter().find_map(WmmaShape::from_modifier);
        shape.ok_or_else(|| OperandError::Unsupported("wmma of this shape".into()))
    }
}

impl WmmaMatrix {
    /// Reads the modifiers of a `wmma.load` or `wmma.store`.
    pub fn from_modifiers<'m>(
        modifiers: impl IntoIterator<Item = &'m str>,
    ) -> Result<WmmaMatrix, OperandError> {
        let (mut role, mut by_rows, mut shape, mut bits) = (None, None, None, None);
        for name in modifiers {
            match name {
                "a" => role = Some(Role::A),
                "b" => role = Some(Role::B),
                "c" | "d" => role = Some(Role::Accumulator),
                "row" => by_rows = Some(true),
                "col" => by_rows = Some(false),
                "s8" | "u8" => bits = Some(8),
                "f16" | "bf16" => bits = Some(16),
                "tf32" | "f32" | "s32" => bits = Some(32),
                "f64" => bits = Some(64),
                "load" | "store" | "sync" | "aligned" | "global" | "shared" | "shared::cta"
                | "shared::cluster" => {}
                _ => match WmmaShape::from_modifier(name) {
                    Some(found) => shape = Some(found),
                    None => return OperandError::unsupported(format!("wmma with .{name}")),
                },
            }
        }
        let (Some(role), Some(by_rows), Some(shape), Some(bits)) = (role, by_rows, shape, bits)
        else {
            return OperandError::illegal("wmma needs a matrix, a layout, a shape and a type");
        };
        let WmmaShape { rows, columns, depth } = shape;
        let (lines, length) = match role {
            Role::A => (rows, depth),
            Role::B => (columns, depth),
            Role::Accumulator => (rows, columns),
        };
        let along_lines = by_rows != (role == Role::B);
        let matrix = WmmaMatrix { role, lines, length, bits, along_lines };
        match length % (4 * matrix.unit()) {
            0 => Ok(matrix),
            _ => OperandError::illegal(format!("wmma has no {lines} x {length} of {bits} bits")),
        }
    }

    /// Elements of a unit.
    pub fn unit(&self) -> usize {
        match self.role {
            Role::Accumulator => 2,
            _ => self.register_bits() / self.bits,
        }
    }

    /// Bits of an element.
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Bits of a fragment's registers.
    pub fn register_bits(&self) -> usize {
        self.bits.max(32)
    }

    /// Units of a lane.
    pub fn units(&self) -> usize {
        self.lines / 8 * self.length / (4 * self.unit())
    }

    /// Registers of a unit.
    pub fn registers_per_unit(&self) -> usize {
        self.unit() * self.bits / self.register_bits()
    }

    /// Elements between neighbouring lines in memory where the instruction does not say.
    pub fn packed_stride(&self) -> u32 {
        if self.along_lines { self.length as u32 } else { self.lines as u32 }
    }

    /// Elements of a unit that are one run in memory: all of them, or one.
    pub fn run(&self) -> usize {
        if self.along_lines { self.unit() } else { 1 }
    }

    /// Place in memory, in elements, of element `j` of a lane's unit `u`.
    pub fn place(&self, u: usize, lane: usize, j: usize, stride: u64) -> u64 {
        let (down, across) = (self.lines / 8, self.length / (4 * self.unit()));
        // In the order of mma.sync's registers: A and D go down first, B along K.
        let (tile_down, tile_across) = match self.role {
            Role::B => (u / across, u % across),
            _ => (u % down, u / down),
        };
        let line = (8 * tile_down + lane / 4) as u64;
        let at = (self.unit() * (4 * tile_across + lane % 4) + j) as u64;
        if self.along_lines { line * stride + at } else { at * stride + line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn matrix(modifiers: &str) -> WmmaMatrix {
        WmmaMatrix::from_modifiers(modifiers.split('.')).unwrap()
    }

    /// Every element of a packed matrix is in one lane's fragment, once.
    #[test]
    fn fragments_hold_every_element_once() {
        for (modifiers, units) in [
            ("load.a.sync.aligned.row.m16n16k16.f16", 4),
            ("load.a.sync.aligned.col.m8n32k16.bf16", 2),
            ("load.b.sync.aligned.row.m8n32k16.bf16", 8),
            ("load.a.sync.aligned.row.m32n8k16.shared.s8", 4),
            ("load.b.sync.aligned.col.m32n8k16.u8", 1),
            ("load.a.sync.aligned.row.m16n16k8.global.tf32", 4),
            ("load.c.sync.aligned.col.m16n16k16.f32", 4),
            ("store.d.sync.aligned.row.m8n32k16.f16", 4),
            ("load.c.sync.aligned.row.m8n8k4.f64", 1),
        ] {
            let m = matrix(modifiers);
            assert_eq!(m.units(), units, "{modifiers}");
            let stride = u64::from(m.packed_stride());
            let mut seen = BTreeSet::new();
            for (u, lane, j) in (0..units).flat_map(|u| {
                (0..32).flat_map(move |lane| (0..m.unit()).map(move |j| (u, lane, j)))
            }) {
                assert!(seen.insert(m.place(u, lane, j, stride)), "{modifiers}");
            }
            assert_eq!(seen, (0..(m.lines * m.length) as u64).collect(), "{modifiers}");
        }
    }

    #[test]
    fn fragments_are_those_of_mma_sync() {
        // a1: row 8 + l/4; a2: k 8 + 2 * (l%4).
        let a = matrix("load.a.sync.aligned.row.m16n16k16.bf16");
        assert_eq!(a.place(1, 5, 0, 16), 9 * 16 + 2);
        assert_eq!(a.place(2, 5, 1, 16), 16 + 8 + 3);
        // b1 of the second eight columns: k 8 + 2 * (l%4), column 8 + l/4.
        let b = matrix("load.b.sync.aligned.col.m16n16k16.bf16");
        assert_eq!(b.place(3, 5, 0, 16), 9 * 16 + 8 + 2);
    }
}
