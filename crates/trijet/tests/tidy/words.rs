//! Plain English: no words that leave open what they stand for.

use crate::{File, Finding, demand_none, files, lines};

/// The words, each with a hint what to write in its place. Split, so that this file passes.
const WORDS: &[(&str, &str)] = &[
    (concat!("any", "body"), "name the thread, the caller or the user"),
    (concat!("most", "ly"), "say in which cases"),
    (concat!("no", "body"), "name the thread, the caller or the user"),
    (concat!("some", "body"), "name the thread, the caller or the user"),
    (concat!("who", "ever"), "name the thread, the caller or the user"),
];

/// The text of a line without code spans in Markdown, where the names of tests stand.
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
