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

/// Files and folders that still have such words. An entry that is no longer needed is a finding.
const NOT_CLEAN: &[&str] = &[
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

/// The findings outside of the exceptions, and the exceptions without a finding.
fn outside(exceptions: &[&str], files: &[File]) -> Vec<Finding> {
    let mut needed = vec![false; exceptions.len()];
    let mut findings = Vec::new();
    for file in files {
        let found = unclear_words(file);
        match exceptions.iter().position(|exception| file.path.starts_with(exception)) {
            Some(exception) => needed[exception] |= !found.is_empty(),
            None => findings.extend(found),
        }
    }
    for (exception, _) in exceptions.iter().zip(needed).filter(|(_, needed)| !needed) {
        let here = File::new("crates/trijet/tests/tidy/words.rs", "");
        findings.push(here.finding(1, format!("`{exception}` is clean: take it from the table")));
    }
    findings
}

#[test]
fn texts_have_no_unclear_words() {
    demand_none("no unclear words", &outside(NOT_CLEAN, &files()));
}

#[test]
fn an_unclear_word_is_found_in_text_and_in_names() {
    let word = WORDS[0].0;
    let bad = format!("// {word} waits\nfn {word}_waits() {{}}\nlet {word}s = 1;\n");
    assert_eq!(lines(&unclear_words(&File::new("crates/x/src/a.rs", &bad))), [1, 2]);
    let document = format!("`{word}_waits` is a test\n{}\n", word.to_uppercase());
    assert_eq!(lines(&unclear_words(&File::new("docs/a.md", &document))), [2]);
}

#[test]
fn an_exception_holds_for_its_folder_and_while_it_is_needed() {
    let file = |path: &str| File::new(path, WORDS[0].0);
    let both = [file("crates/x/src/a.rs"), file("crates/y/src/a.rs")];
    let paths = |exceptions: &[&str]| -> Vec<String> {
        outside(exceptions, &both).into_iter().map(|finding| finding.path).collect()
    };
    assert_eq!(paths(&["crates/x/"]), ["crates/y/src/a.rs"]);
    assert_eq!(paths(&["crates/x/", "crates/y/"]), [""; 0]);
    assert_eq!(paths(&["crates/x/", "crates/y/", "crates/z/"]).len(), 1);
}
