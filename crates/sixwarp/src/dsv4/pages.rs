//! Pages of rows as a segment reads them: where they are told apart, and their strides and formats found.

use super::given::{Given, Mismatch, Numbers, tuple};
use super::{HEAD_DIM, Pool};
use problem::{DType, Element, Scales, Segment, Storage, View};

/// Rows of a page that is given as plain bytes, unless they are told.
const PAGE_ROWS: u64 = 64;

/// Pages of rows, which are keys and values in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Logical shape of pages and rows, and their strides where rows are elements.
    pub view: View,
    /// How rows lie in memory.
    pub storage: Storage,
    /// Bytes from one page of packed rows to the next, unless they are the format's.
    pub page_bytes: Option<u64>,
}

impl From<Pool> for Pages {
    fn from(pool: Pool) -> Self {
        let view = View::bhsd(DType::Bf16, [pool.pages, 1, pool.page_rows, HEAD_DIM]);
        Pages { view, storage: pool.storage, page_bytes: None }
    }
}

impl Pages {
    /// The pages of a caller's tensor.
    ///
    /// Elements are `[pages, rows, dim]` or `[pages, rows, 1, dim]`. Packed rows are bytes, `[pages, rows, row bytes]` or
    /// `[pages, rows, 1, row bytes]`, and told apart by the bytes of a row: 584 (MODEL1), 656 (V3.2), 528 and 288
    /// (V4.1, with scales where `scales` says). MODEL1 pages may also be `[pages, bytes]`, of `page_rows` rows (64 if it
    /// is `None`). Pages may lie apart.
    ///
    /// ```
    /// use sixwarp::dsv4::{Given, Numbers, Pages};
    /// use sixwarp::{Element, Scales, Storage};
    /// // Two pages of 64 rows as serving engines view them, 40,000 bytes apart.
    /// let window = Given {
    ///     name: "window".into(),
    ///     shape: vec![2, 64, 1, 584],
    ///     strides: vec![40_000, 584, 584, 1],
    ///     numbers: Numbers::Known(Element::U8),
    /// };
    /// let pages = Pages::of(&window, None, Scales::Footer)?;
    /// assert_eq!((pages.storage, pages.page_bytes), (Storage::Model1, Some(40_000)));
    /// let error = Pages::of(&window, Some(32), Scales::Footer).unwrap_err();
    /// assert_eq!(error.to_string(), "window has shape (2, 64, 1, 584): pages of 32 rows are needed");
    /// # Ok::<(), sixwarp::dsv4::Mismatch>(())
    /// ```
    ///
    /// # Errors
    /// If the tensor is nothing of this.
    pub fn of(x: &Given, page_rows: Option<u64>, scales: Scales) -> Result<Self, Mismatch> {
        x.ensure_strides()?;
        match x.numbers {
            Numbers::Known(Element::U8) => Self::of_bytes(x, page_rows, scales),
            _ => Self::of_elements(x, page_rows),
        }
    }

    fn of_elements(x: &Given, page_rows: Option<u64>) -> Result<Self, Mismatch> {
        let wanted = || match page_rows {
            Some(rows) => format!("(pages, {rows}, dim)"),
            None => "(pages, rows, dim)".into(),
        };
        let (shape, strides) = match (&x.shape[..], &x.strides[..]) {
            ([pages, rows, 1, dim], [page, row, _, unit])
            | ([pages, rows, dim], [page, row, unit]) => {
                ([*pages, 1, *rows, *dim], [*page, 0, *row, *unit])
            }
            _ => return Err(x.misshapen(wanted())),
        };
        if page_rows.is_some_and(|rows| rows != shape[2]) {
            return Err(x.misshapen(wanted()));
        }
        let needed = "float32, float16 or bfloat16 is needed, or bytes of packed rows";
        let Some(dtype) = x.float() else {
            let mistyped = x.mistyped("");
            return Err(Mismatch { needed: needed.into(), ..mistyped });
        };
        if strides[3] != 1 {
            return Err(x.apart("rows"));
        }
        let view = View { shape, strides, dtype };
        Ok(Pages { view, storage: Storage::Elements, page_bytes: None })
    }

    fn of_bytes(x: &Given, page_rows: Option<u64>, scales: Scales) -> Result<Self, Mismatch> {
        let Some((rows, storage)) = rows_of_bytes(x, page_rows, scales) else {
            let bytes = formats(scales).map(|storage| row_bytes(storage).to_string());
            let rows =
                format!("(pages, rows, 1, row bytes) with rows of {} bytes", bytes.join(", "));
            return Err(x.misshapen(rows));
        };
        if page_rows.is_some_and(|wanted| wanted != rows) {
            let needed = format!("pages of {} rows are needed", page_rows.unwrap_or(rows));
            return Err(Mismatch { needed, ..x.misshapen("") });
        }
        let format = storage.packed().expect("a packed format");
        let (tight, stride) = (format.page_bytes(rows), format.page_stride(rows));
        let plain = x.shape.len() == 2;
        if plain && ![tight, stride].contains(&x.shape[1]) {
            let wanted = tuple(&[x.shape[0], stride]);
            let needed = format!("{wanted} is needed for pages of {rows} rows");
            return Err(Mismatch { needed, ..x.misshapen("") });
        }
        let unit = x.strides.last() == Some(&1);
        let dense = unit && (plain || rows == 1 || x.strides[1] == row_bytes(storage));
        if !dense || (x.shape[0] > 1 && x.strides[0] < tight) {
            return Err(x.apart("pages"));
        }
        let view = View::bhsd(DType::Bf16, [x.shape[0], 1, rows, format.dim]);
        let apart = x.shape[0] > 1 && x.strides[0] != stride;
        Ok(Pages { view, storage, page_bytes: apart.then(|| x.strides[0]) })
    }

    /// A segment that reads them, whose values are the first `value_dim` columns of keys.
    pub(super) fn segment(self, value_dim: u64) -> Segment {
        let segment = Segment::shared(self.view, value_dim).stored(self.storage);
        Segment { page_bytes: self.page_bytes, ..segment }
    }
}

/// Packed formats with scales where `scales` says.
fn formats(scales: Scales) -> [Storage; 4] {
    [Storage::Model1, Storage::V32, Storage::V41Fp8(scales), Storage::V41Fp4(scales)]
}

/// Bytes that a row is told apart by.
fn row_bytes(storage: Storage) -> u64 {
    storage.packed().map_or(0, |format| format.page_bytes(1))
}

/// Rows of a page of bytes, and their format.
fn rows_of_bytes(x: &Given, page_rows: Option<u64>, scales: Scales) -> Option<(u64, Storage)> {
    let (rows, bytes) = match x.shape[..] {
        [_, _] => (page_rows.unwrap_or(PAGE_ROWS), row_bytes(Storage::Model1)),
        [_, rows, bytes] | [_, rows, 1, bytes] => (rows, bytes),
        _ => return None,
    };
    let storage = formats(scales).into_iter().find(|storage| row_bytes(*storage) == bytes)?;
    Some((rows, storage))
}
