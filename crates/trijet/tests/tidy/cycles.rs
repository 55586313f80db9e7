//! No cycles: files of a crate import each other in one direction only, and so do folders that lie
//! side by side.
//!
//! A file imports another one when its code names an item that is defined there: in a `use`, or by
//! a path in the code. If an item is imported through a re-export, the import counts for the file
//! that defines the item. So a child that takes a sibling's item through its parent imports the
//! sibling. A declaration of a module and a re-export are no imports, unless the file uses the item
//! itself. Tests do not count, except in test programs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::paths::branches;
use crate::source::{line_of, occurrences};
use crate::tree::{Code, Target, Tree};
use crate::{File, Finding, demand_none, files, lines};

/// The imports of each file: the imported file, and the offset of the first import of it.
type Imports = Vec<BTreeMap<usize, usize>>;

/// Crate roots that cargo finds without a declaration, and the fuzz targets.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        [.., "src", "lib.rs" | "main.rs"] | [.., "src", "bin", _] => true,
        [.., "fuzz", "fuzz_targets", _] => true,
        [.., package, "tests" | "examples" | "benches", _] => package != "src",
        [.., package, "tests" | "examples" | "benches", _, "main.rs"] => package != "src",
        _ => false,
    }
}

/// The imports of a module's file within its crate.
fn add_imports(tree: &Tree<'_>, codes: &[Code], imports: &mut Imports) {
    let mut add = |from: usize, at: usize, target: Option<Target>| {
        if let Some(Target::Item(to)) = target
            && to != from
        {
            let first = imports[from].entry(to).or_insert(at);
            *first = at.min(*first);
        }
    };
    for (number, node) in tree.nodes.iter().enumerate() {
        let code = &codes[node.file];
        for one in &node.uses {
            let is_used = || {
                let name = one.path.binds();
                name.is_none_or(|name| !occurrences(&code.rest, name).is_empty())
            };
            if one.is_public && !is_used() {
                continue;
            }
            let target = match tree.resolve(number, &one.path.names) {
                // A glob imports every name of a module.
                Some(Target::Module(module)) if one.path.is_glob => {
                    Some(Target::Item(tree.nodes[module].file))
                }
                other => other,
            };
            add(node.file, one.at, target);
        }
        let is_file = node.body == (0, code.all.len());
        for &at in code.paths.iter().filter(|_| is_file) {
            let module = tree.innermost(number, at);
            for path in branches(&code.rest, at) {
                add(node.file, at, tree.resolve(module, &path.names));
            }
        }
    }
}

/// The imports of each file, in all crates that it is a part of.
fn imports(files: &[File]) -> Imports {
    let codes: Vec<Code> =
        files.iter().map(|file| Code::new(if file.is_rust() { &file.text } else { "" })).collect();
    let rust = files.iter().enumerate().filter(|(_, file)| file.is_rust());
    let by_path: BTreeMap<&str, usize> =
        rust.map(|(number, file)| (file.path.as_str(), number)).collect();
    let mut imports: Imports = files.iter().map(|_| BTreeMap::new()).collect();
    for (_, root) in by_path.iter().filter(|(path, _)| is_root(path)) {
        add_imports(&Tree::new(files, &codes, &by_path, *root), &codes, &mut imports);
    }
    imports
}

/// A shortest path along imports from a file to itself.
fn shortest_cycle(imports: &Imports, start: usize) -> Option<Vec<usize>> {
    let mut came: BTreeMap<usize, usize> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(file) = open.pop_front() {
        for &next in imports[file].keys() {
            if next == start {
                let mut way = vec![file];
                while let Some(before) = came.get(&way[way.len() - 1]) {
                    way.push(*before);
                }
                way.reverse();
                return Some(way);
            }
            if let std::collections::btree_map::Entry::Vacant(entry) = came.entry(next) {
                entry.insert(file);
                open.push_back(next);
            }
        }
    }
    None
}

/// Files that import each other, in any number of steps: sets of two or more.
fn components(imports: &Imports) -> Vec<BTreeSet<usize>> {
    let reach = |start: usize| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(file) = open.pop() {
            open.extend(imports[file].keys().filter(|next| reached.insert(**next)));
        }
        reached
    };
    let reached: Vec<BTreeSet<usize>> = (0..imports.len()).map(reach).collect();
    let mut found: Vec<BTreeSet<usize>> = Vec::new();
    for file in 0..imports.len() {
        if !reached[file].contains(&file) || found.iter().any(|one| one.contains(&file)) {
            continue;
        }
        let mutual = reached[file].iter().copied().filter(|other| reached[*other].contains(&file));
        found.push(mutual.collect());
    }
    found
}

/// The cycle that contains `start`, as text.
fn described(files: &[File], imports: &Imports, start: usize) -> String {
    let way = shortest_cycle(imports, start).expect("a file of a component is in a cycle");
    let next = way.iter().skip(1).chain(way.first());
    let steps = way.iter().zip(next).map(|(from, to)| {
        let line = line_of(&files[*from].text, imports[*from][to]);
        format!("{}:{line} imports {}", files[*from].path, files[*to].path)
    });
    steps.collect::<Vec<_>>().join(", ")
}

fn cycles(files: &[File]) -> Vec<Finding> {
    let imports = imports(files);
    let mut findings = Vec::new();
    for component in components(&imports) {
        for &file in &component {
            let inside = imports[file].iter().filter(|(to, _)| component.contains(to));
            let first = inside.map(|(_, at)| *at).min().unwrap_or(0);
            let message = format!("a cycle of imports: {}", described(files, &imports, file));
            findings.push(files[file].finding(line_of(&files[file].text, first), message));
        }
    }
    findings
}

/// The folders of two files where their paths part: `a/b` and `a/c` for `a/b/d.rs` and `a/c/e/f.rs`.
/// A file that lies where they part has no folder there.
fn side_by_side<'f>(one: &'f str, other: &'f str) -> Option<(&'f str, &'f str)> {
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let parent = one[..same].rfind('/')? + 1;
    let child = |path: &'f str| Some(&path[..parent + path[parent..].find('/')?]);
    Some((child(one)?, child(other)?))
}

/// Folders that lie side by side and import each other, in any number of steps.
fn circles_of_folders(files: &[File]) -> Vec<Finding> {
    let mut arrows: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for (from, imported) in imports(files).iter().enumerate() {
        for (&to, &at) in imported {
            let Some(pair) = side_by_side(&files[from].path, &files[to].path) else { continue };
            if pair.0.contains("/src/") {
                arrows.entry(pair).or_insert((from, at));
            }
        }
    }
    let folders: Vec<&str> =
        arrows.keys().flat_map(|(a, b)| [*a, *b]).collect::<BTreeSet<&str>>().into_iter().collect();
    let number = |name: &str| folders.binary_search(&name).expect("it is in the list");
    let mut between: Imports = folders.iter().map(|_| BTreeMap::new()).collect();
    for (from, to) in arrows.keys() {
        between[number(from)].insert(number(to), 0);
    }
    let mut findings = Vec::new();
    for circle in components(&between) {
        let is_inside = |name: &str| circle.contains(&number(name));
        for ((a, b), (file, at)) in arrows.iter().filter(|((a, b), _)| is_inside(a) && is_inside(b))
        {
            let message = format!("a circle of folders: `{a}` imports `{b}`");
            findings.push(files[*file].finding(line_of(&files[*file].text, *at), message));
        }
    }
    findings
}

#[test]
fn no_folders_import_each_other() {
    demand_none("folders import each other in one direction", &circles_of_folders(&files()));
}

#[test]
fn two_folders_that_import_each_other_are_found() {
    let mut sample = vec![
        File::new("a/src/lib.rs", "mod b;\nmod c;\nmod d;\n"),
        File::new("a/src/d.rs", "use crate::b::one::One;\n"),
        File::new("a/src/b/mod.rs", "pub mod one;\npub mod two;\n"),
        File::new("a/src/b/one.rs", "\nuse crate::c::three::Three;\n"),
        File::new("a/src/b/two.rs", "pub struct Two;\n"),
        File::new("a/src/c/mod.rs", "pub mod three;\npub mod four;\n"),
        File::new("a/src/c/three.rs", "pub struct Three;\n"),
        File::new("a/src/c/four.rs", "use crate::d::D;\n"),
    ];
    // A file beside the folders is no folder.
    assert_eq!(lines(&circles_of_folders(&sample)), [0; 0]);
    sample.pop();
    sample.push(File::new("a/src/c/four.rs", "use crate::b::two::Two;\n"));
    assert!(cycles(&sample).is_empty(), "no files import each other");
    let found = circles_of_folders(&sample);
    let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, ["a/src/b/one.rs", "a/src/c/four.rs"]);
    assert_eq!(lines(&found), [2, 1]);
}

#[test]
fn no_files_import_each_other() {
    demand_none("imports have one direction", &cycles(&files()));
}

/// The files that the rule complains about, each once, without the folder of the sample.
fn in_cycles(sample: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<File> = sample.iter().map(|(path, text)| File::new(path, text)).collect();
    let found = cycles(&files).into_iter();
    let paths = found.map(|finding| finding.path.trim_start_matches("a/src/").to_owned());
    paths.collect::<BTreeSet<String>>().into_iter().collect()
}

#[test]
fn two_files_that_import_each_other_are_found() {
    let text = "use super::b::B;\nfn f() {}\n";
    let sample = [
        File::new("a/src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
        File::new("a/src/a.rs", text),
        File::new("a/src/b.rs", "\nfn g() { crate::{c::h, a::f}(); }\nuse crate::c;\n"),
        File::new("a/src/c.rs", "// use crate::a::f;\n"),
    ];
    let found = cycles(&sample);
    assert_eq!(lines(&found), [1, 2]);
    let told = "a/src/a.rs:1 imports a/src/b.rs, a/src/b.rs:2 imports a/src/a.rs";
    assert!(found[0].message.ends_with(told), "{}", found[0].message);
}

#[test]
fn a_cycle_of_three_folders_and_an_inline_module_is_found() {
    let found = in_cycles(&[
        ("a/src/main.rs", "mod a { pub mod b; }\nmod c;\nmod d;\n"),
        ("a/src/a/b.rs", "use {crate::{c::{self as e}}, std::fmt};\nfn f() { e::g() }\n"),
        ("a/src/c/mod.rs", "use crate::d::x as y;\n"),
        ("a/src/d.rs", "mod inner { fn f() -> super::super::a::b::T {} }\n"),
    ]);
    assert_eq!(found, ["a/b.rs", "c/mod.rs", "d.rs"]);
}

#[test]
fn an_item_counts_for_the_file_that_defines_it() {
    let sample = [
        ("a/src/lib.rs", "mod a;\n"),
        ("a/src/a/mod.rs", "mod b;\nmod c;\npub(in crate::a) use self::b::B;\npub use c::C;\n"),
        ("a/src/a/b.rs", "use super::C;\n"),
        ("a/src/a/c.rs", "use crate::a::B;\n"),
    ];
    assert_eq!(in_cycles(&sample), ["a/b.rs", "a/c.rs"]);
}

#[test]
fn to_declare_and_to_export_is_no_import_but_to_use_is_one() {
    let child = ("a/src/a/b.rs", "use super::own;\npub struct B;\n");
    let root = ("a/src/lib.rs", "mod a;\n");
    let exported = "mod b;\npub use b::B;\npub fn own() {}\n";
    assert!(in_cycles(&[root, ("a/src/a/mod.rs", exported), child]).is_empty());
    let used = format!("{exported}fn f() -> B {{}}\n");
    assert_eq!(in_cycles(&[root, ("a/src/a/mod.rs", &used), child]), ["a/b.rs", "a/mod.rs"]);
    let named = "mod b;\npub fn own() -> b::B {}\n";
    assert_eq!(in_cycles(&[root, ("a/src/a/mod.rs", named), child]), ["a/b.rs", "a/mod.rs"]);
}

#[test]
fn tests_import_what_they_want_but_test_programs_do_not() {
    let tests = "#[cfg(test)]\nmod tests { use crate::b::B; }\n#[cfg(test)]\nuse crate::{b};\n";
    let sample = [
        ("a/src/lib.rs", "mod a;\nmod b;\n"),
        ("a/src/a.rs", tests),
        ("a/src/b.rs", "use crate::a::A;\n#[cfg(test)]\nmod tests;\n"),
        ("a/src/b/tests.rs", "use super::B;\n"),
    ];
    assert!(in_cycles(&sample).is_empty());
    let program = [
        ("a/tests/t/main.rs", "mod x;\n#[path = \"../y.rs\"]\nmod y;\nuse x::X;\n"),
        ("a/tests/t/x.rs", "use super::y;\nfn f() { y::f::<u8>() }\n"),
        ("a/tests/y.rs", "use crate::T;\n"),
    ];
    assert_eq!(in_cycles(&program), ["a/tests/t/main.rs", "a/tests/t/x.rs", "a/tests/y.rs"]);
}
