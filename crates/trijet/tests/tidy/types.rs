//! A type name is defined once per crate, so that a reader who meets it knows which type it is.
//!
//! The table `types.txt` has the names that do not follow the rule yet. It only shrinks: a name in
//! it that is defined once is an error, and so is a table with more names than [`EXCEPTIONS`]. A
//! name that is public anywhere cannot stand in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{
    blank_tests, ident_at, is_word, line_of, mask, modules, occurrences, skip_space,
};
use crate::{File, Finding, demand_none, files, lines};

const TABLE: &str = "crates/trijet/tests/tidy/types.txt";
/// The names in the table. Only lower this number.
const EXCEPTIONS: usize = 80;

/// The words that define a type.
const DEFINING: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// A type with a name.
struct Definition<'a> {
    file: &'a File,
    line: usize,
    is_public: bool,
}

/// The crate of a file that defines types. The file is neither a test nor a part of a test. The
/// library has the names of its ledger, so the two are one crate to a reader.
fn crate_of(file: &File) -> Option<&str> {
    let (name, below) = file.path.strip_prefix("crates/")?.split_once('/')?;
    let name = if name == "trijet-ledger" { "trijet" } else { name };
    (file.is_rust() && below.starts_with("src/") && !file.is_test()).then_some(name)
}

/// The offset of the brace that encloses `at`.
fn enclosing_brace(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (n, byte) in code.as_bytes()[..at].iter().enumerate().rev() {
        match byte {
            b'}' => depth += 1,
            b'{' if depth == 0 => return Some(n),
            b'{' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Whether `at` is in the braces of an `impl` or a `trait`, where `type` names a type of another
/// one.
fn is_associated(code: &str, at: usize) -> bool {
    let Some(open) = enclosing_brace(code, at) else { return false };
    let begin = code[..open].rfind(['{', '}', ';']).map_or(0, |n| n + 1);
    let header = &code[begin..open];
    let header = header.rsplit_once(']').map_or(header, |(attribute, rest)| {
        // An attribute, and not a slice in the header.
        if attribute.trim_start().starts_with("#[") && !rest.trim().is_empty() {
            rest
        } else {
            header
        }
    });
    let words = header.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut words = words.skip_while(|word| matches!(*word, "pub" | "crate" | "super" | "unsafe"));
    matches!(words.next(), Some("impl" | "trait"))
}

/// Whether the item whose keyword is at `at` is `pub` without a limit, in modules that are.
fn is_public(code: &str, at: usize) -> bool {
    let is_pub = |at: usize| {
        let before = code[..at].trim_end();
        let before = before.strip_suffix("unsafe").map_or(before, str::trim_end);
        before.strip_suffix("pub").is_some_and(|rest| !rest.bytes().last().is_some_and(is_word))
    };
    let around = modules(code)
        .into_iter()
        .filter(|module| module.body.is_some_and(|(open, end)| open < at && at < end));
    is_pub(at) && { around }.all(|module| is_pub(module.at))
}

/// The types that a file defines, by name.
fn definitions(file: &File) -> Vec<(&str, Definition<'_>)> {
    let code = blank_tests(&mask(&file.text));
    let mut found = Vec::new();
    for word in DEFINING {
        for at in occurrences(&code, word) {
            let begin = skip_space(&code, at + word.len());
            let name = &file.text[begin..begin + ident_at(&code, begin).len()];
            let is_type = name.starts_with(|c: char| c.is_ascii_uppercase());
            if is_type && !(word == "type" && is_associated(&code, at)) {
                let (line, is_public) = (line_of(&code, at), is_public(&code, at));
                found.push((name, Definition { file, line, is_public }));
            }
        }
    }
    found
}

/// The lines of the table with the crate and the name.
fn exceptions(table: &File) -> impl Iterator<Item = (usize, (&str, &str))> {
    let lines = table.text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
    lines.filter_map(|(line, number)| Some((number, line.split_once(' ')?)))
}

/// Names that are defined twice and may not be, and lines of the table that are wrong.
fn collisions(files: &[File], table: &File) -> Vec<Finding> {
    let mut all: BTreeMap<(&str, &str), Vec<Definition<'_>>> = BTreeMap::new();
    for file in files {
        let Some(owner) = crate_of(file) else { continue };
        for (name, definition) in definitions(file) {
            all.entry((owner, name)).or_default().push(definition);
        }
    }
    let listed: BTreeSet<(&str, &str)> = exceptions(table).map(|(_, entry)| entry).collect();
    let mut findings = Vec::new();
    for ((owner, name), found) in all.iter().filter(|(_, found)| found.len() > 1) {
        let is_public = found.iter().any(|one| one.is_public);
        if !is_public && listed.contains(&(*owner, *name)) {
            continue;
        }
        let places: Vec<String> =
            found.iter().map(|one| format!("{}:{}", one.file.path, one.line)).collect();
        let places = places.join(", ");
        let why = if is_public { "a public type name" } else { "a type name" };
        let message = format!("{why}, `{name}`, is defined {} times: {places}", found.len());
        let last = &found[found.len() - 1];
        findings.push(last.file.finding(last.line, message));
    }
    for (line, (owner, name)) in exceptions(table) {
        if all.get(&(owner, name)).is_none_or(|found| found.len() < 2) {
            let message = format!("`{name}` is not defined twice in {owner}: remove the line");
            findings.push(table.finding(line, message));
        }
    }
    findings
}

#[test]
fn a_type_name_is_defined_once_per_crate() {
    let files = files();
    let table = files.iter().find(|file| file.path == TABLE).expect("the table is there");
    demand_none("a type name has one meaning", &collisions(&files, table));
    let count = exceptions(table).count();
    assert_eq!(count, EXCEPTIONS, "{TABLE} only shrinks, and `EXCEPTIONS` with it");
}

/// Two files of one crate and one of another, with a table.
fn judged(one: &str, other: &str, table: &str) -> Vec<usize> {
    let files = [
        File::new("crates/a/src/one.rs", one),
        File::new("crates/a/src/other.rs", other),
        File::new("crates/b/src/lib.rs", "struct Node;\nenum State {}\n"),
    ];
    lines(&collisions(&files, &File::new(TABLE, table)))
}

#[test]
fn a_name_that_is_defined_twice_is_found() {
    assert_eq!(judged("struct Node;\n", "\npub(crate) type Node = u8;\n", ""), [2]);
    assert_eq!(judged("union Node {}\n", "fn f() {\n    trait Node {}\n}\n", ""), [2]);
    assert_eq!(judged("struct Node;\n", "struct Nodes;\n#[cfg(test)]\nstruct Node;\n", ""), [0; 0]);
    assert_eq!(judged("struct Node;\n", "// struct Node;\nfn f(node: Node) {}\n", ""), [0; 0]);
}

#[test]
fn types_of_implementations_are_not_names() {
    let one = "impl A for B {\n    type Node = u8;\n}\npub trait C {\n    type Node;\n}\n";
    assert_eq!(judged(one, "struct Node;\n", ""), [0; 0]);
    let function = "fn f(x: impl Fn()) {\n    type Node = u8;\n}\n";
    assert_eq!(judged(function, "struct Node;\n", ""), [1]);
}

#[test]
fn an_exception_is_private_and_true() {
    let (one, other) = ("struct Node;\n", "pub(crate) struct Node;\n");
    assert_eq!(judged(one, other, "# Names.\na Node\n"), [0; 0]);
    assert_eq!(judged(one, "pub struct Node;\n", "a Node\n"), [1]);
    assert_eq!(judged(one, "mod m {\n    pub struct Node;\n}\n", "a Node\n"), [0; 0]);
    assert_eq!(judged(one, "pub mod m {\n    pub struct Node;\n}\n", "a Node\n"), [2]);
    assert_eq!(judged(one, "", "\na Node\n"), [2]);
    assert_eq!(judged(one, other, "a Node\nb State\n"), [2]);
}
