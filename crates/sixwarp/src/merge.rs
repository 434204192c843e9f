use crate::Error;
use problem::{HostMut, HostRef, InvalidProblem, Slot, View};

/// Merges results over different keys of the same queries into the result over all of them.
///
/// `parts` are outputs in the layout of `view` and natural, sink-free log-sum-exps (dense
/// `[batch, heads, tokens]`). A part whose log-sum-exp is an infinity of either sign or NaN saw no
/// key, and its output is not looked at. Apply a sink afterwards, once, with [`apply_sink`].
///
/// ```
/// use sixwarp::{DType, HostMut, HostRef, View, merge};
/// let view = View::bhsd(DType::F32, [1, 1, 1, 2]);
/// let parts = [
///     (HostRef::F32(&[1.0, 2.0]), &[0.5f32][..]),
///     (HostRef::F32(&[3.0, 4.0]), &[0.5][..]),
///     (HostRef::F32(&[f32::NAN; 2]), &[f32::INFINITY][..]),
/// ];
/// let (mut out, mut lse) = ([0.0; 2], [0.0]);
/// merge(&view, &parts, HostMut::F32(&mut out), &mut lse)?;
/// assert_eq!(out, [2.0, 3.0]);
/// assert!((lse[0] - (0.5 + 2f32.ln())).abs() < 1e-6);
/// # Ok::<(), sixwarp::Error>(())
/// ```
///
/// # Errors
/// If a tensor is smaller than `view`, or the elements of a row do not lie side by side.
pub fn merge(
    view: &View,
    parts: &[(HostRef, &[f32])],
    mut out: HostMut,
    lse: &mut [f32],
) -> Result<(), Error> {
    check(view, out.as_ref(), lse)?;
    for (part, part_lse) in parts {
        check(view, *part, part_lse)?;
    }
    for (row, offset) in rows(view) {
        let logits: Vec<f64> = parts.iter().map(|(_, lse)| logit(lse[row])).collect();
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = match max == f64::NEG_INFINITY {
            true => vec![0.0; parts.len()],
            false => logits.iter().map(|l| (l - max).exp()).collect(),
        };
        let total: f64 = weights.iter().sum();
        for d in 0..view.dim() as usize {
            let seen = parts.iter().zip(&weights).filter(|(_, weight)| **weight > 0.0);
            let sum: f64 = seen.map(|((part, _), weight)| weight * part.get(offset + d)).sum();
            out.set(offset + d, if total > 0.0 { sum / total } else { 0.0 });
        }
        lse[row] = (max + total.ln()) as f32;
    }
    Ok(())
}

/// Adds one sink logit per head to the denominator of a merged result, in place.
///
/// `sinks` has one entry per head; `lse` stays sink-free and is not changed.
///
/// # Errors
/// If a tensor is smaller than `view`, or the elements of a row do not lie side by side.
pub fn apply_sink(view: &View, mut out: HostMut, lse: &[f32], sinks: &[f32]) -> Result<(), Error> {
    check(view, out.as_ref(), lse)?;
    if (sinks.len() as u64) < view.heads() {
        let rule = format!("must hold {} elements", view.heads());
        return Err(InvalidProblem::new(Slot::Sinks, rule, sinks.len()).into());
    }
    for (row, offset) in rows(view) {
        let head = row as u64 / view.tokens() % view.heads();
        let kept = 1.0 / (1.0 + (sinks[head as usize] as f64 - logit(lse[row])).exp());
        for at in offset..offset + view.dim() as usize {
            let value = out.as_ref().get(at);
            out.set(at, if kept > 0.0 { (value * kept) as f32 } else { 0.0 });
        }
    }
    Ok(())
}

/// The log-sum-exp of a part; whatever is not a number stands for no keys.
fn logit(lse: f32) -> f64 {
    if lse.is_finite() { lse as f64 } else { f64::NEG_INFINITY }
}

/// Dense number and element offset of every row.
fn rows(view: &View) -> impl Iterator<Item = (usize, usize)> {
    let view = *view;
    // Without a token there is no row, however many batches and heads there are to look through.
    let [batches, heads, tokens, _] = if view.tokens() > 0 { view.shape } else { [0; 4] };
    let all = (0..batches)
        .flat_map(move |b| (0..heads).flat_map(move |h| (0..tokens).map(move |t| (b, h, t))));
    all.enumerate().map(move |(row, (b, h, t))| (row, view.row_offset(b, h, t) as usize))
}

pub(crate) fn check(view: &View, out: HostRef, lse: &[f32]) -> Result<(), InvalidProblem> {
    if view.strides[3] != 1 {
        return Err(InvalidProblem::new(Slot::Out, "the last stride must be 1", view.strides[3]));
    }
    let needed = view.span().unwrap_or(u64::MAX);
    if (out.len() as u64) < needed {
        let rule = format!("must hold {needed} elements");
        return Err(InvalidProblem::new(Slot::Out, rule, out.len()));
    }
    let [batch, heads, tokens, _] = view.shape;
    let rows = match tokens {
        0 => 0,
        _ => batch.saturating_mul(heads).saturating_mul(tokens),
    };
    if (lse.len() as u64) < rows {
        let rule = format!("must hold {rows} elements");
        return Err(InvalidProblem::new(Slot::Lse, rule, lse.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use problem::DType;

    #[test]
    fn nothing_merged_with_nothing_is_nothing() {
        let view = View::bhsd(DType::F32, [1, 2, 1, 1]);
        let empty = [f32::NEG_INFINITY, f32::NAN];
        let nan = [f32::NAN; 2];
        let (mut out, mut lse) = ([7.0; 2], [7.0; 2]);
        merge(&view, &[(HostRef::F32(&nan), &empty)], HostMut::F32(&mut out), &mut lse).unwrap();
        assert_eq!(out, [0.0; 2]);
        assert_eq!(lse, [f32::NEG_INFINITY; 2]);
        apply_sink(&view, HostMut::F32(&mut out), &lse, &[3.0, f32::NEG_INFINITY]).unwrap();
        assert_eq!(out, [0.0; 2]);
    }

    #[test]
    fn sinks_from_none_to_overwhelming() {
        let view = View::bhsd(DType::F32, [1, 4, 1, 1]);
        let lse = [1.0; 4];
        let mut out = [8.0; 4];
        let sinks = [f32::NEG_INFINITY, 1.0, 1e30, f32::INFINITY];
        apply_sink(&view, HostMut::F32(&mut out), &lse, &sinks).unwrap();
        assert_eq!(out, [8.0, 4.0, 0.0, 0.0]);
    }

    #[test]
    fn views_that_repeat_need_all_their_rows_and_whole_ones() {
        let view = View::bhsd(DType::F32, [1 << 40, 1 << 40, 1, 1]).with_strides([0, 0, 0, 1]);
        let error = merge(&view, &[], HostMut::F32(&mut [0.0]), &mut [0.0]).unwrap_err();
        assert_eq!(error.to_string(), format!("lse: must hold {} elements, but it is 1", u64::MAX));
        let none = View { shape: [1 << 40, 1 << 40, 0, 1], ..view };
        merge(&none, &[], HostMut::F32(&mut []), &mut []).unwrap();
        let column = View::bhsd(DType::F32, [1, 1, 1, 4]).with_strides([0; 4]);
        let error = merge(&column, &[], HostMut::F32(&mut [0.0]), &mut [0.0]).unwrap_err();
        assert_eq!(error.to_string(), "out: the last stride must be 1, but it is 0");
    }

    #[test]
    fn short_tensors_are_refused() {
        let view = View::bhsd(DType::F32, [1, 1, 2, 2]);
        let error = merge(&view, &[], HostMut::F32(&mut [0.0; 3]), &mut [0.0; 2]).unwrap_err();
        assert_eq!(error.to_string(), "out: must hold 4 elements, but it is 3");
    }
}
