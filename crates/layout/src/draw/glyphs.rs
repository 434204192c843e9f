//! A stroke font for PNG pictures: each character as polylines on a grid.
//!
//! A point is two digits, x from 0 to 4 and y from 0 to 9 downwards; capitals stand between y = 1
//! and the baseline y = 7. Polylines are separated by `;`, and a single repeated point is a dot.

/// Grid units from the top of a capital to the baseline.
pub(super) const CAP_HEIGHT: f64 = 6.0;
/// The y of the middle of a capital.
pub(super) const CAP_MIDDLE: f64 = 4.0;
/// Width of every character in grid units.
pub(super) const WIDTH: f64 = 4.0;

/// The strokes of a character; unknown ones are an open box.
pub(super) fn strokes(character: char) -> &'static str {
    match character {
        ' ' => "",
        '0' | 'O' => "11 31 42 46 37 17 06 02 11",
        '1' => "12 21 27;17 37",
        '2' => "02 11 31 42 43 07 47",
        '3' => "02 11 31 42 43 34 24;34 45 46 37 17 06",
        '4' => "37 31 05 45",
        '5' => "41 01 03 33 44 46 37 17 06",
        '6' => "31 11 02 06 17 37 46 45 34 04",
        '7' => "01 41 17",
        '8' => "14 03 02 11 31 42 43 34 14 05 06 17 37 46 45 34",
        '9' => "44 14 03 02 11 31 42 46 37 17",
        'A' => "07 03 21 43 47;05 45",
        'B' => "07 01 31 42 43 34 04;34 45 46 37 07",
        'C' => "42 31 11 02 06 17 37 46",
        'D' => "01 07 27 46 42 21 01",
        'E' => "41 01 07 47;04 34",
        'F' => "41 01 07;04 34",
        'G' => "42 31 11 02 06 17 37 46 44 24",
        'H' => "01 07;41 47;04 44",
        'I' => "11 31;21 27;17 37",
        'J' => "31 36 27 17 06",
        'K' => "01 07;41 04 47",
        'L' => "01 07 47",
        'M' => "07 01 24 41 47",
        'N' => "07 01 47 41",
        'P' => "07 01 31 42 43 34 04",
        'Q' => "11 31 42 46 37 17 06 02 11;25 47",
        'R' => "07 01 31 42 43 34 04;24 47",
        'S' => "42 31 11 02 03 14 34 45 46 37 17 06",
        'T' => "01 41;21 27",
        'U' => "01 06 17 37 46 41",
        'V' => "01 27 41",
        'W' => "01 17 24 37 41",
        'X' => "01 47;41 07",
        'Y' => "01 24 41;24 27",
        'Z' => "01 41 07 47",
        _ => small_or_sign(character),
    }
}

fn small_or_sign(character: char) -> &'static str {
    match character {
        'a' => "44 33 13 04 06 17 37 46;43 47",
        'b' => "01 07;04 13 33 44 46 37 17 06",
        'c' => "44 33 13 04 06 17 37 46",
        'd' => "41 47;44 33 13 04 06 17 37 46",
        'e' => "05 45 44 33 13 04 06 17 37 46",
        'f' => "42 31 22 27;04 44",
        'g' => "43 48 39 19 08;44 33 13 04 06 17 37 46",
        'h' => "01 07;04 13 33 44 47",
        'i' => "13 23 27;17 37;21 21",
        'j' => "33 38 29 19;31 31",
        'k' => "01 07;43 05 47",
        'l' => "11 21 26 37",
        'm' => "07 03;04 13 24 27;24 33 44 47",
        'n' => "03 07;04 13 33 44 47",
        'o' => "13 33 44 46 37 17 06 04 13",
        'p' => "03 09;04 13 33 44 46 37 17 06",
        'q' => "43 49;44 33 13 04 06 17 37 46",
        'r' => "03 07;05 23 33 44",
        's' => "44 33 13 04 15 35 46 37 17 06",
        't' => "11 16 27 37;03 33",
        'u' => "03 06 17 37 46;43 47",
        'v' => "03 27 43",
        'w' => "03 17 24 37 43",
        'x' => "03 47;43 07",
        'y' => "03 27;43 19 09",
        'z' => "03 43 07 47",
        '(' => "30 12 16 38",
        ')' => "10 32 36 18",
        '[' => "30 10 18 38",
        ']' => "10 30 38 18",
        '<' => "41 04 47",
        '>' => "01 44 07",
        ',' => "27 18",
        '.' => "27 27",
        ':' => "23 23;26 26",
        ';' => "23 23;26 17",
        '+' => "22 26;04 44",
        '-' => "04 44",
        '=' => "03 43;05 45",
        '_' => "08 48",
        '/' => "07 41",
        '%' => "07 41;01 01;47 47",
        '@' => "35 25 14 13 22 33 36 45 43 31 11 02 06 17 37",
        '\'' => "21 22",
        '*' => "22 26;03 45;43 05",
        '!' => "21 25;27 27",
        '?' => "02 11 31 42 33 24 25;27 27",
        '|' => "20 28",
        _ => "01 41 47 07 01",
    }
}

/// The line segments of a character in grid units.
pub(super) fn segments(character: char) -> Vec<[(f64, f64); 2]> {
    let point = |text: &str| {
        let digit = |at: usize| f64::from(text.as_bytes()[at] - b'0');
        (digit(0), digit(1))
    };
    let mut segments = Vec::new();
    for line in strokes(character).split(';') {
        let points: Vec<(f64, f64)> = line.split_whitespace().map(point).collect();
        segments.extend(points.windows(2).map(|pair| [pair[0], pair[1]]));
    }
    segments
}
