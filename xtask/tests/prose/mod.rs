//! Sentences of a Markdown page, as a reader counts them.

/// A sentence and the line its paragraph begins at.
pub struct Sentence {
    pub line: usize,
    pub text: String,
}

impl Sentence {
    /// What stands between blanks and has a letter or digit in it; code between backticks is one word.
    pub fn words(&self) -> usize {
        self.text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
    }

    pub fn has_word(&self, word: &str) -> bool {
        self.text.split(|c: char| !c.is_alphanumeric()).any(|x| x.eq_ignore_ascii_case(word))
    }
}

/// Sentences of paragraphs and of list entries; headings, tables and code have none.
pub fn sentences(page: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    for (line, paragraph) in paragraphs(page) {
        let split = split(&without_code(&without_targets(&paragraph)));
        found.extend(split.into_iter().map(|text| Sentence { line, text }));
    }
    found
}

/// What links of a page point to, without `#` and what is behind it.
pub fn links(page: &str) -> Vec<String> {
    let prose: Vec<String> =
        paragraphs(page).into_iter().map(|(_, text)| without_code(&text)).collect();
    let targets = prose.iter().flat_map(|text| text.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.split('#').next().unwrap_or_default().to_owned()).collect()
}

/// Paragraphs and list entries, each on one line, with the number of the line they begin at.
fn paragraphs(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut open, mut in_code) = (false, false);
    for (number, line) in page.lines().enumerate() {
        let is_indented = !open && line.starts_with("    ");
        let line = line.trim();
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        let is_code = in_code || is_fence || is_indented;
        if is_code || line.is_empty() || line.starts_with(['|', '#', '<', '!']) {
            open = false;
            continue;
        }
        let entry = list_entry(line);
        match found.last_mut().filter(|_| open && entry.is_none()) {
            Some((_, paragraph)) => *paragraph += &format!(" {line}"),
            None => found.push((number + 1, entry.unwrap_or(line).to_owned())),
        }
        open = true;
    }
    found
}

/// The text of a line that begins an entry of a list.
fn list_entry(line: &str) -> Option<&str> {
    let (mark, rest) = line.split_once(' ')?;
    let number = mark.strip_suffix('.').is_some_and(|digits| digits.parse::<u32>().is_ok());
    (mark == "-" || mark == "*" || number).then_some(rest)
}

/// Text with `code` for what stands between backticks.
fn without_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(i, part)| if i % 2 == 0 { part } else { "`code`" }).collect()
}

/// Text of links without what they point to.
fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once(')') {
        Some((_, rest)) => text + "]" + rest,
        None => text + "](" + part,
    })
}

/// A sentence ends with `.`, `?` or `!` and a blank, and the next one does not begin with a small letter.
fn split(paragraph: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut words = paragraph.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let sentence = found.last_mut().expect("never empty");
        *sentence += &format!("{}{word}", if sentence.is_empty() { "" } else { " " });
        let ends = word.trim_end_matches([')', '*', '"', ']']).ends_with(['.', '?', '!']);
        let begins = words.peek().is_some_and(|next| !next.starts_with(char::is_lowercase));
        if ends && begins {
            found.push(String::new());
        }
    }
    found
}

#[test]
fn sentences_are_counted_as_a_reader_counts() {
    let page = "# A heading of words\n\nOne sentence\nover lines, with `code of words`. Another (see\n\
                [a link](to/somewhere.md)). e.g. this\n\n- An entry.\n- Two. Three.\n\n| a | table. Yes. |\n\
                ```\nIt is. Code.\n```\n1. First.\n\n    More. Code.";
    let found = sentences(page);
    let texts: Vec<&str> = found.iter().map(|x| x.text.as_str()).collect();
    let wanted = [
        "One sentence over lines, with `code`.",
        "Another (see [a link]). e.g. this",
        "An entry.",
        "Two.",
        "Three.",
        "First.",
    ];
    assert_eq!(texts, wanted);
    assert_eq!(found[0].words(), 6);
    assert_eq!((found[0].line, found[2].line), (3, 7));
    assert!(found[0].has_word("ONE") && !found[0].has_word("on"));
    assert_eq!(links(page), ["to/somewhere.md"]);
}
