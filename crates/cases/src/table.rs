//! Reading `crates/cases/cases.toml`.
//!
//! Each `[[case]]` is one case, or, with an `each` table of lists, the product of those lists:
//! `each = { dim = [64, 128], queries = [1, 4] }` gives four cases, and `{dim}` and `{queries}` in
//! the name are replaced.

use crate::Case;
use crate::case::{CASE_FIELDS, KEYS_FIELDS};
use std::collections::BTreeSet;
use std::fmt;
use toml::{Table, Value};

/// A table that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct TableError(String);

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TableError {}

/// The project's table of cases.
pub fn table() -> Vec<Case> {
    parse(include_str!("../cases.toml")).expect("the project's own table is readable")
}

/// Reads a table of cases.
///
/// # Errors
/// If the text is not TOML, a field is unknown or has the wrong type, or two names are equal.
pub fn parse(text: &str) -> Result<Vec<Case>, TableError> {
    let table: Table = text.parse().map_err(|e| TableError(format!("cases: {e}")))?;
    let rows = match table.get("case") {
        Some(Value::Array(rows)) => rows.as_slice(),
        _ => return Err(TableError("cases: there must be at least one [[case]]".into())),
    };
    let mut cases = Vec::new();
    for row in rows {
        let Value::Table(row) = row else {
            return Err(TableError("cases: each case must be a table".into()));
        };
        for expanded in expand(row.clone())? {
            cases.push(read(expanded)?);
        }
    }
    unique_names(&cases)?;
    Ok(cases)
}

fn unique_names(cases: &[Case]) -> Result<(), TableError> {
    let mut names = BTreeSet::new();
    match cases.iter().find(|case| !names.insert(&case.name)) {
        Some(case) => Err(TableError(format!("cases: `{}` is there twice", case.name))),
        None => Ok(()),
    }
}

fn read(row: Table) -> Result<Case, TableError> {
    let name = row.get("name").and_then(Value::as_str).unwrap_or("without a name").to_string();
    let known = |key: &str| CASE_FIELDS.contains(&key) || KEYS_FIELDS.contains(&key);
    let second = row.get("second").and_then(Value::as_table).into_iter().flat_map(Table::keys);
    let mut keys = row.keys().filter(|k| !known(k));
    let mut second = second.filter(|k| !KEYS_FIELDS.contains(&k.as_str()));
    if let Some(key) = keys.next().or(second.next()) {
        return Err(TableError(format!("case {name}: unknown field `{key}`")));
    }
    Value::Table(row).try_into().map_err(|e| TableError(format!("case {name}: {e}")))
}

fn expand(mut row: Table) -> Result<Vec<Table>, TableError> {
    let Some(each) = row.remove("each") else { return Ok(vec![row]) };
    let Value::Table(each) = each else {
        return Err(TableError("cases: `each` must be a table of lists".into()));
    };
    let mut rows = vec![row];
    for (key, values) in &each {
        let Value::Array(values) = values else {
            return Err(TableError(format!("cases: each.{key} must be a list")));
        };
        rows =
            rows.iter().flat_map(|row| values.iter().map(|value| with(row, key, value))).collect();
    }
    Ok(rows)
}

fn with(row: &Table, key: &str, value: &Value) -> Table {
    let mut row = row.clone();
    row.insert(key.to_string(), value.clone());
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_string);
    if let Some(Value::String(name)) = row.get_mut("name") {
        *name = name.replace(&format!("{{{key}}}"), &shown);
    }
    row
}

/// Whether `name` matches `glob`, in which `*` stands for any characters.
pub fn matches_glob(glob: &str, name: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gives_the_product_of_its_lists() {
        let text = r#"
            [[case]]
            name = "a-d{dim}-t{queries}"
            keys = 8
            each = { dim = [16, 32], queries = [1, 3] }
        "#;
        let cases = parse(text).unwrap();
        let names: Vec<&str> = cases.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["a-d16-t1", "a-d16-t3", "a-d32-t1", "a-d32-t3"]);
        assert_eq!(cases[2].dim, 32);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(error(""), "cases: there must be at least one [[case]]");
        let row = "[[case]]\nname = \"a\"\ndim = 8\nqueries = 1\nkeys = 1\n";
        assert_eq!(error(&format!("{row}{row}")), "cases: `a` is there twice");
        assert_eq!(error(&format!("{row}key = 3\n")), "case a: unknown field `key`");
        assert!(error("[[case]]\nname = \"a\"\ndim = 8\nqueries = 1\n").contains("keys"));
    }

    #[test]
    fn printed_cases_read_back() {
        for case in table() {
            let row = format!("[[case]]\n{case}");
            let row = row.replace("\n[second]", "\n[case.second]");
            let read = parse(&row).unwrap_or_else(|e| panic!("{e}\n{row}"));
            assert_eq!(read[0], Case { seed: Some(case.seed()), ..case });
        }
    }

    #[test]
    fn problems_of_the_table_survive_being_written_and_read() {
        for case in table() {
            let problem = case.problem().expect("a valid case");
            let text = toml::to_string(&problem).expect("text");
            assert_eq!(toml::from_str(&text), Ok(problem), "{}\n{text}", case.name);
        }
    }

    #[test]
    fn globs() {
        assert!(matches_glob("mqa-*", "mqa-d64"));
        assert!(matches_glob("*-t1-*", "mqa-t1-s3") && matches_glob("*", ""));
        assert!(matches_glob("a", "a") && !matches_glob("a", "ab") && !matches_glob("a*b", "ac"));
        assert!(matches_glob("a*b*b", "abb") && !matches_glob("ab*b", "ab"));
    }
}
