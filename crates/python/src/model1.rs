//! Rows of MODEL1 pages on the host.

use crate::host::{slice, slice_mut};
use crate::memory::{CPU, Memory, overlap, range};
use half::bf16;
use problem::{DType, Element, InvalidProblem, Storage};
use sixwarp::Error;
use sixwarp::dsv4::model1;

const DIM: usize = Storage::MODEL1_DIM as usize;

/// Packs all rows of `from` (512 bf16 each) into pages of `page_rows` rows, from the first on.
///
/// # Safety
/// The memory must be as described; nobody may write it meanwhile, nor access `pages`.
pub(crate) unsafe fn pack(from: &Memory, page_rows: u64, pages: &Memory) -> Result<(), Error> {
    let sizes = Sizes::new(from, DType::Bf16, page_rows)?;
    from.check("rows", (Element::Float(DType::Bf16), from.bytes), CPU, false)?;
    pages.check("pages", (Element::U8, sizes.bytes() as u64), CPU, true)?;
    sizes.check_overlap(from, pages)?;
    // SAFETY: both hold as much, as was checked.
    let (from, pages) = unsafe {
        (
            slice::<bf16>(from.address, sizes.rows * DIM),
            slice_mut::<u8>(pages.address, sizes.bytes()),
        )
    };
    let rows = from.chunks(sizes.page_rows * DIM);
    for (page, rows) in pages.chunks_exact_mut(sizes.page_bytes).zip(rows) {
        model1::pack(page, sizes.page_rows, 0, rows)?;
    }
    Ok(())
}

/// Unpacks rows of pages, from the first on, to all of `to` (512 f32 each).
///
/// # Safety
/// As [`pack`], with `to` written.
pub(crate) unsafe fn unpack(pages: &Memory, page_rows: u64, to: &Memory) -> Result<(), Error> {
    let sizes = Sizes::new(to, DType::F32, page_rows)?;
    to.check("rows", (Element::Float(DType::F32), to.bytes), CPU, true)?;
    pages.check("pages", (Element::U8, sizes.bytes() as u64), CPU, false)?;
    sizes.check_overlap(to, pages)?;
    // SAFETY: both hold as much, as was checked.
    let (pages, to) = unsafe {
        (slice::<u8>(pages.address, sizes.bytes()), slice_mut::<f32>(to.address, sizes.rows * DIM))
    };
    for (row, to) in to.chunks_exact_mut(DIM).enumerate() {
        let page = &pages[row / sizes.page_rows * sizes.page_bytes..][..sizes.page_bytes];
        model1::unpack_row(page, sizes.page_rows, row % sizes.page_rows, to)?;
    }
    Ok(())
}

/// How many rows there are, and the pages that hold them.
struct Sizes {
    rows: usize,
    page_rows: usize,
    page_bytes: usize,
}

impl Sizes {
    fn new(rows: &Memory, dtype: DType, page_rows: u64) -> Result<Self, InvalidProblem> {
        // No machine holds a page of more rows, and no product of sizes overflows.
        if !(1..1 << 40).contains(&page_rows) {
            return Err(InvalidProblem::new("page_rows", "must lie in 1..2^40", page_rows));
        }
        let row_bytes = Storage::MODEL1_DIM * dtype.bytes();
        if !rows.bytes.is_multiple_of(row_bytes) || rows.bytes > isize::MAX as u64 {
            let rule = format!("must be whole rows of {row_bytes} bytes");
            return Err(InvalidProblem::new("rows", rule, rows.bytes));
        }
        Ok(Sizes {
            rows: (rows.bytes / row_bytes) as usize,
            page_rows: page_rows as usize,
            page_bytes: Storage::model1_page_bytes(page_rows) as usize,
        })
    }

    /// Bytes of all pages.
    fn bytes(&self) -> usize {
        self.rows.div_ceil(self.page_rows).saturating_mul(self.page_bytes)
    }

    fn check_overlap(&self, rows: &Memory, pages: &Memory) -> Result<(), InvalidProblem> {
        let places = (range(rows.address, rows.bytes), range(pages.address, self.bytes() as u64));
        match overlap(&places.0, &places.1) {
            true => {
                let rule = "must not share memory with pages";
                Err(InvalidProblem::new("rows", rule, "the same memory"))
            }
            false => Ok(()),
        }
    }
}
