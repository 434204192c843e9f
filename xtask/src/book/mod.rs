//! `cargo xtask book`: the pages under `docs/` as a searchable site, in the order of their index.
//!
//! `docs/README.md` is the table of contents: its headings are parts, and the pages that it links to are chapters.
//! Pages keep their places, so that links between them stay right. A link to a file that is no chapter leads to the
//! repository. Search runs in the browser, over an index of all sections.

mod contents;
mod links;
mod page;
mod search;

use contents::{Chapter, Part};
use page::Page;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const STYLE: &str = include_str!("style.css");
const SEARCH: &str = include_str!("search.js");

/// Builds the book into a folder, `target/book` if none is named.
pub fn run(folder: Option<&str>) -> ExitCode {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace");
    let folder = folder.map_or_else(|| root.join("target/book"), PathBuf::from);
    match build(root, &folder) {
        Ok(pages) => {
            println!("{pages} pages: {}", folder.join("index.html").display());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the book; the number of its pages.
fn build(root: &Path, folder: &Path) -> Result<usize, String> {
    let parts = contents::read(root)?;
    let chapters: Vec<&Chapter> = parts.iter().flat_map(|part| &part.chapters).collect();
    let paths: BTreeSet<&str> = chapters.iter().map(|chapter| chapter.path.as_str()).collect();
    let mut assets = BTreeSet::new();
    let mut sections = Vec::new();
    for chapter in &chapters {
        let text = read(&root.join(&chapter.path))?;
        let page = Page::render(&chapter.path, &text, &paths);
        assets.extend(page.assets.iter().cloned());
        sections.extend(page.sections.iter().cloned());
        let target = links::target(&chapter.path);
        write(&folder.join(&target), &html(&parts, chapter, &page, &target))?;
    }
    for asset in &assets {
        let bytes = std::fs::read(root.join(asset)).map_err(|why| format!("{asset}: {why}"))?;
        write_bytes(&folder.join(asset), &bytes)?;
    }
    write(&folder.join("book.css"), STYLE)?;
    write(&folder.join("search.js"), &format!("{}{SEARCH}", search::index(&sections)))?;
    Ok(chapters.len())
}

/// A whole page, with the table of contents beside it.
fn html(parts: &[Part], chapter: &Chapter, page: &Page, target: &str) -> String {
    let up = links::up(target);
    let title = page::escaped(&chapter.title);
    let mut contents = String::new();
    for part in parts {
        if !part.title.is_empty() {
            contents += &format!("<h2>{}</h2>\n", page::escaped(&part.title));
        }
        for other in &part.chapters {
            let class = if other.path == chapter.path { "here" } else { "" };
            let (href, level) = (links::target(&other.path), other.level);
            let name = page::escaped(&other.title);
            contents +=
                &format!("<a class=\"level{level} {class}\" href=\"{up}{href}\">{name}</a>\n");
        }
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} · sixwarp</title>\n<link rel=\"stylesheet\" href=\"{up}book.css\">\n\
         <script defer src=\"{up}search.js\"></script>\n</head>\n<body data-up=\"{up}\">\n<nav>\n\
         <input id=\"search\" type=\"search\" placeholder=\"Search\" aria-label=\"Search\">\n\
         <div id=\"found\"></div>\n<div id=\"contents\">\n{contents}</div>\n</nav>\n<main>\n{}</main>\n</body>\n</html>\n",
        page.body
    )
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    write_bytes(path, text.as_bytes())
}

fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    let wrong = |why: std::io::Error| format!("{}: {why}", path.display());
    std::fs::create_dir_all(folder).map_err(wrong)?;
    std::fs::write(path, bytes).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands in an attribute, everywhere in a page.
    fn attributes<'t>(html: &'t str, name: &str) -> Vec<&'t str> {
        let start = format!(" {name}=\"");
        html.split(&start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    fn files_under(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries
            .flat_map(|path| if path.is_dir() { files_under(&path) } else { vec![path] })
            .collect()
    }

    #[test]
    fn every_link_inside_the_book_leads_somewhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folder = std::env::temp_dir().join(format!("sixwarp-book-{}", std::process::id()));
        let pages = build(root, &folder).unwrap();
        let html: Vec<PathBuf> = files_under(&folder)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|ending| ending == "html"))
            .collect();
        assert_eq!(html.len(), pages);
        let mut wrong = String::new();
        for page in &html {
            let text = std::fs::read_to_string(page).unwrap();
            for link in attributes(&text, "href").into_iter().chain(attributes(&text, "src")) {
                if link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = match path {
                    "" => page.clone(),
                    path => page.parent().unwrap().join(path),
                };
                let found = std::fs::read_to_string(&target).unwrap_or_default();
                if found.is_empty()
                    || !anchor.is_empty() && !attributes(&found, "id").contains(&anchor)
                {
                    wrong += &format!("{}: {link}\n", page.display());
                }
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(wrong.is_empty(), "{wrong}");
    }
}
