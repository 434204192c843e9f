//! One page: Markdown becomes HTML, headings get anchors, links are followed.

use super::links::{rewritten, target};
use super::search::Section;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::{BTreeSet, HashMap};

/// A page as HTML.
pub struct Page {
    /// What stands in it.
    pub body: String,
    /// Its sections, for the search.
    pub sections: Vec<Section>,
    /// Files that it shows.
    pub assets: BTreeSet<String>,
}

impl Page {
    /// Renders the page at a place of the repository.
    pub fn render(path: &str, text: &str, pages: &BTreeSet<&str>) -> Page {
        let events: Vec<Event> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
        let mut page = Page { body: String::new(), sections: Vec::new(), assets: BTreeSet::new() };
        let mut slugs = Slugs::default();
        let mut written = Vec::with_capacity(events.len());
        for (number, event) in events.iter().enumerate() {
            if let Event::Start(Tag::Heading { .. }) = event {
                let title = heading_text(&events[number + 1..]);
                let anchor = slugs.of(&title);
                page.sections.push(Section {
                    page: target(path),
                    anchor,
                    title,
                    text: String::new(),
                });
            } else if let (Some(text), Some(section)) = (text_of(event), page.sections.last_mut()) {
                section.text += text;
                section.text.push(' ');
            }
            written.push(page.adapted(event.clone(), path, pages));
        }
        html::push_html(&mut page.body, written.into_iter());
        page.body = page
            .body
            .replace("<table>", "<div class=\"table\"><table>")
            .replace("</table>", "</table></div>");
        page
    }

    /// An event with the anchor of its heading, or with its link as the book has it.
    fn adapted<'e>(&mut self, event: Event<'e>, path: &str, pages: &BTreeSet<&str>) -> Event<'e> {
        let mut follow = |link: &str, is_image: bool| {
            let (link, copied) = rewritten(path, link, pages, is_image);
            self.assets.extend(copied);
            CowStr::from(link)
        };
        match event {
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                Event::Start(Tag::Link { link_type, dest_url: follow(&dest_url, false), title, id })
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                Event::Start(Tag::Image { link_type, dest_url: follow(&dest_url, true), title, id })
            }
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = self.sections.last().map(|section| CowStr::from(section.anchor.clone()));
                Event::Start(Tag::Heading { level, id, classes, attrs })
            }
            other => other,
        }
    }
}

fn text_of<'e>(event: &'e Event) -> Option<&'e str> {
    match event {
        Event::Text(text) | Event::Code(text) => Some(text),
        _ => None,
    }
}

fn heading_text(events: &[Event]) -> String {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    inside.filter_map(text_of).collect()
}

/// Anchors of a page, as code hosts make them: a second heading of the same words gets a number.
#[derive(Default)]
struct Slugs(HashMap<String, usize>);

impl Slugs {
    fn of(&mut self, title: &str) -> String {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String =
            kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase();
        let count = self.0.entry(slug.clone()).or_default();
        *count += 1;
        if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
    }
}

/// Text in HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_anchors_and_links_lead_to_pages() {
        let pages = BTreeSet::from(["docs/a.md", "docs/b.md"]);
        let text = "# A `k`, and\n[b](b.md#x) ![p](p.svg)\n\n## Same\none\n## Same\n| t |\n|---|\n| two |\n";
        let page = Page::render("docs/a.md", text, &pages);
        assert!(page.body.contains("<h1 id=\"a-k-and\">"), "{}", page.body);
        assert!(page.body.contains("href=\"../docs/b.html#x\""), "{}", page.body);
        assert!(
            page.body.contains("id=\"same-1\"") && page.body.contains("<table>"),
            "{}",
            page.body
        );
        assert_eq!(page.assets, BTreeSet::from(["docs/p.svg".to_owned()]));
        let found: Vec<(&str, &str)> =
            page.sections.iter().map(|s| (s.anchor.as_str(), s.text.trim())).collect();
        assert_eq!(found[1..], [("same", "Same one"), ("same-1", "Same t two")]);
    }
}
