//! The tables of ARCHITECTURE.md and CONTRIBUTING.md about the way of a call through the folders.

use std::collections::BTreeMap;
use std::path::Path;

/// The title of the section with the walks.
const WALKS: &str = "## Six walks, folder by folder\n";
/// The title of the section with the traits that lead upward.
const DOORS: &str = "## Doors upward\n";
/// The head of the table of the floors.
const FLOORS: &str = "| floor | folders |\n";

/// A row of the table of the walks: a call, and its files from the outermost to the innermost.
#[derive(Debug, PartialEq)]
pub(crate) struct Row<'a> {
    pub(crate) walk: &'a str,
    pub(crate) call: &'a str,
    pub(crate) files: Vec<&'a str>,
}

/// A document of the repository.
pub(crate) fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).expect("the document can be read")
}

/// The folder of a file of the library.
pub(crate) fn folder(file: &str) -> &str {
    file.split_once('/').map_or(file, |(folder, _)| folder)
}

/// The rows of the first table after `title`, without its head.
fn rows<'a>(text: &'a str, title: &str) -> impl Iterator<Item = Vec<&'a str>> {
    let section = text.split_once(title).expect("the document has the section").1;
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).filter(|line| !line.contains("---"));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect())
}

/// The words in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The calls that ARCHITECTURE.md lists.
pub(crate) fn walks(text: &str) -> Vec<Row<'_>> {
    let rows = rows(text, WALKS).skip(1);
    rows.map(|cells| {
        let [walk, call, files] = cells[..] else { panic!("three columns: {cells:?}") };
        Row { walk, call, files: quoted(files).collect() }
    })
    .collect()
}

/// The pairs of folders between which a call may go up: the folder of a trait, and the folders that
/// implement it.
pub(crate) fn doors(text: &str) -> Vec<(&str, &str)> {
    let mut doors = Vec::new();
    for cells in rows(text, DOORS).skip(1) {
        let from = quoted(cells[0]).find(|word| word.contains('/')).expect("a door has a file");
        doors.extend(quoted(cells[1]).map(|to| (folder(from), folder(to))));
    }
    doors
}

/// The floor of each folder, from CONTRIBUTING.md.
pub(crate) fn floors(text: &str) -> BTreeMap<&str, u8> {
    let mut floors = BTreeMap::new();
    for cells in rows(text, FLOORS) {
        let floor = cells[0].parse().expect("a floor has a number");
        floors.extend(quoted(cells[1]).map(|folder| (folder, floor)));
    }
    floors
}

#[test]
fn a_table_ends_with_its_section() {
    let table = "| walk | call | files |\n|---|---|---|\n| a | one | `a/b.rs`, `c/d.rs` |\n\
                 | a | two | `a/b.rs` |\n";
    let text = format!(
        "# House\n| x | `y` |\n{WALKS}\nWords `f.rs`.\n\n{table}\n## Next\n| z | z | `z` |\n"
    );
    let row = |call, files| Row { walk: "a", call, files };
    assert_eq!(walks(&text), [row("one", vec!["a/b.rs", "c/d.rs"]), row("two", vec!["a/b.rs"])]);
}

#[test]
fn a_door_leads_from_its_trait_to_what_implements_it() {
    let text = format!("{DOORS}\n| t | i |\n|---|---|\n| `T` in `a/t.rs` | `b/i.rs`, `c/j.rs` |\n");
    assert_eq!(doors(&text), [("a", "b"), ("a", "c")]);
    let text = format!("{FLOORS}|---|---|\n| 2 | `c` |\n| 0 | `a` `b` |\n\nMore.\n");
    assert_eq!(floors(&text), BTreeMap::from([("a", 0), ("b", 0), ("c", 2)]));
}
