//! Small changes to PTX files that mostly leave them readable.

/// Numbers at which sizes, shifts and offsets break.
const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "15",
    "16",
    "31",
    "32",
    "33",
    "63",
    "64",
    "127",
    "128",
    "255",
    "65535",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
];

/// Declarations and instructions worth meeting anywhere.
const LINES: [&str; 24] = [
    ".shared .align 16 .b8 hostile_s[4294967296];",
    ".shared .align 2147483648 .b8 hostile_a[16];",
    ".local .align 16 .b8 hostile_l[1048576];",
    ".local .align 8 .b8 hostile_m[64]; .reg .b64 hostile_x; mov.u64 hostile_x, hostile_m; ld.local.u64 hostile_x, [hostile_x+8];",
    ".reg .b128 hostile_q; mov.b128 hostile_q, hostile_q;",
    ".reg .b32 hostile_r; @hostile_r bra hostile_end; hostile_end:",
    "set;",
    "slct;",
    "testp;",
    "bar.sync 99, 7;",
    "barrier.cluster.arrive; barrier.cluster.wait;",
    "nanosleep.u32 4294967295;",
    "setmaxnreg.inc.sync.aligned.u32 240;",
    "setmaxnreg.dec.sync.aligned.u32 0;",
    "cp.async.wait_group 4294967295;",
    "cp.async.bulk.wait_group 4294967295;",
    "wgmma.wait_group.sync.aligned 4294967295;",
    "wgmma.commit_group.sync.aligned;",
    "tcgen05.wait::ld.sync.aligned;",
    "griddepcontrol.wait;",
    "trap;",
    "exit;",
    "bra.uni hostile_loop; hostile_loop: bra hostile_loop;",
    ".reg .pred hostile_p; @hostile_p exit;",
];

/// Marsaglia's xorshift.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..8).for_each(|_| {
            random.below(2);
        });
        random
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % limit.max(1) as u64) as usize
    }

    fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// The files to change, and the words that occur in them.
pub struct Corpus {
    files: Vec<String>,
    modifiers: Vec<String>,
    statements: Vec<String>,
}

/// What stands between blanks and punctuation.
fn words(line: &str) -> Vec<&str> {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '$' | '_' | '.' | ':');
    line.split(|c| !inside(c)).filter(|word| !word.is_empty()).collect()
}

impl Corpus {
    pub fn new(files: Vec<String>) -> Corpus {
        let lines = || files.iter().flat_map(|text| text.lines()).map(str::trim);
        let is_code = |line: &&str| line.ends_with(';') && !line.starts_with('.');
        let opcode =
            |line: &str| words(line).into_iter().find(|w| w.contains('.')).map(str::to_owned);
        let mut modifiers: Vec<String> = lines()
            .filter(is_code)
            .filter_map(opcode)
            .flat_map(|word| word.split('.').skip(1).map(str::to_owned).collect::<Vec<_>>())
            .collect();
        modifiers.sort();
        modifiers.dedup();
        let statements = lines().filter(is_code).map(str::to_owned).collect();
        Corpus { modifiers, statements, files }
    }

    /// A file with one to four changes.
    pub fn mutant(&self, random: &mut Random) -> String {
        let mut lines: Vec<String> = random.of(&self.files).lines().map(str::to_owned).collect();
        for _ in 0..=random.below(4) {
            self.change(&mut lines, random);
        }
        lines.join("\n") + "\n"
    }

    fn change(&self, lines: &mut Vec<String>, random: &mut Random) {
        let at = random.below(lines.len());
        match random.below(12) {
            0 => {
                lines.remove(at);
            }
            1 => {
                let copy = lines[at].clone();
                let to = random.below(lines.len());
                lines.insert(to, copy);
            }
            2 => lines.insert(at, random.of(&self.statements).clone()),
            3 => lines.insert(at, (*random.of(&LINES)).to_owned()),
            4 => {
                let with = random.below(lines.len());
                lines.swap(at, with);
            }
            5 | 6 => self.change_modifier(&mut lines[at], random),
            7 | 8 => {
                let other = lines[random.below(lines.len())].clone();
                swap_word(&mut lines[at], &other, random);
            }
            _ => change_number(&mut lines[at], random),
        }
        if lines.is_empty() {
            lines.push(String::new());
        }
    }

    /// Replaces, adds or removes a part of an opcode.
    fn change_modifier(&self, line: &mut String, random: &mut Random) {
        let Some(word) = words(line).into_iter().find(|w| w.contains('.')).map(str::to_owned)
        else {
            return;
        };
        let mut parts: Vec<&str> = word.split('.').collect();
        let (at, new) = (1 + random.below(parts.len() - 1), random.of(&self.modifiers));
        match random.below(3) {
            0 => parts[at] = new,
            1 => parts.insert(at, new),
            _ => {
                parts.remove(at);
            }
        }
        *line = line.replacen(&word, &parts.join("."), 1);
    }
}

/// Replaces a word by one of another line.
fn swap_word(line: &mut String, other: &str, random: &mut Random) {
    let (own, others) = (words(line), words(other));
    if own.is_empty() || others.is_empty() {
        return;
    }
    let (from, to) = ((*random.of(&own)).to_owned(), *random.of(&others));
    *line = line.replacen(&from, to, 1);
}

/// Replaces a run of digits.
fn change_number(line: &mut String, random: &mut Random) {
    let digit = |(i, c): (usize, char)| c.is_ascii_digit().then_some(i);
    let digits: Vec<usize> = line.char_indices().filter_map(digit).collect();
    if digits.is_empty() {
        return;
    }
    let at = *random.of(&digits);
    let not = |c: char| !c.is_ascii_digit();
    let start = line[..at].rfind(not).map_or(0, |i| i + 1);
    let end = line[at..].find(not).map_or(line.len(), |i| at + i);
    if line.is_char_boundary(start) {
        let number = NUMBERS[random.below(NUMBERS.len())];
        line.replace_range(start..end, number);
    }
}
