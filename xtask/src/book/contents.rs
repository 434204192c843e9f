//! The table of contents, out of the index of the pages.

use super::links;
use std::path::Path;

/// The index, and the page that a visitor sees first.
const INDEX: &str = "docs/README.md";
const FIRST: &str = "README.md";

/// Chapters under one heading.
pub struct Part {
    /// The heading; none for the first.
    pub title: String,
    /// Its pages.
    pub chapters: Vec<Chapter>,
}

/// A page.
pub struct Chapter {
    /// Where it is in the repository.
    pub path: String,
    /// Its first heading.
    pub title: String,
    /// 1 for a page that belongs to the one before.
    pub level: usize,
}

/// Reads the index: each page once, where it is linked to first.
pub fn read_index(root: &Path, index: &str) -> Result<Vec<Part>, String> {
    let mut parts = vec![Part { title: String::new(), chapters: Vec::new() }];
    let mut known: Vec<String> = Vec::new();
    for path in [FIRST, INDEX] {
        known.push(path.to_owned());
        parts[0].chapters.push(Chapter::of(root, path, 0)?);
    }
    for line in index.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            parts.push(Part { title: title.to_owned(), chapters: Vec::new() });
        }
        let mut first: Option<String> = None;
        for path in pages_of(line) {
            if known.contains(&path) {
                continue;
            }
            let folder = first.as_deref().and_then(|first| first.strip_suffix(".md"));
            let belongs = folder.is_some_and(|folder| path.starts_with(&format!("{folder}/")));
            let chapter = Chapter::of(root, &path, usize::from(belongs))?;
            first.get_or_insert_with(|| path.clone());
            known.push(path);
            parts.last_mut().expect("never empty").chapters.push(chapter);
        }
    }
    Ok(parts)
}

/// The table of contents of this repository.
pub fn read(root: &Path) -> Result<Vec<Part>, String> {
    read_index(root, &super::read(&root.join(INDEX))?)
}

/// The pages that a line of the index links to.
fn pages_of(line: &str) -> impl Iterator<Item = String> + '_ {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let paths = targets.filter_map(|target| links::resolve(INDEX, target));
    paths.map(|(path, _)| path).filter(|path| path.ends_with(".md"))
}

impl Chapter {
    fn of(root: &Path, path: &str, level: usize) -> Result<Chapter, String> {
        let text = super::read(&root.join(path))?;
        let title = text.lines().find_map(|line| line.strip_prefix("# "));
        let title = title.ok_or_else(|| format!("{path}: no line with `# ` gives it a title"))?;
        Ok(Chapter { path: path.to_owned(), title: title.replace('`', ""), level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_folder_belong_to_the_page_before() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let index = "# x\n## One\n- [w](workshop.md): [a](workshop/saxpy.md), [b](check.md#x)\n## Two\n- [w](workshop.md)";
        let parts = read_index(root, index).unwrap();
        let shape: Vec<Vec<(&str, usize)>> = parts
            .iter()
            .map(|part| part.chapters.iter().map(|c| (c.path.as_str(), c.level)).collect())
            .collect();
        let one =
            vec![("docs/workshop.md", 0), ("docs/workshop/saxpy.md", 1), ("docs/check.md", 0)];
        assert_eq!(shape, [vec![(FIRST, 0), (INDEX, 0)], one, vec![]]);
    }
}
