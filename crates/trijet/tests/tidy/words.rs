//! Plain English: no words without a clear reference.

use std::collections::BTreeSet;

use crate::{File, Finding, demand_none, files, lines};

const GLOSSARY: &str = "docs/glossary.md";

/// The words, each with a hint what to write in its place. Split, so that this file passes.
const WORDS: &[(&str, &str)] = &[
    (concat!("any", "body"), "name the thread, the caller or the user"),
    (concat!("most", "ly"), "say in which cases"),
    (concat!("no", "body"), "name the thread, the caller or the user"),
    (concat!("some", "body"), "name the thread, the caller or the user"),
    (concat!("who", "ever"), "name the thread, the caller or the user"),
];

/// The text of a line without code spans in Markdown, which have the names of tests.
fn prose(file: &File, line: &str) -> String {
    let is_markdown = file.path.ends_with(".md");
    line.split('`').step_by(if is_markdown { 2 } else { 1 }).collect::<Vec<_>>().join(" ")
}

fn unclear_words(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (n, line) in file.text.lines().enumerate() {
        let prose = prose(file, line).to_lowercase();
        let words: Vec<&str> = prose.split(|c: char| !c.is_ascii_alphabetic()).collect();
        for (word, instead) in WORDS.iter().filter(|(word, _)| words.contains(word)) {
            findings.push(file.finding(n + 1, format!("`{word}`: {instead}")));
        }
    }
    findings
}

#[test]
fn texts_have_no_unclear_words() {
    let all = files();
    // The output of a program is kept as it was printed.
    let written = all.iter().filter(|file| !file.path.contains("/results/"));
    let findings: Vec<Finding> = written.flat_map(unclear_words).collect();
    demand_none("no unclear words", &findings);
}

#[test]
fn an_unclear_word_is_found_in_text_and_in_names() {
    let word = WORDS[0].0;
    let bad = format!("// {word} waits\nfn {word}_waits() {{}}\nlet {word}s = 1;\n");
    assert_eq!(lines(&unclear_words(&File::new("crates/x/src/a.rs", &bad))), [1, 2]);
    let document = format!("`{word}_waits` is a test\n{}\n", word.to_uppercase());
    assert_eq!(lines(&unclear_words(&File::new("docs/a.md", &document))), [2]);
}

/// The words that a line of the glossary defines: the words in bold.
fn defined(line: &str) -> Vec<&str> {
    let Some(entry) = line.strip_prefix("- **") else { return Vec::new() };
    let parts = entry.split("**");
    // Every second part is in bold.
    parts.step_by(2).collect()
}

/// Words that a glossary defines a second time.
fn defined_twice(glossary: &File) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let lines = glossary.text.lines().zip(1..);
    let all = lines.flat_map(|(line, n)| defined(line).into_iter().map(move |word| (word, n)));
    let again = all.filter(|(word, _)| !seen.insert(word.to_lowercase()));
    again.map(|(word, n)| glossary.finding(n, format!("`{word}` has a meaning above"))).collect()
}

/// Words that once had several meanings in the sources.
const SETTLED: [&str; 6] = ["record", "place", "turn", "gate", "kept", "run"];

/// Folders whose sources have a settled word in no meaning: it had another one there. A hint tells
/// what to write in its place.
const ELSEWHERE: &[(&str, &[&str], &str)] = &[
    ("record", &["trijet/src/workers"], "the fields of a node, the state of a task"),
    ("records", &["trijet/src/workers"], "the fields of nodes, the times of tasks"),
    (
        "gate",
        &[
            "trijet-bench/src",
            "trijet-cli/src",
            "trijet-io/src",
            "trijet/src/comm",
            "trijet/src/device",
            "trijet/src/pipeline",
            "trijet/src/task",
            "trijet/src/workers",
        ],
        "a barrier, or the event that starts both",
    ),
    ("turn", &["trijet-twins/src", "trijet/src/workers/device"], "the period or the round"),
];

/// Phrases in which a settled word has another meaning than the glossary gives it, each with a hint
/// what to write in its place.
const OTHER_MEANINGS: &[(&str, &str)] = &[
    ("at each place", "at each point or position"),
    ("at every place", "at every point or position"),
    ("from one place", "from one site"),
    ("place in the heap", "position in the heap"),
    ("place in the program", "site in the program"),
    ("place of a slice", "position of a slice"),
    ("place on the command line", "position on the command line"),
    ("run of consecutive", "sequence of consecutive"),
    ("run of equal", "sequence of equal"),
    ("takes a place in", "has a position in"),
];

/// Whether a word stands in a line on its own. A call `.word(..)` is not counted.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let is_call = before.ends_with('.') && after.starts_with('(');
        !is_part(before.chars().last()) && !is_part(after.chars().next()) && !is_call
    })
}

/// Settled words of a source file that have another meaning there.
fn other_meanings(file: &File) -> Vec<Finding> {
    let Some(path) = file.path.strip_prefix("crates/") else { return Vec::new() };
    if !path.contains("/src/") || path.ends_with(".ptx") {
        return Vec::new();
    }
    let is_in =
        |folder: &&str| path.strip_prefix(*folder).is_some_and(|rest| rest.starts_with('/'));
    let mut findings = Vec::new();
    for (line, n) in file.text.lines().zip(1..) {
        for (word, folders, instead) in ELSEWHERE {
            if folders.iter().any(&is_in) && has_word(line, word) {
                findings.push(file.finding(n, format!("`{word}` has another meaning: {instead}")));
            }
        }
        for (phrase, instead) in OTHER_MEANINGS.iter().filter(|(phrase, _)| line.contains(phrase)) {
            findings.push(file.finding(n, format!("`{phrase}`: write `{instead}`")));
        }
    }
    findings
}

#[test]
fn settled_words_have_no_other_meaning_in_the_sources() {
    let findings: Vec<Finding> = files().iter().flat_map(other_meanings).collect();
    demand_none("settled words have one meaning", &findings);
}

#[test]
fn another_meaning_of_a_settled_word_is_found() {
    let judged = |path: &str, text: &str| lines(&other_meanings(&File::new(path, text)));
    let workers =
        "// The record of a node.\nlet record = 1;\nevent.record(s);\nlet recorded = 1;\n";
    assert_eq!(judged("crates/trijet/src/workers/a.rs", workers), [1, 2]);
    assert_eq!(judged("crates/trijet/src/order/a.rs", workers), [0; 0]);
    assert_eq!(judged("crates/trijet-bench/src/a.rs", "let gate = 1;\nlet gates = 1;\n"), [1]);
    let places =
        "// Its site, at each place.\nlet turn = 3;\n// A run of equal bytes in its place.\n";
    assert_eq!(judged("crates/a/src/a.rs", places), [1, 3]);
    assert_eq!(judged("crates/a/tests/a.rs", places), [0; 0]);
}

#[test]
fn the_glossary_gives_each_word_one_meaning() {
    let all = files();
    let glossary = all.iter().find(|file| file.path == GLOSSARY).expect("there is a glossary");
    demand_none("a word has one meaning", &defined_twice(glossary));
    let words: Vec<&str> = glossary.text.lines().flat_map(defined).collect();
    for word in SETTLED {
        assert!(words.contains(&word), "{GLOSSARY} defines `{word}`");
    }
}

#[test]
fn a_second_meaning_is_found() {
    let bad =
        "# Words\n- **a**: one. **B**: two.\n\n- **c**: three.\n- **b**: four.\n- **a**: five.\n";
    assert_eq!(lines(&defined_twice(&File::new(GLOSSARY, bad))), [5, 6]);
    let good = "- **a**, or *b*: one.\n- **ab**: an *a* of b.\n";
    assert_eq!(lines(&defined_twice(&File::new(GLOSSARY, good))), [0; 0]);
}
