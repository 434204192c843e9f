//! Parts of a text that are shown in messages: texts of others have lines of any length.

use std::borrow::Cow;

/// Characters shown on each side of a place, or of a word.
const NEAR: usize = 120;
const CUT: &str = "…";

/// The beginning of `text`, which is all of it unless it is long.
pub(crate) fn beginning(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(NEAR) {
        Some((end, _)) => format!("{}{CUT}", &text[..end]).into(),
        None => text.into(),
    }
}

/// What stands near byte `at` of `line`, and how many of its characters stand before that place.
pub(crate) fn near(line: &str, at: usize) -> (String, usize) {
    let (before, after) = line.split_at(at);
    let start = before.char_indices().rev().nth(NEAR - 1).map_or(0, |(start, _)| start);
    let head = if start > 0 { CUT } else { "" };
    let before = format!("{head}{}", &before[start..]);
    let count = before.chars().count();
    ((before + &beginning(after)).trim_end().to_string(), count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lines_are_shown_whole() {
        assert_eq!(near("add.u32 x;  ", 8), ("add.u32 x;".into(), 8));
        assert_eq!(near("", 0), (String::new(), 0));
        assert_eq!(beginning("word"), "word");
    }

    #[test]
    fn of_long_lines_what_is_near_is_shown() {
        let line = "é".repeat(1000) + "X" + &"ü".repeat(1000);
        let (shown, place) = near(&line, 2000);
        assert_eq!((shown.chars().count(), place), (NEAR + 2 + NEAR, NEAR + 1));
        assert_eq!(shown.chars().nth(place), Some('X'));
        assert!(shown.starts_with("…é") && shown.ends_with("ü…"));
        assert_eq!(beginning(&line).chars().count(), NEAR + 1);
    }
}
