//! Paths in masked code, with every branch of a `use` group.

use crate::source::{ident_at, is_word, skip_space};

/// One path: `a::b`, or a branch of `use a::{b, c as d, e::*}`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path<'a> {
    pub(crate) names: Vec<&'a str>,
    /// The name after `as`.
    pub(crate) renamed: Option<&'a str>,
    /// It ends in `*`.
    pub(crate) is_glob: bool,
}

impl<'a> Path<'a> {
    fn below(mut self, outer: &[&'a str]) -> Self {
        self.names.splice(0..0, outer.iter().copied());
        self
    }

    /// The name that a `use` of this path binds; `self` binds the module before it.
    pub(crate) fn binds(&self) -> Option<&'a str> {
        if self.is_glob {
            return None;
        }
        let named = self.names.iter().rev().copied().find(|name| *name != "self");
        self.renamed.or(named)
    }
}

/// The module path of a file below `src/`: `device/cuda/mod.rs` is `device::cuda`.
pub(crate) fn module_path(below: &str) -> Vec<&str> {
    let stem = below.strip_suffix(".rs").unwrap_or(below);
    let mut path: Vec<&str> = stem.split('/').collect();
    if matches!(path.last(), Some(&("mod" | "lib"))) {
        path.pop();
    }
    path
}

/// The paths that start at `at`: one, or every branch of a `use` group.
pub(crate) fn branches(code: &str, at: usize) -> Vec<Path<'_>> {
    let mut names = Vec::new();
    let mut at = skip_space(code, at);
    loop {
        if code[at..].starts_with('{') {
            return group(code, at + 1).into_iter().map(|tail| tail.below(&names)).collect();
        }
        let name = ident_at(code, at);
        if name.is_empty() {
            let is_glob = code[at..].starts_with('*');
            return vec![Path { names, renamed: None, is_glob }];
        }
        names.push(name);
        at = skip_space(code, at + name.len());
        if !code[at..].starts_with("::") {
            let is_renamed = ident_at(code, at) == "as";
            let renamed = is_renamed.then(|| ident_at(code, skip_space(code, at + "as".len())));
            return vec![Path { names, renamed, is_glob: false }];
        }
        at = skip_space(code, at + 2);
    }
}

/// The branches of a group whose content starts at `at`.
fn group(code: &str, at: usize) -> Vec<Path<'_>> {
    let mut found = branches(code, at);
    let mut depth = 0_usize;
    for (n, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => break,
            b'}' => depth -= 1,
            b',' if depth == 0 => found.extend(branches(code, n + 1)),
            _ => {}
        }
    }
    found.retain(|path| path.is_glob || !path.names.is_empty());
    found
}

/// The offsets at which a path of two or more names starts. Methods and the middle of a path do not
/// count.
pub(crate) fn starts(code: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    let begins = |at: usize| is_word(bytes[at]) && (at == 0 || !is_word(bytes[at - 1]));
    let goes_on = |at: usize| {
        let next = skip_space(code, at + ident_at(code, at).len());
        code[next..].starts_with("::") && !code[next..].starts_with("::<")
    };
    let is_inside = |at: usize| {
        let before = code[..at].trim_end();
        before.ends_with("::") || before.ends_with('.') && !before.ends_with("..")
    };
    let words = code.char_indices().map(|(at, _)| at).filter(|&at| begins(at));
    words.filter(|&at| goes_on(at) && !is_inside(at)).collect()
}

#[test]
fn a_group_has_a_path_for_each_branch() {
    let code = "a::{self, b::{c, d as e,}, f::*}";
    let found = branches(code, 0);
    let names: Vec<String> = found.iter().map(|path| path.names.join("::")).collect();
    assert_eq!(names, ["a::self", "a::b::c", "a::b::d", "a::f"]);
    let bound: Vec<Option<&str>> = found.iter().map(Path::binds).collect();
    assert_eq!(bound, [Some("a"), Some("c"), Some("e"), None]);
}

#[test]
fn a_path_starts_at_its_first_name() {
    assert_eq!(starts("a::b + c.d::<E>() + 0..f::g(h)"), [0, 23]);
}
