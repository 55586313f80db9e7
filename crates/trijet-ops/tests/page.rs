//! The page of the operations, `docs/operations.md`, has the table of the operations.
//! `TRIJET_OPERATIONS=write` writes the table.

use std::fmt::Write;
use trijet_ops::OPERATIONS;

const BEGIN: &str = "<!-- The table is written by crates/trijet-ops/tests/page.rs. -->\n";

#[test]
fn the_page_has_every_operation_with_its_parameters() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut table =
        String::from("| operation | parameters with a default | result |\n|---|---|---|\n");
    for one in &OPERATIONS {
        let defaults: Vec<String> = one
            .parameters
            .iter()
            .filter_map(|parameter| Some((parameter.name.to_uppercase(), parameter.default?)))
            .filter(|(_, default)| !default.is_empty())
            .map(|(name, default)| format!("{name} {default}"))
            .collect();
        let (form, help) = (one.form(), one.help);
        writeln!(table, "| `{form}` | {} | {help}. |", defaults.join(", ")).unwrap();
    }
    let (before, after) = page.split_once(BEGIN).expect("the page has the place of the table");
    let rest = after.split_once("\n\n").map_or("", |(_, rest)| rest);
    let expected = format!("{before}{BEGIN}{table}\n{rest}");
    if std::env::var_os("TRIJET_OPERATIONS").is_some_and(|word| word == "write") {
        std::fs::write(path, &expected).unwrap();
    }
    let now = std::fs::read_to_string(path).unwrap();
    assert!(now == expected, "TRIJET_OPERATIONS=write cargo test -p trijet-ops --test page");
}
