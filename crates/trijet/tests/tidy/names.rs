//! How many names a user of the library can meet: modules, types, traits, functions, constants and
//! macros that have a path from the root of the crate. A name that has two paths counts twice.
//!
//! `probe` and `testing` are for tools and for tests, and have a number of their own. Names
//! that are hidden from the documentation count separately.
//!
//! `cargo test -p trijet --test tidy names:: -- --nocapture` prints all names by module.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{attributes_before, ident_at, is_word, occurrences, skip_space};
use crate::tree::{Code, Target, Tree};
use crate::{File, files};

const ROOT: &str = "crates/trijet/src/lib.rs";
/// The modules for tools and for tests.
const FOR_TOOLS: [&str; 2] = ["probe", "testing"];
/// The limits of the numbers. Only lower them.
const NAMES: usize = 433;
const NAMES_FOR_TOOLS: usize = 43;
const NAMES_HIDDEN: usize = 0;

/// The words that define an item.
const DEFINING: [&str; 8] = ["struct", "enum", "union", "trait", "fn", "const", "static", "type"];

/// A name with a path from the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    /// The names of the modules, from the root.
    module: String,
    name: String,
    is_hidden: bool,
}

/// The crates whose modules the library exports, by name. The first one is the library.
struct Crates<'a> {
    codes: &'a [Code],
    trees: Vec<(String, Tree<'a>)>,
}

/// A module: the number of its crate and its number there.
#[derive(Clone, Copy)]
struct Place {
    owner: usize,
    module: usize,
}

/// Whether the item whose keyword is at `at` is `pub` without a limit.
fn is_open(code: &str, at: usize) -> bool {
    let before = code[..at].trim_end();
    before.strip_suffix("pub").is_some_and(|rest| !rest.bytes().last().is_some_and(is_word))
}

/// The name of a public item that starts with the `pub` at `at`, unless it is a `use` or a module.
fn item_at(code: &str, at: usize) -> Option<&str> {
    let mut at = skip_space(code, at + "pub".len());
    loop {
        let word = ident_at(code, at);
        let next = skip_space(code, at + word.len());
        let is_prefix = matches!(word, "unsafe" | "async")
            || word == "const" && matches!(ident_at(code, next), "fn" | "unsafe" | "async");
        match word {
            _ if is_prefix => at = next,
            word if DEFINING.contains(&word) => return Some(ident_at(code, next)),
            _ => return None,
        }
    }
}

/// The public items that stand directly in a part of the code, with their offsets. An item that a
/// macro defines has no name here.
fn items(code: &str, (begin, end): (usize, usize)) -> Vec<(&str, usize)> {
    // The braces of an inline module are a part of it.
    let outer = usize::from(code[begin..].starts_with('{'));
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (at, byte) in code.bytes().enumerate().take(end).skip(begin) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b'p' if depth == outer
                && ident_at(code, at) == "pub"
                && !code[..at].bytes().last().is_some_and(is_word) =>
            {
                let name = item_at(code, at).filter(|name| !name.is_empty());
                found.extend(name.map(|name| (name, at)));
            }
            _ => {}
        }
    }
    found
}

impl Crates<'_> {
    /// The crate and the target of a path in a module.
    fn resolve(&self, from: Place, path: &[&str]) -> Option<(usize, Target)> {
        let own = self.trees[from.owner].1.resolve(from.module, path);
        if let Some(target) = own {
            return Some((from.owner, target));
        }
        let other = self.trees.iter().position(|(name, _)| path.first() == Some(&name.as_str()))?;
        let path: Vec<&str> = ["crate"].into_iter().chain(path[1..].iter().copied()).collect();
        Some((other, self.trees[other].1.resolve(0, &path)?))
    }

    /// Adds the names of a module and of the public modules in it.
    fn add(&self, at: Place, module: &str, found: &mut BTreeSet<Name>) {
        let tree = &self.trees[at.owner].1;
        let node = &tree.nodes[at.module];
        let code = &self.codes[node.file].all;
        let mut add = |name: &str, offset: usize| {
            let attributes = &code[attributes_before(code, offset)..offset];
            let is_hidden = !occurrences(attributes, "hidden").is_empty();
            found.insert(Name { module: module.to_owned(), name: name.to_owned(), is_hidden });
        };
        let macros = DEFINING.iter().map(|word| format!("pub {word} $"));
        let is_from_macro = macros.into_iter().any(|words| code.contains(&words));
        assert!(!is_from_macro, "a macro defines public items of `{module}`: export their names");
        let mut inner = Vec::new();
        for (name, offset) in items(code, node.body) {
            add(name, offset);
        }
        for (&name, (child, offset)) in &node.children {
            if is_open(code, *offset) {
                add(name, *offset);
                inner.push((Place { module: *child, ..at }, name));
            }
        }
        for one in node.uses.iter().filter(|one| is_open(code, one.at)) {
            assert!(!one.path.is_glob, "`{module}` exports `*`: write the names");
            let Some(name) = one.path.binds() else { continue };
            add(name, one.at);
            if let Some((owner, Target::Module(target))) = self.resolve(at, &one.path.names) {
                inner.push((Place { owner, module: target }, name));
            }
        }
        for (place, name) in inner {
            self.add(place, &format!("{module}::{name}"), found);
        }
    }
}

/// The names that have a path from the root of the crate with this file.
fn names(files: &[File], root: &str) -> BTreeSet<Name> {
    let text = |file: &File| if file.is_rust() { file.text.clone() } else { String::new() };
    let codes: Vec<Code> = files.iter().map(|file| Code::new(&text(file))).collect();
    let rust = files.iter().enumerate().filter(|(_, file)| file.is_rust());
    let by_path: BTreeMap<&str, usize> =
        rust.map(|(number, file)| (file.path.as_str(), number)).collect();
    let roots = by_path.iter().filter(|(path, _)| path.ends_with("/src/lib.rs"));
    let mut trees: Vec<(String, Tree<'_>)> = roots
        .map(|(path, number)| {
            let folder = path.trim_end_matches("/src/lib.rs").rsplit('/').next().unwrap_or(path);
            (folder.replace('-', "_"), Tree::new(files, &codes, &by_path, *number))
        })
        .collect();
    let first = trees.iter().position(|(_, tree)| files[tree.nodes[0].file].path == root);
    trees.swap(0, first.expect("the crate has a root"));
    let (owner, mut found) = (trees[0].0.clone(), BTreeSet::new());
    let crates = Crates { codes: &codes, trees };
    crates.add(Place { owner: 0, module: 0 }, &owner, &mut found);
    found
}

/// The list of the names, a line for each module.
fn listed(names: &BTreeSet<Name>) -> String {
    let mut by_module: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in names {
        by_module.entry(&one.module).or_default().push(&one.name);
    }
    let lines = by_module
        .iter()
        .map(|(module, names)| format!("{module} ({}): {}\n", names.len(), names.join(", ")));
    lines.collect()
}

#[test]
fn the_library_has_few_names() {
    let files = files();
    let all = names(&files, ROOT);
    let is_for_tools = |one: &Name| {
        let mut path = one.module.split("::").skip(1).chain([one.name.as_str()]);
        path.next().is_some_and(|first| FOR_TOOLS.contains(&first))
    };
    let hidden = all.iter().filter(|one| one.is_hidden).count();
    let for_tools = all.iter().filter(|one| !one.is_hidden && is_for_tools(one)).count();
    let for_users = all.len() - hidden - for_tools;
    let list = listed(&all);
    println!("{list}{for_users} names, {for_tools} for tools, {hidden} hidden");
    for (what, count, limit) in [
        ("names for users", for_users, NAMES),
        ("names in `probe` and `testing`", for_tools, NAMES_FOR_TOOLS),
        ("hidden names", hidden, NAMES_HIDDEN),
    ] {
        assert!(count <= limit, "{count} {what}, and the limit is {limit}:\n{list}");
    }
}

#[test]
fn a_name_counts_by_each_path() {
    let sample = [
        (
            "crates/a/src/lib.rs",
            "mod b;\npub mod c;\npub use b::{d::{E, F as G}, h};\npub use b::C;\n\
             #[doc(hidden)]\npub use b::J;\npub use other_one::{k, L};\n\
             pub(crate) struct M;\npub const fn n() {}\n#[cfg(test)]\npub fn o() {}\n",
        ),
        ("crates/a/src/b.rs", "pub mod d { pub struct E; pub struct F; }\npub mod h;\n"),
        ("crates/a/src/b/h.rs", "pub trait I { fn p(); }\nimpl E { pub fn q() {} }\n"),
        ("crates/a/src/c/mod.rs", "mod r;\npub use crate::b::d::E;\npub unsafe fn s() {}\n"),
        ("crates/a/src/c/r.rs", "pub struct T;\n"),
        ("crates/other-one/src/lib.rs", "pub mod k { pub const U: u8 = 0; }\npub struct L;\n"),
    ];
    let files: Vec<File> = sample.iter().map(|(path, text)| File::new(path, text)).collect();
    let found = names(&files, "crates/a/src/lib.rs");
    assert_eq!(
        listed(&found),
        "a (9): C, E, G, J, L, c, h, k, n\na::c (2): E, s\na::h (1): I\na::k (1): U\n"
    );
    let hidden: Vec<&str> =
        found.iter().filter(|one| one.is_hidden).map(|one| one.name.as_str()).collect();
    assert_eq!(hidden, ["J"]);
}
