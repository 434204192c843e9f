//! Where links lead: to another page, to a picture that is copied, or to the repository.

use std::collections::BTreeSet;

const REPOSITORY: &str = "https://github.com/sixwarp/sixwarp/blob/main/";

/// The file of a page, by its place in the repository.
pub fn target(path: &str) -> String {
    let stem = path.strip_suffix(".md").unwrap_or(path);
    match stem.strip_suffix("README") {
        Some(folder) => format!("{folder}index.html"),
        None => format!("{stem}.html"),
    }
}

/// From a file of the book to its top: `../` for each folder.
pub fn up(target: &str) -> String {
    "../".repeat(target.matches('/').count())
}

/// The place in the repository that a link of a page leads to, and its anchor; nothing for other links.
pub fn resolve(page: &str, link: &str) -> Option<(String, String)> {
    if link.is_empty() || link.starts_with('#') || link.contains(':') {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some((parts.join("/"), anchor.to_owned()))
}

/// A link of a page as the book has it, and the file that must be copied for it.
pub fn rewritten(
    page: &str,
    link: &str,
    pages: &BTreeSet<&str>,
    is_image: bool,
) -> (String, Option<String>) {
    let Some((path, anchor)) = resolve(page, link) else { return (link.to_owned(), None) };
    let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
    let up = up(&target(page));
    if pages.contains(path.as_str()) {
        return (format!("{up}{}{anchor}", target(&path)), None);
    }
    match is_image {
        true => (format!("{up}{path}"), Some(path)),
        false => (format!("{REPOSITORY}{path}{anchor}"), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_follow_pages() {
        let pages = BTreeSet::from(["README.md", "docs/check.md", "docs/workshop/tma.md"]);
        let link = |page, link| rewritten(page, link, &pages, false).0;
        assert_eq!(link("docs/check.md", "workshop/tma.md#a"), "../docs/workshop/tma.html#a");
        assert_eq!(link("docs/workshop/tma.md", "../../README.md"), "../../index.html");
        assert_eq!(link("README.md", "docs/check.md"), "docs/check.html");
        assert_eq!(link("docs/check.md", "../tests/ptx"), format!("{REPOSITORY}tests/ptx"));
        assert_eq!(link("docs/check.md", "https://a.b/c"), "https://a.b/c");
        assert_eq!(link("docs/check.md", "#here"), "#here");
        let (picture, copied) = rewritten("docs/check.md", "x/y.svg", &pages, true);
        assert_eq!(
            (picture.as_str(), copied.as_deref()),
            ("../docs/x/y.svg", Some("docs/x/y.svg"))
        );
    }
}
