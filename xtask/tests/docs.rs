//! How the pages are written, and how they are found: short sentences, and a link from the index to each.

mod prose;

use prose::{Sentence, sentences};
use std::path::{Path, PathBuf};

/// The most words a sentence has.
const MOST_WORDS: usize = 30;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every page of `docs/`, its folders included, and those beside it. `docs/support.md` is the planner's own words.
fn pages() -> Vec<PathBuf> {
    let mut pages = pages_under(&root().join("docs"));
    pages.retain(|page| !page.ends_with("docs/support.md"));
    let beside = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];
    let folders = ["python", "fuzz", "tests", "integrations/candle"]
        .map(|folder| format!("{folder}/README.md"));
    let beside = beside.iter().map(|name| root().join(name));
    pages.extend(beside.chain(folders.iter().map(|name| root().join(name))));
    let crates = std::fs::read_dir(root().join("crates")).expect("crates");
    pages.extend(crates.map(|entry| entry.expect("readable").path().join("README.md")));
    pages.retain(|page| page.exists());
    pages
}

fn pages_under(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of pages");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    let mut pages = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => pages.extend(pages_under(&path)),
            false if path.extension().is_some_and(|end| end == "md") => pages.push(path),
            false => {}
        }
    }
    pages
}

fn read(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap_or_else(|why| panic!("{}: {why}", page.display()))
}

/// Sentences of all pages that break a rule, one a line.
fn broken(rule: impl Fn(&Sentence) -> Option<String>) -> String {
    let mut found = String::new();
    for page in pages() {
        for sentence in sentences(&read(&page)) {
            if let Some(why) = rule(&sentence) {
                let Sentence { line, text } = &sentence;
                found += &format!("{}:{line}: {why}: {text}\n", page.display());
            }
        }
    }
    found
}

#[test]
fn a_sentence_has_at_most_30_words() {
    let too_long = broken(|sentence| {
        let words = sentence.words();
        (words > MOST_WORDS).then(|| format!("{words} words, at most {MOST_WORDS}"))
    });
    assert!(too_long.is_empty(), "{too_long}");
}

#[test]
fn a_machine_is_no_person() {
    let people = ["who", "whom", "whoever", "nobody"];
    let found = broken(|sentence| {
        let word = people.into_iter().find(|word| sentence.has_word(word))?;
        Some(format!("`{word}`: name the warp, the thread or the kernel"))
    });
    assert!(found.is_empty(), "{found}");
}

#[test]
fn every_page_is_linked_from_the_index() {
    let docs = root().join("docs");
    let index = read(&docs.join("README.md"));
    for page in pages_under(&docs) {
        let name = page.strip_prefix(&docs).expect("a page of docs").to_string_lossy().into_owned();
        let linked = index.contains(&format!("({})", name.replace('\\', "/")));
        assert!(linked || name == "README.md", "docs/README.md has no link to {name}");
    }
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let folder = page.parent().expect("a page is in a folder");
        for target in prose::links(&read(&page)) {
            let there =
                target.contains("://") || target.is_empty() || folder.join(&target).exists();
            assert!(there, "{}: {target} is not there", page.display());
        }
    }
}

/// Words of the glossary, each with what is not written for it: tables whose last column is `not`.
fn replaced_words() -> Vec<(String, String)> {
    let glossary = read(&root().join("docs/glossary.md"));
    let tables = glossary.split("\n\n").filter(|part| part.starts_with("| word | meaning | not |"));
    let rows = tables.flat_map(|table| table.lines().skip(2));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let replaced = cells.flat_map(|cells| {
        let words = cells[3].split(", ").filter(|word| !word.is_empty());
        words.map(|word| (cells[1].to_owned(), word.to_owned())).collect::<Vec<_>>()
    });
    replaced.collect()
}

#[test]
fn pages_use_the_words_of_the_glossary() {
    let replaced = replaced_words();
    assert!(replaced.contains(&("CTA pair".into(), "pair of CTAs".into())), "{replaced:?}");
    for page in pages().iter().filter(|page| !page.ends_with("glossary.md")) {
        let text = read(page).split_whitespace().collect::<Vec<_>>().join(" ");
        for (word, not) in &replaced {
            assert!(!text.contains(not.as_str()), "{}: {not}: write {word}", page.display());
        }
    }
}
