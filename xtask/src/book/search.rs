//! The index that the search in the browser goes through.

use std::fmt::Write;

/// A heading and what stands under it.
#[derive(Clone)]
pub struct Section {
    /// The file of the page.
    pub page: String,
    /// The heading's anchor.
    pub anchor: String,
    /// The heading.
    pub title: String,
    /// The words.
    pub text: String,
}

/// All sections as a script: an array that also works where pages are opened as files.
pub fn index(sections: &[Section]) -> String {
    let mut script = String::from("const SECTIONS = [\n");
    for Section { page, anchor, title, text } in sections {
        let text: Vec<&str> = text.split_whitespace().collect();
        let fields =
            [&format!("{page}#{anchor}"), title, &text.join(" ")].map(|field| quoted(field));
        // Writing to a string does not fail.
        let _ = writeln!(script, "[{}],", fields.join(","));
    }
    script + "];\n"
}

/// A string as scripts write it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Nothing in a script may end it.
            '<' => quoted += "\\u003c",
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_leave_their_strings() {
        let section = |text: &str| Section {
            page: "p.html".into(),
            anchor: "a".into(),
            title: "T".into(),
            text: text.into(),
        };
        let script = index(&[section("x\n\"y\\ </script>")]);
        assert_eq!(
            script,
            "const SECTIONS = [\n[\"p.html#a\",\"T\",\"x \\\"y\\\\ \\u003c/script>\"],\n];\n"
        );
    }
}
