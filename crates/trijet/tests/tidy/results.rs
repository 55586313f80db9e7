//! Rules about the results of benchmarks: texts cite files that exist, every file is cited, and all
//! files name their origin.

use crate::{File, Finding, demand_none, files, lines};

/// The folder of the results, from the root of the repository.
const RESULTS: &str = "crates/trijet-bench/results/";

/// The first columns of each table, and the first facts in the head of each text.
const FACTS: [&str; 5] = ["device", "driver", "host", "date", "commit"];

/// The files under `results/` that a text names, with their lines, from the root of the repository.
fn cited(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (n, line) in file.text.lines().enumerate() {
        for (at, _) in line.match_indices("results/") {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            let path = line[at..].split(|c| !is_part(c)).next().unwrap_or_default();
            let path = path.trim_end_matches('.');
            if path.ends_with(".csv") || path.ends_with(".txt") {
                let below = path.trim_start_matches("results/");
                found.push((n + 1, format!("{RESULTS}{below}")));
            }
        }
    }
    found
}

/// Files that are cited and do not exist, and files that exist and are not cited.
fn uncited_or_missing(all: &[File]) -> Vec<Finding> {
    let (results, texts): (Vec<_>, Vec<_>) =
        all.iter().partition(|file| file.path.starts_with(RESULTS));
    let (mut findings, mut named) = (Vec::new(), Vec::new());
    for text in texts.iter().filter(|file| !file.path.starts_with("crates/trijet/tests/tidy/")) {
        for (line, path) in cited(text) {
            if !results.iter().any(|file| file.path == path) {
                findings.push(text.finding(line, format!("there is no `{path}`")));
            }
            named.push(path);
        }
    }
    let uncited = results.iter().filter(|file| !named.contains(&file.path));
    findings.extend(uncited.map(|file| file.finding(1, "no text cites these results")));
    findings
}

/// The cells of a row; quotes may hold commas.
fn cells(row: &str) -> Vec<String> {
    let (mut cells, mut inside) = (vec![String::new()], false);
    for c in row.chars() {
        match c {
            '"' => inside = !inside,
            ',' if !inside => cells.push(String::new()),
            c => cells.last_mut().expect("there is always one").push(c),
        }
    }
    cells
}

/// Rows and heads that do not name their origin.
fn without_facts(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if file.path.ends_with(".csv") {
        let columns = file.text.lines().next().map(cells).unwrap_or_default();
        if columns.len() <= FACTS.len() || columns[..FACTS.len()] != FACTS {
            findings.push(file.finding(1, format!("the first columns are not {FACTS:?}")));
        }
        for (n, row) in file.text.lines().enumerate().skip(1) {
            let row = cells(row);
            if row.len() != columns.len() || row.iter().take(FACTS.len()).any(String::is_empty) {
                findings.push(file.finding(n + 1, "a row lacks cells"));
            }
        }
        return findings;
    }
    // The first line names the benchmark.
    for (n, fact) in (2..).zip(FACTS) {
        let line = file.text.lines().nth(n - 1).unwrap_or_default();
        let value = line.strip_prefix("# ").and_then(|line| line.strip_prefix(fact));
        if value.and_then(|value| value.strip_prefix(": ")).is_none_or(str::is_empty) {
            findings.push(file.finding(n, format!("the head lacks `# {fact}: `")));
        }
    }
    findings
}

#[test]
fn texts_cite_results_that_exist_and_every_file_of_results_is_cited() {
    let all = files();
    assert!(all.iter().filter(|file| file.path.starts_with(RESULTS)).count() > 5);
    demand_none("results and the texts that cite them", &uncited_or_missing(&all));
}

#[test]
fn all_results_say_where_they_come_from() {
    let all = files();
    let results = all.iter().filter(|file| file.path.starts_with(RESULTS));
    demand_none("results", &results.flat_map(without_facts).collect::<Vec<_>>());
}

#[test]
fn a_citation_of_nothing_and_results_without_one_are_found() {
    let all = [
        File::new("README.md", "one\n[results](crates/trijet-bench/results/a/old.csv)"),
        File::new("docs/a.md", "`results/<gpu>/b.csv`, `results/a/new.csv`."),
        File::new("crates/trijet-bench/results/a/new.csv", ""),
        File::new("crates/trijet-bench/results/a/other.txt", "results/a/other.txt"),
    ];
    let findings = uncited_or_missing(&all);
    let found: Vec<_> = findings.iter().map(|found| (found.path.as_str(), found.line)).collect();
    assert_eq!(found, [("README.md", 2), ("crates/trijet-bench/results/a/other.txt", 1)]);
}

#[test]
fn a_row_and_a_head_without_the_facts_are_found() {
    let head = "device,driver,host,date,commit,what,note\n";
    let table = format!("{head}a,b,c,d,e,\"f, g\",\na,,c,d,e,f,g\na,b,c,d,e,f\n");
    assert_eq!(lines(&without_facts(&File::new("results/a.csv", &table))), [3, 4]);
    let other = File::new("results/a.csv", "what,device,driver,host,date,commit\n");
    assert_eq!(lines(&without_facts(&other)), [1]);
    let text = "# bench: x\n# device: a\n# driver: b\n# host: \n# date: d\nthe output\n";
    assert_eq!(lines(&without_facts(&File::new("results/a.txt", text))), [4, 6]);
}
