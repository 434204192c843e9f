//! The pages of `docs/workshop` say what is: their code is the kernels' source, and their reports are the simulator's.
//!
//! The Rust blocks of a page, one after the other, are a source file. A report stands behind a line such as
//! `<!-- report: tile fence.proxy.async -->`: a lesson, and the instructions that it runs without.
//! `UPDATE_PAGES=1 cargo test -p sixwarp-workshop --test pages` writes the reports anew.

use sixwarp_workshop::lesson;
use std::path::{Path, PathBuf};

/// Pages, and the source that each explains.
const PAGES: [(&str, &str); 4] =
    [("saxpy", "saxpy"), ("tma", "tile"), ("wgmma", "wgmma"), ("tcgen05", "tcgen05")];
/// Lines of a report that are longer are cut.
const WIDTH: usize = 150;

fn page(name: &str) -> PathBuf {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/workshop");
    docs.join(name).with_extension("md")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Lines that say something.
fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.trim().is_empty()).collect()
}

/// The blocks of `language`, one after the other.
fn blocks(text: &str, language: &str) -> String {
    let start = format!("\n```{language}\n");
    let parts = text.split(&start).skip(1);
    parts.map(|part| part.split("\n```").next().unwrap_or_default().to_owned() + "\n").collect()
}

#[test]
fn the_code_of_a_page_is_the_source() {
    for (name, source) in PAGES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(source);
        let (page, source) = (read(&page(name)), read(&path.with_extension("rs")));
        let shown = blocks(&page, "rust");
        for (shown, there) in lines(&shown).iter().zip(lines(&source)) {
            assert_eq!(*shown, there, "docs/workshop/{name}.md");
        }
        assert_eq!(lines(&shown).len(), lines(&source).len(), "docs/workshop/{name}.md");
    }
}

/// What the simulator says of a lesson without some instructions.
fn report(of: &str) -> String {
    let (name, opcode) = of.split_once(' ').expect("a lesson and an opcode");
    let lesson = lesson::named(name).unwrap_or_else(|| panic!("no lesson {name}"));
    let program = lesson::without(&lesson.program, opcode);
    let options = sim::Options { pedantic: true, ..sim::Options::default() };
    let error = sim::run(&program, &lesson.memory, &options).expect_err("an error");
    let cut = |line: &str| match line.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}…\n", &line[..at]),
        None => format!("{line}\n"),
    };
    error.to_string().lines().map(cut).collect()
}

/// The page with the reports that the simulator gives now, and how many there are.
fn with_reports(page: &str) -> (String, usize) {
    const MARK: &str = "<!-- report: ";
    let mut parts = page.split(MARK);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut count = 0;
    for part in parts {
        let (of, rest) = part.split_once(" -->").expect("the end of a mark");
        let (_, rest) = rest.split_once("\n```text\n").expect("a report behind its mark");
        let (_, rest) = rest.split_once("\n```").expect("the end of a report");
        text += &format!("{MARK}{of} -->\n\n```text\n{}```{rest}", report(of));
        count += 1;
    }
    (text, count)
}

#[test]
fn the_reports_of_a_page_are_the_simulators() {
    for (name, _) in PAGES {
        let path = page(name);
        let now = read(&path);
        let (wanted, count) = with_reports(&now);
        assert!(count > 0, "docs/workshop/{name}.md has no report");
        if std::env::var_os("UPDATE_PAGES").is_some() {
            std::fs::write(&path, &wanted).expect("a page can be written");
        } else {
            assert_eq!(now, wanted, "docs/workshop/{name}.md: UPDATE_PAGES=1 writes it anew");
        }
    }
}
