//! docs/coverage.md: each item of the teaching texts works with evidence, or is argued, and the sums
//! of the page are those of its rows. The rules of `docs` demand that the named files, tests and
//! functions exist.

use crate::{File, Finding, demand_none, files, lines};

/// The page.
const PAGE: &str = "docs/coverage.md";
/// The heading of the reasons, as the end of a link.
const REASONS: &str = "](#not-built-and-why)";

/// An item of a text.
struct Item<'a> {
    /// The line of the page.
    line: usize,
    /// The heading of the text, such as `The book`.
    text: &'a str,
    place: &'a str,
    state: &'a str,
    /// The evidence or the reason.
    why: &'a str,
}

impl Item<'_> {
    /// Whether the row names something that the other rules look up: a link, or code in backticks.
    fn has_evidence(&self) -> bool {
        [self.place, self.why].iter().any(|cell| cell.contains('`') || cell.contains("]("))
            && self.why.contains(|c: char| c.is_ascii_alphanumeric())
    }
}

/// The rows of the tables that begin with the number of a line.
fn items(page: &File) -> Vec<Item<'_>> {
    let (mut text, mut found) = ("", Vec::new());
    for (line, row) in (1..).zip(page.text.lines()) {
        text = row.strip_prefix("## ").unwrap_or(text);
        let cells = row.strip_prefix("| ").and_then(|row| row.strip_suffix(" |"));
        let cells: Vec<&str> = cells.map_or(Vec::new(), |row| row.split(" | ").collect());
        if let [number, _, place, state, why] = cells[..]
            && number.parse::<u32>().is_ok()
        {
            found.push(Item { line, text, place, state, why });
        }
    }
    found
}

/// The names of links to the reasons that no reason begins with.
fn without_a_reason<'a>(page: &File, why: &'a str) -> Option<&'a str> {
    let name = why.split(REASONS).next()?.rsplit_once('[')?.1;
    let begins = |line: &str| {
        let reason = line.strip_prefix("- **").unwrap_or_default();
        reason.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    (why.contains(REASONS) && !page.text.lines().any(begins)).then_some(name)
}

/// Rows without evidence or reason, and rows in another state.
fn open(page: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for item in items(page) {
        match item.state {
            "`runs`" if item.has_evidence() => {}
            "`runs`" => findings.push(page.finding(item.line, "it runs without evidence")),
            "`argued`" if item.why.split(' ').count() > 1 => {}
            "`argued`" => findings.push(page.finding(item.line, "no reason stands here")),
            other => findings.push(page.finding(item.line, format!("{other} is no state"))),
        }
        if let Some(name) = without_a_reason(page, item.why) {
            findings.push(page.finding(item.line, format!("no reason begins with {name}")));
        }
    }
    findings
}

/// Sums of the first table that differ from the rows.
fn wrong_sums(page: &File) -> Vec<Finding> {
    let items = items(page);
    let mut findings = Vec::new();
    for (line, row) in (1..).zip(page.text.lines()) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, rest @ ..] = &cells[..] else { continue };
        let Ok(sums) = rest.iter().map(|cell| cell.parse()).collect::<Result<Vec<usize>, _>>()
        else {
            continue;
        };
        let name = name.trim_start_matches('[').split(']').next().unwrap_or_default();
        let of = |state: &str| {
            let is_here = |item: &&Item<'_>| name == "all" || item.text.eq_ignore_ascii_case(name);
            items.iter().filter(is_here).filter(|item| item.state.contains(state)).count()
        };
        let counted = [of("runs"), of("argued"), of("")];
        if sums.len() == counted.len() && sums != counted {
            findings.push(page.finding(line, format!("the rows are {counted:?}")));
        }
    }
    findings
}

#[test]
fn every_item_of_the_texts_works_with_evidence_or_is_argued() {
    let all = files();
    let page = all.iter().find(|file| file.path == PAGE).expect("the page is there");
    assert!(items(page).len() > 200, "the page has its tables");
    demand_none("items without evidence or reason", &open(page));
    demand_none("sums of the items", &wrong_sums(page));
}

#[test]
fn an_item_without_evidence_and_a_wrong_sum_are_found() {
    let page = File::new(
        PAGE,
        "| text | runs | argued | all |\n|---|---|---|---|\n| [the book](#the-book) | 2 | 2 | 6 |\n\
         | all | 2 | 1 | 6 |\n\n## Not built\n\n- **A reason.** It is long.\n\n## The book\n\n\
         | line | item | where | state | evidence |\n\
         | 1 | one | `x` | `runs` | [y](z.md) |\n| 2 | two | - | `runs` | words |\n\
         | 3 | three | `x` | `part` | `y` |\n| 4 | four | - | `open` | `y` |\n\
         | 5 | five | - | `argued` | see [a reason](#not-built-and-why) |\n\
         | 6 | six | - | `argued` | see [another](#not-built-and-why) |\n",
    );
    assert_eq!(lines(&open(&page)), [14, 15, 16, 18]);
    assert_eq!(lines(&wrong_sums(&page)), [4]);
}
