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
