//! Broken PTX text: thousands of mutations of real text, the same ones in every run.
//!
//! Nothing may panic, and what still parses must survive print and parse. `fuzz/` does the same
//! with coverage feedback and without end.

use sixwarp_ptx::resolve::resolve;
use sixwarp_ptx::{parse, verify};

const SEED_TEXT: &str = include_str!("snippets/syntax.ptx");
const ROUNDS: u32 = 20_000;

/// Fragments that matter to a parser.
const FRAGMENTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ";",
    ":",
    "::",
    "|",
    "+",
    "-",
    "!",
    "@",
    "<",
    ">",
    "=",
    ".",
    "%",
    "$",
    "_",
    "\"",
    "\\",
    "/*",
    "*/",
    "//",
    "\n",
    "\t",
    "0x",
    "0f3F800000",
    "0d",
    "1.5e",
    "1e999",
    "99999999999999999999",
    "0xFFFFFFFFFFFFFFFFU",
    "-9223372036854775809",
    ".reg .b32 %r<4294967295>;",
    ".v8",
    ".pred",
    ".b128",
    ".align 0",
    ".param",
    ".extern",
    ".func",
    ".entry",
    ".section",
    ".loc 1 1",
    ".attribute(",
    ".pragma",
    "generic(",
    "é",
    "\u{0}",
    "\u{2028}",
    "bra ",
    "mov.b32 ",
    "wgmma.mma_async.m64n0k0",
    "cp.async.bulk.tensor.9d",
    "tcgen05.ld.x4294967295",
    "[a, {b}]",
    ".branchtargets",
];

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// A piece of the text: short, whole characters.
fn cut(text: &str, random: &mut Random) -> (usize, usize) {
    let floor = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(random.below(text.len() + 1));
    (start, floor((start + random.below(24)).min(text.len())))
}

/// The word around a random place: what stands between blanks and punctuation.
fn word(text: &str, random: &mut Random) -> (usize, usize) {
    let (at, _) = cut(text, random);
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '$' | '_' | '.' | ':');
    let start = text[..at].rfind(|c| !inside(c)).map_or(0, |i| i + 1);
    let end = text[at..].find(|c| !inside(c)).map_or(text.len(), |i| at + i);
    if text.is_char_boundary(start) { (start, end) } else { (at, at) }
}

fn mutate(text: &mut String, random: &mut Random) {
    let (start, end) = cut(text, random);
    match random.below(8) {
        4..8 => {
            let (start, end) = word(text, random);
            let (from, to) = word(SEED_TEXT, random);
            text.replace_range(start..end, &SEED_TEXT[from..to]);
        }
        0 => text.replace_range(start..end, ""),
        1 => text.insert_str(start, FRAGMENTS[random.below(FRAGMENTS.len())]),
        2 => text.replace_range(start..end, FRAGMENTS[random.below(FRAGMENTS.len())]),
        _ => {
            let (from, to) = cut(text, random);
            let piece = text[from..to].to_owned();
            text.insert_str(start, &piece);
        }
    }
}

/// The seed, or a small kernel of some of its lines, so that mutations reach every construct.
fn start_text(random: &mut Random) -> String {
    if random.below(8) == 0 {
        return SEED_TEXT.to_owned();
    }
    let statements: Vec<&str> = SEED_TEXT.lines().filter(|line| line.starts_with('\t')).collect();
    let whole = |line: &&str| line.ends_with(';') && !line.contains(':');
    let mut text = String::from(".version 8.7\n.target sm_90a\n.address_size 64\n.entry k() {\n");
    for _ in 0..random.below(8) {
        let statement = statements[random.below(statements.len())];
        text.push_str(if whole(&statement) { statement } else { "ret;" });
    }
    text + "}"
}

#[test]
fn no_text_is_too_broken() {
    let mut random = Random(0x5EED);
    let mut parsed = 0;
    for _ in 0..ROUNDS {
        let mut text = start_text(&mut random);
        for _ in 0..=random.below(3) {
            mutate(&mut text, &mut random);
        }
        let Ok(module) = parse(&text) else { continue };
        parsed += 1;
        let printed = module.to_string();
        let again = parse(&printed).unwrap_or_else(|e| panic!("{e}\nfrom\n{text}"));
        assert_eq!(again, module, "{text}");
        for function in module.functions() {
            let _ = resolve(&module, function);
        }
        verify(&module);
    }
    assert!(parsed > ROUNDS / 10, "only {parsed} texts of {ROUNDS} parsed: mutations too wild");
}
