//! The places where `unsafe` may stand, and the `SAFETY` comments.
//!
//! Every file of the library forbids unsafe code, except the files in the table below. `forbid`
//! covers child modules, so the ancestors of an exception cannot have it; they contain no `unsafe`
//! instead.

use std::collections::BTreeMap;

use crate::source::{ident_at, line_of, mask, occurrences, skip_space};
use crate::{File, Finding, demand_none, files, lines};

#[derive(Clone, Copy, PartialEq)]
enum Licence {
    /// May hold unsafe code.
    Holds,
    /// Has a child that may: no `forbid`, and no `unsafe` either.
    Ancestor,
    /// May declare unsafe functions and traits, which `forbid` refuses, but no block and no `impl`.
    Declares,
}

/// Path below `src/` (a trailing `/` names a folder), licence, reason. The first match counts.
const PLACES: &[(&str, Licence, &str)] = &[
    ("lib.rs", Licence::Ancestor, "the crate root"),
    ("device/mod.rs", Licence::Ancestor, "of device/cuda, device/fork.rs and device/region.rs"),
    ("stream/mod.rs", Licence::Ancestor, "of stream/foreign.rs"),
    ("memory/mod.rs", Licence::Ancestor, "of memory/pinned.rs and memory/dlpack.rs"),
    ("launch/mod.rs", Licence::Ancestor, "of launch/args.rs"),
    ("kernels/mod.rs", Licence::Ancestor, "of the kernels"),
    ("workers/mod.rs", Licence::Ancestor, "of workers/program.rs and of workers/queens"),
    ("workers/queens/mod.rs", Licence::Holds, "the declaration of a program"),
    ("workers/program.rs", Licence::Holds, "a program becomes a kernel: its author vouches"),
    ("comm/mod.rs", Licence::Ancestor, "of comm/nccl.rs"),
    ("comm/nccl.rs", Licence::Holds, "views and streams pass to NCCL"),
    ("device/cuda/", Licence::Holds, "the only foreign functions"),
    ("device/region.rs", Licence::Holds, "the host device's bytes"),
    ("device/fork.rs", Licence::Holds, "a handler that the system calls in a child of a fork"),
    ("memory/pinned.rs", Licence::Holds, "page-locked bytes as a slice"),
    ("memory/words.rs", Licence::Holds, "words that the host and a running kernel share"),
    ("memory/dlpack.rs", Licence::Holds, "tensors of other frameworks pass through C pointers"),
    ("launch/args.rs", Licence::Holds, "the argument block of a launch"),
    ("launch/kernel.rs", Licence::Declares, "declaring a kernel is unsafe: its author vouches"),
    ("stream/foreign.rs", Licence::Declares, "what other libraries made is believed"),
    ("memory/foreign.rs", Licence::Declares, "what other libraries made is believed"),
    ("memory/foreign_work.rs", Licence::Declares, "what other libraries enqueue is believed"),
    ("memory/manual.rs", Licence::Declares, "the program orders the memory, and is believed"),
];

/// The folder of the operations.
const OPERATIONS: &str = "crates/trijet-ops/src/";

/// The limit for the places in which one SAFETY comment may stand word for word.
const SAFETY_REPEATS_MAX: usize = 3;

fn licence(below: &str) -> Option<Licence> {
    // The declaration of a kernel is a one-line promise about its code: kernels/<name>/mod.rs.
    let parts: Vec<&str> = below.split('/').collect();
    if let ["kernels", _, .., "mod.rs"] = parts[..] {
        return Some(Licence::Holds);
    }
    PLACES
        .iter()
        .find(|(place, ..)| below == *place || (place.ends_with('/') && below.starts_with(place)))
        .map(|&(_, licence, _)| licence)
}

/// Whether the `unsafe` at `at` declares a function or trait; `unsafe fn(..)` is only a type.
fn is_declaration(code: &str, at: usize) -> bool {
    let next = skip_space(code, at + "unsafe".len());
    let word = ident_at(code, next);
    let named = !ident_at(code, skip_space(code, next + word.len())).is_empty();
    named && matches!(word, "fn" | "trait")
}

fn is_block_or_impl(code: &str, at: usize) -> bool {
    let next = skip_space(code, at + "unsafe".len());
    code[next..].starts_with('{') || ident_at(code, next) == "impl"
}

/// The licence of a file of the crate of operations, whose path below `src/` is `below`. Only
/// `<operation>/kernel.rs` declares kernels.
fn licence_of_operation(below: &str) -> Option<Licence> {
    match below.split('/').collect::<Vec<_>>()[..] {
        ["lib.rs"] | [_, "mod.rs"] => Some(Licence::Ancestor),
        [_, "kernel.rs"] => Some(Licence::Holds),
        _ => None,
    }
}

fn unsafe_code(file: &File) -> Vec<Finding> {
    let operation = file.path.strip_prefix(OPERATIONS).filter(|_| file.is_rust());
    let licence = match (file.in_library(), operation) {
        (Some(below), _) => licence(below),
        (None, Some(below)) => licence_of_operation(below),
        (None, None) => return Vec::new(),
    };
    let code = mask(&file.text);
    let uses = occurrences(&code, "unsafe");
    let declares = uses.iter().any(|&at| is_declaration(&code, at));
    let excused = match licence {
        Some(Licence::Holds) => return Vec::new(),
        Some(Licence::Ancestor) => true,
        Some(Licence::Declares) => declares,
        None => false,
    };
    let mut findings = Vec::new();
    if !excused && !code.contains("#![forbid(unsafe_code)]") {
        findings.push(file.finding(1, "`#![forbid(unsafe_code)]` is missing"));
    }
    for at in uses {
        let refused = match licence {
            Some(Licence::Ancestor) => true,
            Some(Licence::Declares) => is_block_or_impl(&code, at),
            _ => is_block_or_impl(&code, at) || is_declaration(&code, at),
        };
        if refused {
            findings.push(file.finding(line_of(&code, at), "`unsafe` has no place in this file"));
        }
    }
    findings
}

/// Every SAFETY comment of the file: line, and its words with the comment marks removed.
fn safety_comments(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (n, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            open = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        if comment.starts_with("SAFETY:") {
            found.push((n + 1, comment.to_owned()));
            open = true;
        } else if let (true, Some((_, words))) = (open, found.last_mut()) {
            words.push(' ');
            words.push_str(comment);
        }
    }
    found
}

fn incantations(files: &[File]) -> Vec<Finding> {
    let mut places: BTreeMap<String, Vec<(&File, usize)>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (line, words) in safety_comments(&file.text) {
            places.entry(words).or_default().push((file, line));
        }
    }
    places
        .values()
        .filter(|places| places.len() > SAFETY_REPEATS_MAX)
        .flat_map(|places| {
            let message = format!("this SAFETY comment stands in {} places", places.len());
            places.iter().map(move |(file, line)| file.finding(*line, message.clone()))
        })
        .collect()
}

#[test]
fn unsafe_code_stays_in_its_places() {
    let findings: Vec<Finding> = files().iter().flat_map(unsafe_code).collect();
    demand_none("unsafe code stays in its places", &findings);
}

#[test]
fn no_safety_comment_is_an_incantation() {
    demand_none("a SAFETY comment argues its own case", &incantations(&files()));
}

#[test]
fn unsafe_code_in_a_safe_file_is_found() {
    let text = "//! unsafe { }\nfn f() { unsafe { g() } }\nunsafe impl Send for X {}\n\
                unsafe fn h() {}\ntype F = unsafe fn(u8);\n";
    let bad = File::new("crates/trijet-ledger/src/trace/metrics.rs", text);
    assert_eq!(lines(&unsafe_code(&bad)), [1, 2, 3, 4]);
    let good = File::new("crates/trijet-ledger/src/trace/metrics.rs", "#![forbid(unsafe_code)]\n");
    assert_eq!(lines(&unsafe_code(&good)), [0; 0]);
}

#[test]
fn an_ancestor_of_unsafe_code_holds_none() {
    let bad =
        File::new("crates/trijet/src/device/mod.rs", "mod cuda;\npub unsafe trait Driver {}\n");
    assert_eq!(lines(&unsafe_code(&bad)), [2]);
    let good = File::new("crates/trijet/src/device/mod.rs", "#![deny(unsafe_code)]\nmod cuda;\n");
    assert_eq!(lines(&unsafe_code(&good)), [0; 0]);
}

#[test]
fn a_manual_verb_may_be_declared_unsafe_and_nothing_more() {
    let verb = "pub unsafe fn wait() {}\n";
    let path = "crates/trijet/src/memory/manual.rs";
    assert_eq!(lines(&unsafe_code(&File::new(path, verb))), [0; 0]);
    let block = format!("{verb}fn f() {{ unsafe {{ g() }} }}\n");
    assert_eq!(lines(&unsafe_code(&File::new(path, &block))), [2]);
    assert_eq!(lines(&unsafe_code(&File::new(path, "fn f() {}\n"))), [1]);
}

#[test]
fn a_kernel_may_promise_but_the_folder_of_kernels_may_not() {
    let text = "unsafe { declare() }";
    let path = |below| format!("crates/trijet/src/kernels/{below}");
    assert!(unsafe_code(&File::new(&path("median/mod.rs"), text)).is_empty());
    assert_eq!(lines(&unsafe_code(&File::new(&path("mod.rs"), text))), [1]);
    assert_eq!(lines(&unsafe_code(&File::new(&path("median/twin.rs"), text))), [1, 1]);
}

#[test]
fn an_operation_promises_in_its_file_of_kernels_only() {
    let text = "unsafe { declare() }";
    let path = |below| format!("crates/trijet-ops/src/{below}");
    assert!(unsafe_code(&File::new(&path("gauss/kernel.rs"), text)).is_empty());
    for ancestor in ["lib.rs", "gauss/mod.rs"] {
        assert_eq!(lines(&unsafe_code(&File::new(&path(ancestor), text))), [1]);
        assert!(unsafe_code(&File::new(&path(ancestor), "mod kernel;")).is_empty());
    }
    assert_eq!(lines(&unsafe_code(&File::new(&path("gauss/twin.rs"), text))), [1, 1]);
    assert_eq!(lines(&unsafe_code(&File::new(&path("kernel.rs"), text))), [1, 1]);
}

#[test]
fn a_repeated_safety_comment_is_found() {
    // Split, so that clippy does not read the sample as a comment of this function.
    let mark = concat!("// SAFE", "TY:");
    let comment = format!("    {mark} the caller keeps\n    // the block alive.\n    f();\n");
    let three = File::new("a.rs", &comment.repeat(3));
    let other = File::new("b.rs", &format!("{mark} the caller keeps\n// another block alive.\n"));
    assert!(incantations(&[three, other]).is_empty());
    let four = [File::new("a.rs", &comment.repeat(3)), File::new("b.rs", &comment)];
    assert_eq!(lines(&incantations(&four)), [1, 4, 7, 1]);
}
