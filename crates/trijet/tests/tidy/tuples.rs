//! Signatures have names: no function takes a tuple apart, or has one of three or more unlike parts.
//!
//! A pair of one kind, such as `(from, to): (usize, usize)`, may be taken apart. The table
//! `tuples.txt` has the number of other tuples in signatures for each folder of the sources. A
//! folder may have neither more nor fewer than its line, so the numbers only fall.

use std::collections::BTreeMap;

use crate::source::{blank_tests, ident_at, is_word, line_of, mask, occurrences, skip_space};
use crate::{File, Finding, demand_none, files, lines};

const TABLE: &str = "crates/trijet/tests/tidy/tuples.txt";

/// The folder of a source file of a crate that is no part of a test.
fn folder(file: &File) -> Option<&str> {
    let (folder, _) = file.path.rsplit_once('/')?;
    let below = folder.strip_prefix("crates/")?.split_once('/')?.1;
    let is_source = file.is_rust() && (below == "src" || below.starts_with("src/"));
    (is_source && !file.is_test() && !file.path.ends_with("_tests.rs")).then_some(folder)
}

/// The offset after the bracket that closes the one at `open`.
fn closed(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut previous = b' ';
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            // The arrow of a function closes nothing.
            b'>' if previous == b'-' || previous == b'=' => {}
            b')' | b']' | b'}' | b'>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        previous = byte;
    }
    None
}

/// The parts of the text between two brackets.
fn parts(inside: &str) -> Vec<&str> {
    let (mut found, mut begin, mut at) = (Vec::new(), 0, 0);
    while at < inside.len() {
        match inside.as_bytes()[at] {
            b'(' | b'[' | b'{' | b'<' => at = closed(inside, at).unwrap_or(inside.len()),
            b',' => {
                found.push(inside[begin..at].trim());
                at += 1;
                begin = at;
            }
            _ => at += 1,
        }
    }
    let last = inside[begin..].trim();
    found.extend(Some(last).filter(|last| !last.is_empty()));
    found
}

/// The parts of a tuple that starts a text, and the text after it.
fn tuple(text: &str) -> Option<(Vec<&str>, &str)> {
    let end = text.starts_with('(').then(|| closed(text, 0)).flatten()?;
    Some((parts(&text[1..end - 1]), &text[end..]))
}

/// Whether all parts of a tuple have one type.
fn is_of_one_kind(parts: &[&str]) -> bool {
    parts.windows(2).all(|two| two[0] == two[1])
}

/// Whether a parameter takes a tuple apart whose parts are unlike.
fn takes_apart(parameter: &str) -> bool {
    let Some((_, rest)) = tuple(parameter) else { return false };
    let kind = rest.trim_start().strip_prefix(':').map_or("", str::trim);
    let whole = kind.trim_start_matches('&');
    tuple(whole).is_some_and(|(parts, _)| parts.len() > 2 || !is_of_one_kind(&parts))
}

/// Whether a type has a tuple of three or more unlike parts. The parameters of a function type are
/// no tuple.
fn has_long_tuple(kind: &str) -> bool {
    let opens = kind.match_indices('(').map(|(at, _)| at);
    { opens }.any(|at| {
        // The parameters of a function type or of a kernel.
        let before = &kind[..at];
        let is_call = before.ends_with("Kernel<") || before.bytes().last().is_some_and(is_word);
        let found = tuple(&kind[at..]).map(|(parts, _)| parts);
        !is_call && found.is_some_and(|parts| parts.len() > 2 && !is_of_one_kind(&parts))
    })
}

/// The functions whose signatures have such tuples.
fn unnamed(file: &File) -> Vec<Finding> {
    let code = blank_tests(&mask(&file.text));
    let mut findings = Vec::new();
    for at in occurrences(&code, "fn") {
        let begin = skip_space(&code, at + "fn".len());
        let name = ident_at(&code, begin);
        let mut open = begin + name.len();
        if name.is_empty() {
            continue;
        }
        if code[open..].starts_with('<') {
            open = closed(&code, open).unwrap_or(open);
        }
        let Some(end) = closed(&code, open).filter(|_| code[open..].starts_with('(')) else {
            continue;
        };
        let parameters = parts(&code[open + 1..end - 1]);
        let rest = &code[end..];
        let stop = rest.find(['{', ';']).unwrap_or(rest.len());
        let returned = rest[..stop].split("where").next().unwrap_or_default();
        let mut add = |what: &str| {
            let message = format!("`{name}` {what}: a struct names the parts");
            findings.push(file.finding(line_of(&code, at), message));
        };
        for parameter in parameters {
            if takes_apart(parameter) {
                add("takes a tuple apart");
            } else if has_long_tuple(parameter) {
                add("takes a tuple of unlike parts");
            }
        }
        if has_long_tuple(returned) {
            add("returns a tuple of unlike parts");
        }
    }
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

/// Folders with more or fewer tuples than their lines have.
fn changed(files: &[File], table: &File) -> Vec<Finding> {
    let mut found: BTreeMap<&str, Vec<Finding>> = BTreeMap::new();
    for file in files {
        if let Some(folder) = folder(file) {
            found.entry(folder).or_default().extend(unnamed(file));
        }
    }
    let mut findings = Vec::new();
    for (line, folder, limit) in listed(table) {
        let own = found.remove(folder).unwrap_or_default();
        if own.len() != limit {
            let message = format!("{folder} has {}, and its line has {limit}", own.len());
            findings.push(table.finding(line, message));
        }
        if own.len() > limit {
            findings.extend(own);
        }
    }
    findings.extend(found.into_values().flatten());
    findings
}

#[test]
fn signatures_have_no_unnamed_parts() {
    let files = files();
    let table = files.iter().find(|file| file.path == TABLE).expect("the table is there");
    assert!(listed(table).all(|(.., count)| count > 0), "a line of {TABLE} with 0 is removed");
    demand_none("signatures have names", &changed(&files, table));
}

/// The lines of a source with findings.
fn judged(text: &str) -> Vec<usize> {
    lines(&unnamed(&File::new("crates/a/src/lib.rs", text)))
}

#[test]
fn tuples_in_signatures_are_found() {
    assert_eq!(judged("fn f((a, b): (u8, &str)) {}\n"), [1]);
    assert_eq!(judged("fn f<T: Fn() -> (u8, u8)>(\n    (a, b): &(T, u8),\n) {}\n"), [1]);
    assert_eq!(judged("fn f((a, b, c): (u8, u8, u8)) {}\n"), [1]);
    assert_eq!(
        judged("fn f(a: &[(u8, u16, u8)]) {}\nfn g() -> Result<(u8, A<B, C>, u8)>;\n"),
        [1, 2]
    );
}

#[test]
fn pairs_of_one_kind_and_closures_may_stay() {
    let good = "fn f((from, to): (usize, usize)) {}\nfn g(a: (u8, u16)) -> (u8, &str) {}\n\
                fn h(a: impl Fn(u8, u16, u32), b: fn(u8, u16, &str) -> A) -> [(u8, u8, u8); 2] {}\n\
                fn l(a: &Kernel<(u8, u16, u32)>) {}\nfn i() { let k = |(a, b): (u8, &str)| a; }\nfn j((a, b): Pair) {}\n\
                #[cfg(test)]\nmod tests {\n    fn k((a, b): (u8, &str)) {}\n}\n";
    assert_eq!(judged(good), [0; 0]);
}

#[test]
fn a_count_of_tuples_that_rises_or_falls_is_found() {
    let files = [
        File::new("crates/a/src/x/one.rs", "fn f((a, b): (u8, &str)) {}\n"),
        File::new("crates/a/tests/main.rs", "fn f((a, b): (u8, &str)) {}\n"),
    ];
    let judge = |table: &str| lines(&changed(&files, &File::new(TABLE, table)));
    assert_eq!(judge("# Folders.\ncrates/a/src/x 1\n"), [0; 0]);
    assert_eq!(judge("crates/a/src/x 2\n"), [1]);
    assert_eq!(judge("\n\n"), [1]);
    assert_eq!(judge("crates/a/src/x 1\ncrates/b/src 1\n"), [2]);
}
