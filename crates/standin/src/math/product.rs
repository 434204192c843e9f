//! Matrix products: `C = α · op(A) · op(B) + β · C`, matrices in columns, with sums in f64.

use super::number::Number;
use crate::memory::Memory;
use crate::result::{CudaResult, Outcome};
use std::ffi::c_int;

/// Matrices of one operand, one behind the other.
#[derive(Clone, Copy)]
pub struct Matrices {
    /// Where the first begins.
    pub start: u64,
    /// Type of the elements.
    pub number: Number,
    /// Elements from one column to the next.
    pub leading: c_int,
    /// Elements from one matrix to the next.
    pub stride: i64,
}

/// What is computed.
#[derive(Clone, Copy)]
pub struct Product {
    /// Whether each operand is transposed.
    pub transposed: [bool; 2],
    /// Rows and columns of the result, and the length of a sum.
    pub shape: [c_int; 3],
    /// α and β.
    pub factors: [f64; 2],
    /// `A`, `B` and `C`.
    pub matrices: [Matrices; 3],
    /// How many products.
    pub count: c_int,
}

impl Product {
    /// That sizes are none of those that the manual excludes.
    pub fn check(&self) -> Outcome {
        let [m, n, k] = self.shape;
        let stored = |side: usize, [rows, columns]: [c_int; 2]| {
            if self.transposed[side] { columns } else { rows }
        };
        let rows = [stored(0, [m, k]), stored(1, [k, n]), m];
        let fits = |(rows, of): (c_int, &Matrices)| of.leading >= rows.max(1);
        let fit = rows.into_iter().zip(&self.matrices).all(fits);
        match fit && m >= 0 && n >= 0 && k >= 0 && self.count >= 0 {
            true => Ok(()),
            false => Err(CudaResult::INVALID_VALUE),
        }
    }

    /// Computes it.
    pub fn run(&self, memory: &mut Memory) -> Outcome {
        let [m, n, k] = self.shape.map(|size| size as usize);
        if m == 0 || n == 0 {
            return Ok(());
        }
        let sides = [[m, k], [k, n]];
        for batch in 0..i64::from(self.count) {
            let mut operands = [Vec::new(), Vec::new()];
            for side in 0..2 {
                let [rows, columns] = sides[side];
                let stored = if self.transposed[side] { [columns, rows] } else { [rows, columns] };
                let numbers = self.matrices[side].read(memory, batch, stored)?;
                operands[side] =
                    if self.transposed[side] { turned(&numbers, stored) } else { numbers };
            }
            self.finish(memory, batch, &operands)?;
        }
        Ok(())
    }

    /// Multiplies the operands of one product, and writes the result over what is there.
    fn finish(&self, memory: &mut Memory, batch: i64, [a, b]: &[Vec<f64>; 2]) -> Outcome {
        let [m, n, k] = self.shape.map(|size| size as usize);
        let ([alpha, beta], out) = (self.factors, self.matrices[2]);
        // With β = 0 nothing is read, so that what lies there need not be a number.
        let before = if beta == 0. { vec![0.; m * n] } else { out.read(memory, batch, [m, n])? };
        for column in 0..n {
            let mut sums = vec![0.; m];
            for along in 0..k {
                let factor = b[column * k + along];
                let left = &a[along * m..(along + 1) * m];
                sums.iter_mut().zip(left).for_each(|(sum, x)| *sum += x * factor);
            }
            let mut bytes = Vec::new();
            for (sum, old) in sums.iter().zip(&before[column * m..]) {
                out.number.write(alpha * sum + beta * old, &mut bytes);
            }
            known(memory, out.column(batch, column), bytes.len() as u64)?;
            // SAFETY: the range is memory that the device knows.
            unsafe { memory.write(out.column(batch, column), &bytes)? };
        }
        Ok(())
    }
}

impl Matrices {
    fn column(&self, batch: i64, column: usize) -> u64 {
        let elements = batch.wrapping_mul(self.stride) + column as i64 * i64::from(self.leading);
        self.start.wrapping_add_signed(elements.wrapping_mul(self.number.bytes() as i64))
    }

    /// A matrix without gaps between its columns.
    fn read(&self, memory: &Memory, batch: i64, [rows, columns]: [usize; 2]) -> Outcome<Vec<f64>> {
        let mut numbers = Vec::with_capacity(rows * columns);
        for column in 0..columns {
            let (from, bytes) = (self.column(batch, column), rows as u64 * self.number.bytes());
            known(memory, from, bytes)?;
            // SAFETY: the range is memory that the device knows.
            numbers.extend(self.number.read(&unsafe { memory.read(from, bytes)? }));
        }
        Ok(numbers)
    }
}

/// That the device knows a range of memory.
pub fn known(memory: &Memory, address: u64, bytes: u64) -> Outcome {
    match memory.find(address) {
        Some((base, allocation)) if bytes <= allocation.bytes - (address - base) => Ok(()),
        _ if bytes == 0 => Ok(()),
        _ => Err(CudaResult::ILLEGAL_ADDRESS),
    }
}

/// The transpose of a matrix in columns.
fn turned(numbers: &[f64], [rows, columns]: [usize; 2]) -> Vec<f64> {
    (0..rows).flat_map(|row| (0..columns).map(move |column| numbers[column * rows + row])).collect()
}
