//! Comments are understood at the first reading: phrases that send a reader back only become fewer.
//!
//! The table `english.txt` has the number of such phrases, and of comment lines that are too long,
//! for each folder of the sources. A folder may have neither more nor fewer than its line, so each
//! number falls with the comments that are rewritten. A folder without a line may have none.

use std::collections::BTreeMap;

use crate::source::mask;
use crate::{File, Finding, demand_none, files, lines};

const TABLE: &str = "crates/trijet/tests/tidy/english.txt";
/// The maximum number of characters of a line with a comment.
const COLUMNS: usize = 100;

/// Words that start no sentence, each with a hint what to write in its place.
const OPENINGS: &[(&str, &str)] = &[
    ("How many ", "name the number"),
    ("How much ", "name the amount"),
    ("Says ", "name what it does: sets, returns, tells"),
    ("The most ", "write `maximum number of`"),
    ("What ", "name the thing"),
];

/// Words that no sentence has, each with a hint what to write in its place.
const PHRASES: &[(&str, &str)] = &[
    (" after whose ", "make two sentences"),
    (" its begin", "write `its start`"),
    (" of which ", "make two sentences"),
    (" so many bytes", "write `that many`, or name the number"),
    (" that of the ", "repeat the noun"),
    (" those of ", "repeat the noun"),
    (" whose users ", "make two sentences"),
];

/// Words after which ` of which ` is plain: "each of which".
const PLAIN_BEFORE: [&str; 4] = ["all", "each", "none", "one"];

/// The folder of a source file of a crate.
fn folder(file: &File) -> Option<&str> {
    let (folder, _) = file.path.rsplit_once('/')?;
    let (_, below) = folder.strip_prefix("crates/")?.split_once('/')?;
    (file.is_rust() && (below == "src" || below.starts_with("src/"))).then_some(folder)
}

/// The words of a line that has a comment and no code.
fn comment<'a>(line: &'a str, code: &str) -> Option<&'a str> {
    let text = line.trim_start().strip_prefix("//")?;
    code.trim().is_empty().then(|| text.trim_start_matches(['/', '!']).trim())
}

/// The words of the comments that follow each other, with the numbers of their lines. Examples are
/// left out.
fn paragraphs(file: &File) -> Vec<Vec<(usize, &str)>> {
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

/// The phrases of a paragraph. They may start in one line and end in the next one.
fn phrases(file: &File, paragraph: &[(usize, &str)]) -> Vec<Finding> {
    let words: Vec<&str> = paragraph.iter().map(|(_, words)| *words).collect();
    let text = words.join(" ");
    let mut findings = Vec::new();
    for (phrase, instead) in OPENINGS {
        for (at, _) in text.match_indices(phrase) {
            if at == 0 || [". ", ": ", "* ", "- "].iter().any(|end| text[..at].ends_with(end)) {
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

/// Comments of a file that a reader must read twice, or that are too long for a line.
fn unclear(file: &File) -> Vec<Finding> {
    let all = paragraphs(file);
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
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// The lines of the table, with their folders and counts.
fn listed(table: &File) -> impl Iterator<Item = (usize, &str, usize)> {
    let lines = table.text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
    lines.filter_map(|(line, number)| {
        let (folder, count) = line.rsplit_once(' ')?;
        Some((number, folder, count.parse().expect("a line ends with a number")))
    })
}

/// Folders with more or fewer findings than their lines have. Of a folder with more, its findings
/// are listed as well.
fn changed(files: &[File], table: &File) -> Vec<Finding> {
    let mut found: BTreeMap<&str, Vec<Finding>> = BTreeMap::new();
    for file in files {
        if let Some(folder) = folder(file) {
            found.entry(folder).or_default().extend(unclear(file));
        }
    }
    let mut findings = Vec::new();
    let mut judge = |line: usize, folder: &str, limit: usize, own: Vec<Finding>| {
        let count = own.len();
        if count < limit {
            let message =
                format!("{folder} has {count}: lower the number, or remove the line at 0");
            findings.push(table.finding(line, message));
        } else if count > limit {
            let message =
                format!("{folder} has {count}, and {limit} are allowed: rewrite comments");
            findings.push(table.finding(line, message));
            findings.extend(own);
        }
    };
    for (line, folder, limit) in listed(table) {
        judge(line, folder, limit, found.remove(folder).unwrap_or_default());
    }
    for (folder, own) in found {
        judge(1, folder, 0, own);
    }
    findings
}

#[test]
fn comments_that_must_be_read_twice_only_become_fewer() {
    let files = files();
    let table = files.iter().find(|file| file.path == TABLE).expect("the table is there");
    assert!(listed(table).all(|(.., count)| count > 0), "a line of {TABLE} with 0 is removed");
    demand_none("comments are understood at the first reading", &changed(&files, table));
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
fn long_comments_are_found_and_long_code_is_not() {
    let long = "a".repeat(COLUMNS);
    assert_eq!(judged(&format!("/// {long}\n//! ```\n//! {long}\nlet {long} = 1;\n")), [1, 3]);
    assert_eq!(judged(&format!("/// {}\n", &long[4..])), [0; 0]);
}

#[test]
fn a_count_that_rises_or_falls_is_found() {
    let files = [
        File::new("crates/a/src/x/one.rs", "// What is it.\n\n// What is it.\n"),
        File::new("crates/a/src/lib.rs", "// That is it.\n"),
        File::new("crates/a/tests/main.rs", "// What is it.\n"),
    ];
    let judge = |table: &str| {
        let findings = changed(&files, &File::new(TABLE, table));
        findings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(judge("# Folders.\ncrates/a/src/x 2\n").is_empty());
    let risen = judge("# Folders.\ncrates/a/src/x 1\n");
    assert!(risen[0].starts_with("crates/trijet/tests/tidy/english.txt:2: "), "{risen:?}");
    assert!(risen[2].starts_with("crates/a/src/x/one.rs:3: "), "{risen:?}");
    let fallen = judge("crates/a/src/x 3\n");
    assert!(fallen.len() == 1 && fallen[0].contains("has 2: lower the number"), "{fallen:?}");
    assert_eq!(judge("").len(), 3, "a folder without a line has none");
    assert!(judge("crates/a/src/x 2\ncrates/b/src 1\n")[0].contains("crates/b/src has 0"));
}
