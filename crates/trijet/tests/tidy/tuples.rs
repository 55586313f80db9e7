//! Signatures have names: no function takes a tuple apart, or has one of three or more unlike parts.
//!
//! A pair of one kind, such as `(from, to): (usize, usize)`, may be taken apart.

use crate::source::{blank_tests, ident_at, is_word, line_of, mask, occurrences, skip_space};
use crate::{File, Finding, demand_none, files, lines};

/// Whether a file is a source of a crate and no part of a test.
fn is_source(file: &File) -> bool {
    let below = file.path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    let is_below_src = below.is_some_and(|(_, below)| below.starts_with("src/"));
    file.is_rust() && is_below_src && !file.is_test() && !file.path.ends_with("_tests.rs")
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

#[test]
fn signatures_have_no_unnamed_parts() {
    let files = files();
    let sources = files.iter().filter(|file| is_source(file));
    demand_none("signatures have names", &sources.flat_map(unnamed).collect::<Vec<_>>());
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
fn tests_are_no_sources() {
    let judge = |path: &str| is_source(&File::new(path, ""));
    assert!(judge("crates/a/src/lib.rs") && judge("crates/a/src/x/one.rs"));
    for other in ["crates/a/tests/main.rs", "crates/a/src/x_tests.rs", "crates/a/src/x.toml"] {
        assert!(!judge(other), "{other}");
    }
}
