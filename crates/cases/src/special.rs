//! Numbers put in the place of random ones: `v[40] = nan`.

use problem::InvalidProblem;
use std::str::FromStr;

/// Which tensor a number is put into; keys and values are those of every segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tensor {
    Q,
    K,
    V,
}

/// A number that an element, a row or a whole tensor has, in every sequence and head.
///
/// Written `tensor[row] = number` or `tensor[row,column] = number`, where the tensor is `q`, `k` or `v`, rows count
/// from each sequence's first, and `*` is every one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Special {
    pub tensor: Tensor,
    row: Option<u64>,
    column: Option<u64>,
    pub value: f32,
}

impl Special {
    /// Whether row `row` of a sequence has it.
    pub fn is_in(&self, row: u64) -> bool {
        self.row.is_none_or(|at| at == row)
    }

    /// Puts it into the elements of a row.
    pub fn put(&self, row: &mut [f32]) {
        match self.column {
            None => row.fill(self.value),
            Some(column) => {
                row.iter_mut().skip(column as usize).take(1).for_each(|x| *x = self.value)
            }
        }
    }
}

/// Reads the specials of a case.
pub(crate) fn parse(texts: &[String]) -> Result<Vec<Special>, InvalidProblem> {
    let rule = "must be like `v[40] = nan` or `q[*,3] = 1e30`";
    let read = |text: &String| {
        text.parse().map_err(|()| InvalidProblem::new("special", rule, format!("`{text}`")))
    };
    texts.iter().map(read).collect()
}

impl FromStr for Special {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (place, value) = text.split_once('=').ok_or(())?;
        let (tensor, place) = place.trim().split_once('[').ok_or(())?;
        let place = place.strip_suffix(']').ok_or(())?;
        let (row, column) = place.split_once(',').unwrap_or((place, "*"));
        let tensor = match tensor {
            "q" => Tensor::Q,
            "k" => Tensor::K,
            "v" => Tensor::V,
            _ => return Err(()),
        };
        let value = value.trim().parse().map_err(|_| ())?;
        Ok(Self { tensor, row: index(row)?, column: index(column)?, value })
    }
}

fn index(text: &str) -> Result<Option<u64>, ()> {
    match text.trim() {
        "*" => Ok(None),
        number => number.parse().map(Some).map_err(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_numbers() {
        let read = |text: &str| text.parse::<Special>();
        let element = read("k[3,1] = -inf").unwrap();
        assert!(element.tensor == Tensor::K && element.is_in(3) && !element.is_in(2));
        let mut row = [0.0; 3];
        element.put(&mut row);
        assert_eq!(row, [0.0, f32::NEG_INFINITY, 0.0]);
        let all = read("v[*] = 3e38").unwrap();
        all.put(&mut row);
        assert!(all.is_in(9) && row == [3e38; 3]);
        assert!(read("q[*,*]=nan").unwrap().value.is_nan());
        for wrong in ["", "v[1]", "w[1] = 2", "v[x] = 2", "v[1 = 2", "v[1] = two"] {
            assert_eq!(read(wrong), Err(()), "{wrong}");
        }
        let error = parse(&["v[1]".to_string()]).unwrap_err().to_string();
        assert_eq!(
            error,
            "special: must be like `v[40] = nan` or `q[*,3] = 1e30`, but it is `v[1]`"
        );
    }
}
