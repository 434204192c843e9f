//! One page per finding, in one file: no scripts, no fonts, nothing fetched.

mod hang;
mod picture;

use crate::finding::{Finding, Kind};
use crate::place::Place;
use crate::sarif::rule_summary;
use crate::summary::Checked;
use crate::timeline::Timeline;
use picture::{Mark, Window, draw, last_steps};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
/// Lines of PTX shown before and behind a place.
const AROUND: u32 = 3;
/// Steps of each warp that the closer picture and the table show.
const STEPS: usize = 10;

impl Checked {
    /// A page about one of the findings; `ptx` is the text of the module, for excerpts.
    pub fn to_html(&self, finding: &Finding, ptx: Option<&str>) -> String {
        let mut body = header(self, finding);
        let places = Places { finding, ptx };
        body += &match (&finding.hang, finding.kind) {
            (Some(hang), _) => places.hang(hang),
            (None, Kind::Hazard) => places.hazard(),
            (None, _) => places.plain(),
        };
        body += &remedy(finding);
        if let Some(timeline) = &finding.timeline {
            body += &timeline_section(finding, timeline);
        }
        body += &replay(self, finding);
        let title = escaped(&format!("{}: {}", finding.name(), self.title()));
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
        )
    }
}

/// Text that stands in HTML.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

fn header(checked: &Checked, finding: &Finding) -> String {
    let mut facts = vec![escaped(&checked.title())];
    if let Some(schedule) = finding.schedule {
        let n = checked.schedules.len();
        facts.push(format!("found by schedule <code>{schedule}</code>, the first of {n} to fail"));
        if n == 1 {
            facts.pop();
            facts.push(format!("found by schedule <code>{schedule}</code>"));
        }
    }
    let facts: String = facts.iter().map(|fact| format!("<li>{fact}</li>")).collect();
    format!(
        "<header>\n<span class=\"rule\">{}</span>\n<h1>{}</h1>\n<p class=\"pale\">The rule: {}.</p>\n\
         <ul class=\"facts pale\">{facts}</ul>\n</header>\n",
        escaped(&finding.name()),
        escaped(&finding.message),
        escaped(&rule_summary(&finding.rule)),
    )
}

/// The places of a finding, and the text that they are in.
struct Places<'p> {
    finding: &'p Finding,
    ptx: Option<&'p str>,
}

impl Places<'_> {
    /// The two accesses, and what is missing between them.
    fn hazard(&self) -> String {
        let places = &self.finding.places;
        let (Some(later), Some(earlier)) = (places.first(), places.get(1)) else {
            return self.plain();
        };
        let arrow = "<svg viewBox=\"0 0 120 34\"><line x1=\"4\" y1=\"17\" x2=\"104\" y2=\"17\" stroke=\"#b91c1c\" \
                     stroke-width=\"2\" stroke-dasharray=\"6 5\"/><path d=\"M104 11 L116 17 L104 23\" fill=\"none\" \
                     stroke=\"#b91c1c\" stroke-width=\"2\"/></svg>";
        format!(
            "<section id=\"accesses\">\n<h2>The two accesses</h2>\n<div class=\"pair\">\n{}\
             <div class=\"gap\" id=\"missing-order\">{arrow}nothing puts these in order</div>\n{}</div>\n</section>\n",
            self.card("First in this run", earlier),
            self.card("Then", later),
        )
    }

    fn plain(&self) -> String {
        let cards: String = self.finding.places.iter().map(|place| self.card("", place)).collect();
        match cards.is_empty() {
            true => String::new(),
            false => format!(
                "<section id=\"places\">\n<h2>Where</h2>\n<div class=\"pair\">\n{cards}</div>\n</section>\n"
            ),
        }
    }

    fn card(&self, title: &str, place: &Place) -> String {
        let role = escaped(&place.role);
        let title = match (title, place.role.as_str()) {
            ("", role) => escaped(role),
            (title, "") => title.to_owned(),
            (title, _) => format!("{title}: {role}"),
        };
        let mut html = String::from("<div class=\"card\">\n");
        if !title.is_empty() {
            html += &format!("<h3>{title}</h3>\n");
        }
        html += &format!("<div class=\"pale\">{}</div>\n", whereabouts(place));
        html += &source(place);
        html += &self.ptx_excerpt(place);
        html + "</div>\n"
    }

    /// The PTX around a place, its own line marked; the instruction alone where the text is not at hand.
    fn ptx_excerpt(&self, place: &Place) -> String {
        let line = place.ptx_line;
        let Some(ptx) = self.ptx.filter(|_| line > 0) else {
            return format!(
                "<pre><span class=\"here\">{}</span></pre>\n",
                escaped(&place.instruction)
            );
        };
        let first = line.saturating_sub(AROUND).max(1);
        let mut html = String::from("<pre>");
        let lines = ptx.lines().skip(first as usize - 1);
        for (number, text) in (first..=line + AROUND).zip(lines) {
            let text = format!("{number:>5}  {}", escaped(&shortened(text)));
            match number == line {
                true => html += &format!("<span class=\"here\">{text}</span>"),
                false => html += &format!("{text}\n"),
            }
        }
        html + "</pre>\n"
    }
}

/// A line that nobody reads to its end, cut.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn whereabouts(place: &Place) -> String {
    let mut parts = Vec::new();
    parts.extend(place.thread.map(|thread| thread.to_string()));
    parts.extend(place.cycle.map(|cycle| format!("cycle {cycle}")));
    if place.ptx_line > 0 {
        parts.push(format!("PTX line {}", place.ptx_line));
    }
    escaped(&parts.join(", "))
}

/// The user's own line.
fn source(place: &Place) -> String {
    let Some(source) = &place.source else { return String::new() };
    let name = format!("{}:{}", source.file, source.line);
    let Some(text) = &source.text else {
        return format!("<p><code>{}</code></p>\n", escaped(&name));
    };
    let text = format!("{:>5}  {}", source.line, shortened(text));
    let line = format!("<span class=\"here\">{}</span>", escaped(&text));
    format!("<p><code>{}</code></p>\n<pre class=\"source\">{line}</pre>\n", escaped(&name))
}

fn remedy(finding: &Finding) -> String {
    if finding.remedies.is_empty() {
        return String::new();
    }
    let lines = finding.remedies.iter().map(|remedy| format!("<p>{}</p>\n", escaped(remedy)));
    format!(
        "<section id=\"remedy\">\n<h2>Remedy</h2>\n<div class=\"remedy\">\n{}</div>\n</section>\n",
        lines.collect::<String>()
    )
}

fn timeline_section(finding: &Finding, timeline: &Timeline) -> String {
    let marks = marks(finding);
    let mut html =
        String::from("<section id=\"timeline\">\n<h2>Timeline of the warps involved</h2>\n");
    if let Some(window) = last_steps(timeline, STEPS) {
        html += "<p class=\"pale\">The end of the run:</p>\n";
        html += &draw(timeline, window, &marks);
        html += "<p class=\"pale\">The whole run:</p>\n";
    }
    html += &draw(timeline, Window { start: 0, end: timeline.end }, &marks);
    html += &legend(timeline);
    html += &last_instructions(timeline);
    html + "</section>\n"
}

/// The places of a finding on the rows of its warps.
fn marks(finding: &Finding) -> Vec<Mark> {
    let label = |index: usize| match (finding.hang.is_some(), index) {
        (true, _) => "waits for ever",
        (false, 0) if finding.places.len() > 1 => "then this",
        (false, 0) => "here",
        (false, _) => "first this",
    };
    let mark = |(index, place): (usize, &Place)| {
        let thread = place.thread.map(|thread| crate::Thread { lane: None, ..thread })?;
        Some(Mark { row: thread.to_string(), cycle: place.cycle?, label: label(index).into() })
    };
    finding.places.iter().enumerate().filter_map(mark).collect()
}

fn legend(timeline: &Timeline) -> String {
    let mut names: Vec<&str> =
        timeline.rows.iter().flat_map(|row| row.spans.iter().map(|s| s.name.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let entry = |name: &&str| {
        format!(
            "<span><i style=\"background:{}\"></i>{}</span>",
            picture::fill(name),
            escaped(name)
        )
    };
    let entries: String = names.iter().map(entry).collect();
    let others = match timeline.unlisted {
        0 => String::new(),
        n => format!(" Other warps of these CTAs that are not drawn: {n}."),
    };
    format!(
        "<p class=\"legend\">{entries}</p>\n<p class=\"pale\">Cycles are those of the simulator's cost model: they \
         show which warp waits for which, not how long a GPU takes. Each warp has a clock of its own, so that \
         the clocks of two warps that nothing puts in order may disagree with the order of this run. Dots are instructions (point at one to read \
         it).{others}</p>\n"
    )
}

/// The last instructions of every warp that is drawn.
fn last_instructions(timeline: &Timeline) -> String {
    let mut html = String::new();
    for row in timeline.rows.iter().filter(|row| !row.steps.is_empty()) {
        let _infallible = write!(
            html,
            "<details open>\n<summary>The last instructions of {}</summary>\n<table>\n\
             <tr><th>cycle</th><th>PTX line</th><th>instruction</th></tr>\n",
            escaped(&row.name)
        );
        for step in row.steps.iter().skip(row.steps.len().saturating_sub(STEPS)) {
            let _infallible = writeln!(
                html,
                "<tr><td class=\"number\">{}</td><td class=\"number\">{}</td><td><code>{}</code></td></tr>",
                step.cycle,
                step.ptx_line,
                escaped(&shortened(&step.instruction))
            );
        }
        html += "</table>\n</details>\n";
    }
    html
}

fn replay(checked: &Checked, finding: &Finding) -> String {
    let Some(schedule) = finding.schedule else { return String::new() };
    let command = escaped(&checked.replay(&schedule.to_string()));
    format!(
        "<section id=\"replay\">\n<h2>Run it again</h2>\n<pre class=\"command\">{command}</pre>\n</section>\n"
    )
}
