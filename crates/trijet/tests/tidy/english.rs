//! Comments and documents are understood at the first reading: no phrase sends a reader back, and
//! no comment is too long for a line.

use crate::source::mask;
use crate::{File, Finding, demand_none, files, lines};

/// The maximum number of characters of a line with a comment.
const COLUMNS: usize = 100;

/// The ends of sentences, after which another one starts.
const ENDS: [&str; 5] = [". ", ": ", "* ", "- ", "| "];

/// Words that start no sentence but a question, each with a hint what to write in its place.
const OPENINGS: &[(&str, &str)] = &[
    ("How many ", "name the number"),
    ("How much ", "name the amount"),
    ("Says ", "name what it does: sets, returns, tells"),
    ("The most ", "write `maximum number of`"),
    ("What ", "name the thing"),
];

/// Words that no sentence has, each with a hint what to write in its place.
const PHRASES: &[(&str, &str)] = &[
    (", too.", "leave it out, or write `also` before the verb"),
    (", too,", "leave it out, or write `also` before the verb"),
    (" after whose ", "make two sentences"),
    (" behind ", "write `after`, or name the place"),
    (" its begin", "write `its start`"),
    (" of which ", "make two sentences"),
    (" says ", "write what it does: states, returns, tells"),
    (" so many bytes", "write `that many`, or name the number"),
    (" that of the ", "repeat the noun"),
    (" those of ", "repeat the noun"),
    (" whose users ", "make two sentences"),
];

/// Words after which ` of which ` is plain: "each of which".
const PLAIN_BEFORE: [&str; 4] = ["all", "each", "none", "one"];

/// Whether a file is a source of a crate, or a document outside of the crates.
fn is_judged(file: &File) -> bool {
    let of_crate = file.path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    match of_crate {
        Some((_, below)) => file.is_rust() && below.starts_with("src/"),
        None => is_document(file),
    }
}

/// Whether a file is a document, in Markdown.
fn is_document(file: &File) -> bool {
    file.path.ends_with(".md")
}

/// The words of a line that has a comment and no code.
fn comment<'a>(line: &'a str, code: &str) -> Option<&'a str> {
    let text = line.trim_start().strip_prefix("//")?;
    code.trim().is_empty().then(|| text.trim_start_matches(['/', '!']).trim())
}

/// The words of the paragraphs of a document, with the numbers of their lines. Blocks of code are
/// left out. A heading, which may begin with any word, an item of a list and a row of a table are paragraphs of their own.
fn paragraphs_of_document(file: &File) -> Vec<Vec<(usize, &str)>> {
    let (mut found, mut open, mut is_code) = (Vec::new(), Vec::new(), false);
    for (line, number) in file.text.lines().zip(1..) {
        let words = line.trim_start_matches(['-', '|', '*', '>', ' ']);
        let is_fence = words.starts_with("```");
        is_code ^= is_fence;
        let is_item =
            ["- ", "* ", "|", "#", ">"].iter().any(|mark| line.trim_start().starts_with(mark));
        if words.is_empty() || is_item || is_fence {
            found.push(std::mem::take(&mut open));
        }
        if !words.is_empty() && !is_code && !is_fence && !line.starts_with("    ") {
            open.push((number, words));
        }
    }
    found.push(open);
    found
}

/// The words of the comments that follow each other, with the numbers of their lines. Examples are
/// left out.
fn paragraphs_of_comments(file: &File) -> Vec<Vec<(usize, &str)>> {
    let (mut found, mut open, mut is_example) = (Vec::new(), Vec::new(), false);
    let code = mask(&file.text);
    for ((line, code), number) in file.text.lines().zip(code.lines()).zip(1..) {
        let words = comment(line, code);
        let is_fence = words.is_some_and(|words| words.starts_with("```"));
        is_example = words.is_some() && is_example != is_fence;
        match words {
            Some(words) if !words.is_empty() && !is_example && !is_fence => {
                open.push((number, words));
            }
            _ => found.push(std::mem::take(&mut open)),
        }
    }
    found.push(open);
    found
}

/// The line that has the offset `at` of the text of a paragraph.
fn line_at(paragraph: &[(usize, &str)], at: usize) -> usize {
    let mut end = 0;
    let is_before = |(_, words): &&(usize, &str)| {
        end += words.len() + 1;
        end <= at
    };
    let before = paragraph.iter().take_while(is_before).count();
    paragraph[before.min(paragraph.len() - 1)].0
}

/// The text with its code spans blanked, at the same offsets.
fn without_code(text: &str) -> String {
    let mut is_code = false;
    let mut blank = |c: char| {
        is_code ^= c == '`';
        if is_code && c.is_ascii() { '`' } else { c }
    };
    text.chars().map(&mut blank).collect()
}

/// Whether the sentence at the start of a text is a question.
fn is_question(text: &str) -> bool {
    let end = text.find(['.', '?', '|', ';']);
    end.is_some_and(|end| text[end..].starts_with('?'))
}

/// The phrases of a paragraph. They may start in one line and end in the next one.
fn phrases(file: &File, paragraph: &[(usize, &str)]) -> Vec<Finding> {
    let words: Vec<&str> = paragraph.iter().map(|(_, words)| *words).collect();
    let text = without_code(&words.join(" "));
    let mut findings = Vec::new();
    for (phrase, instead) in OPENINGS {
        for (at, _) in text.match_indices(phrase) {
            let before = &text[..at];
            let is_first = before.is_empty() || ENDS.iter().any(|end| before.ends_with(end));
            if is_first && !is_question(&text[at..]) {
                let message = format!("a sentence begins with `{phrase}`: {instead}");
                findings.push(file.finding(line_at(paragraph, at), message));
            }
        }
    }
    for (phrase, instead) in PHRASES {
        for (at, _) in text.match_indices(phrase) {
            let before = text[..at].rsplit(' ').next();
            if *phrase == " of which " && before.is_some_and(|word| PLAIN_BEFORE.contains(&word)) {
                continue;
            }
            let message = format!("`{}`: {instead}", phrase.trim());
            findings.push(file.finding(line_at(paragraph, at + 1), message));
        }
    }
    findings
}

/// Sentences of a file that a reader must read twice, and comments that are too long for a line.
fn unclear(file: &File) -> Vec<Finding> {
    if is_document(file) {
        let all = paragraphs_of_document(file);
        return in_order(all.iter().flat_map(|paragraph| phrases(file, paragraph)).collect());
    }
    let all = paragraphs_of_comments(file);
    let mut findings: Vec<Finding> =
        all.iter().flat_map(|paragraph| phrases(file, paragraph)).collect();
    let code = mask(&file.text);
    for ((line, code), number) in file.text.lines().zip(code.lines()).zip(1..) {
        let length = line.chars().count();
        if length > COLUMNS && comment(line, code).is_some() {
            let message = format!("a comment of {length} columns: {COLUMNS} are the limit");
            findings.push(file.finding(number, message));
        }
    }
    in_order(findings)
}

/// The findings of a file, by their lines.
fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| finding.line);
    findings
}

#[test]
fn no_sentence_must_be_read_twice() {
    let files = files();
    let judged: Vec<&File> = files.iter().filter(|file| is_judged(file)).collect();
    assert!(judged.len() > 500, "{} files are judged", judged.len());
    let findings: Vec<Finding> = judged.into_iter().flat_map(unclear).collect();
    demand_none("sentences are understood at the first reading", &findings);
}

/// The lines of a source file with findings.
fn judged(text: &str) -> Vec<usize> {
    lines(&unclear(&File::new("crates/a/src/lib.rs", text)))
}

#[test]
fn phrases_of_comments_are_found_and_their_words_elsewhere_are_not() {
    assert_eq!(judged("/// What a worker counted.\nstruct A;\n"), [1]);
    assert_eq!(judged("// It waits. What is left\n// goes on.\n"), [1]);
    assert_eq!(
        judged("/// The most bytes.\n//! Says so.\n    // How many there are.\n"),
        [1, 2, 3]
    );
    assert_eq!(judged("/// A.\n///\n/// Says so.\n"), [3]);
    assert_eq!(judged("// The order is that of\n// the streams, and those of both.\n"), [1, 2]);
    assert_eq!(
        judged("// Its task, of\n// which the end\n// and its begin, whose users wait.\n"),
        [1, 3, 3]
    );
    let good = "/// Copies what is there, each of which is at most so long, or what else.\n\
                let a = \"// What \"; // What follows code is short.\n\
                let b = \"\n// What \";\n/// ```\n/// // What is in examples.\n/// ```\n";
    assert_eq!(judged(good), [0; 0]);
}

#[test]
fn phrases_of_documents_are_found_and_code_is_not() {
    let judged = |text: &str| lines(&unclear(&File::new("docs/a.md", text)));
    assert_eq!(judged("# What a worker is\n\nIt waits. What is left\ngoes on.\n"), [3]);
    assert_eq!(judged("| a |\n|---|\n| The message says it | What it is |\n"), [3, 3]);
    assert_eq!(judged("- It waits behind\n  it, too.\n> A page says so.\n"), [1, 2, 3]);
    assert_eq!(judged("# What is it?\n| What waits for `a.b`, and why? | it |\n"), [0; 0]);
    let good = "Copy `what says it`.\n\n```\nWhat says it, too.\n```\n\n    What says it\n";
    assert_eq!(judged(good), [0; 0]);
    let is_judged = |path: &str| is_judged(&File::new(path, ""));
    assert!(["README.md", "docs/design/a.md", "crates/a/src/b/c.rs"].into_iter().all(is_judged));
    assert!(
        !["crates/a/README.md", "crates/a/tests/b.rs", "xtask/src/a.rs"].into_iter().any(is_judged)
    );
}

#[test]
fn long_comments_are_found_and_long_code_is_not() {
    let long = "a".repeat(COLUMNS);
    assert_eq!(judged(&format!("/// {long}\n//! ```\n//! {long}\nlet {long} = 1;\n")), [1, 3]);
    assert_eq!(judged(&format!("/// {}\n", &long[4..])), [0; 0]);
}
