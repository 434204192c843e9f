//! ARCHITECTURE.md is held against the workspace: its table of crates, and what must not depend on what.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// What each crate depends on, by the names that ARCHITECTURE.md uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// The names in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = String> + '_ {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// The table under "Crates": a row names the crate first and its dependencies last.
fn documented() -> Graph {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let section = page.split("\n## ").find(|section| section.starts_with("Crates\n"));
    let rows = section.expect("a section `Crates`").lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [name, _, dependencies] = cells[..] else { panic!("three cells: {line}") };
        (quoted(name).next().expect("a crate"), quoted(dependencies).collect())
    };
    rows.map(row).collect()
}

/// The crates of the workspace and those of them that each names in `[dependencies]`.
///
/// `cargo metadata` would say the same, but fetches the packages of every platform first.
fn actual() -> Graph {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--workspace", "--locked", "--depth", "1", "--edges", "normal"]);
    cargo.args(["--no-dedupe", "--prefix", "depth", "--format", " {p}"]).current_dir(root());
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    parse_tree(&String::from_utf8(output.stdout).expect("UTF-8"))
}

/// Reads `DEPTH PACKAGE VERSION`, and keeps the packages of the workspace.
fn parse_tree(text: &str) -> Graph {
    let mut graph = Graph::new();
    let mut current = String::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(depth), Some(package)) = (words.next(), words.next()) else { continue };
        if !package.starts_with("sixwarp") && package != "xtask" {
            continue;
        }
        let name = package.strip_prefix("sixwarp-").unwrap_or(package).to_owned();
        if depth == "0" {
            graph.insert(name.clone(), BTreeSet::new());
            current = name;
        } else if let Some(dependencies) = graph.get_mut(&current) {
            dependencies.insert(name);
        }
    }
    graph
}

/// Everything a crate depends on, also through others.
fn reached(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        open.extend(graph[name].iter().filter(|&next| found.insert(next.clone())).map(|s| &**s));
    }
    found
}

#[test]
fn the_table_of_crates_is_what_cargo_builds() {
    let (documented, actual) = (documented(), actual());
    let names = |graph: &Graph| graph.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&documented), names(&actual), "crates: ARCHITECTURE.md, then the workspace");
    for (name, dependencies) in &actual {
        assert_eq!(
            &documented[name], dependencies,
            "`{name}` depends on: ARCHITECTURE.md, then cargo"
        );
    }
}

#[test]
fn engines_know_nothing_of_attention_and_kernels_nothing_of_engines() {
    let graph = actual();
    for (who, strangers) in [
        ("sim", ["problem", "kernels"]),
        ("cuda", ["problem", "kernels"]),
        ("program", ["problem", "kernels"]),
        ("kernels", ["sim", "cuda"]),
    ] {
        let known = reached(&graph, who);
        let wrong: Vec<_> = strangers.iter().filter(|&&name| known.contains(name)).collect();
        assert!(wrong.is_empty(), "`{who}` depends on {wrong:?}, also through others: {known:?}");
    }
}

#[test]
fn dependencies_through_others_are_found() {
    let tree = "0 sixwarp-sim v1 (/sim)\n1 rayon v1\n1 sixwarp-program v1 (/program)\n\
                0 sixwarp-program v1 (/program)\n1 sixwarp-problem v1 (/problem)\n\
                0 sixwarp-problem v1 (/problem)\n";
    let found = reached(&parse_tree(tree), "sim");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["problem", "program"]);
}
