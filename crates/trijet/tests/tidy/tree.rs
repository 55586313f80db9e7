//! The modules of a crate, and the files that define the items that paths name.

use std::collections::{BTreeMap, BTreeSet};

use crate::File;
use crate::paths::{Path, branches, starts};
use crate::source::{
    attributes_before, blank, blank_tests, is_word, mask, modules, occurrences, skip_space,
};

/// A `use` item: one for each branch of a group.
pub(crate) struct Use<'a> {
    pub(crate) at: usize,
    pub(crate) path: Path<'a>,
    /// It is `pub`, or `pub` within a part of the crate: others may import the name from here.
    pub(crate) is_public: bool,
}

/// A module: a file, or an inline module of one.
pub(crate) struct Node<'a> {
    /// The place of its file in the list of files.
    pub(crate) file: usize,
    /// The part of the file's code that it spans, its braces included.
    pub(crate) body: (usize, usize),
    parent: Option<usize>,
    /// The modules in it, and where they are declared.
    pub(crate) children: BTreeMap<&'a str, (usize, usize)>,
    pub(crate) uses: Vec<Use<'a>>,
}

/// The target of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    Module(usize),
    /// An item of this file.
    Item(usize),
}

/// The code of a file without its tests.
pub(crate) struct Code {
    pub(crate) all: String,
    /// The same without `use` items and visibilities.
    pub(crate) rest: String,
    /// The offsets in `rest` where paths start.
    pub(crate) paths: Vec<usize>,
}

impl Code {
    pub(crate) fn new(text: &str) -> Self {
        let all = blank_tests(&mask(text));
        let mut rest = all.clone();
        for (start, end) in use_items(&all).chain(visibilities(&all)) {
            rest = blank(rest, start, end);
        }
        let paths = starts(&rest);
        Self { all, rest, paths }
    }
}

/// Each `use` item of the code: from the keyword to the semicolon.
fn use_items(code: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let starts = occurrences(code, "use").into_iter().filter(|&at| {
        // Not the `use<'a>` of a bound.
        let next = skip_space(code, at + "use".len());
        let first = code.as_bytes().get(next).copied().unwrap_or(b';');
        is_word(first) || matches!(first, b'{' | b':')
    });
    starts.map(|at| (at, code[at..].find(';').map_or(code.len(), |length| at + length)))
}

/// Each `pub(in path)`.
fn visibilities(code: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let starts = occurrences(code, "pub(in").into_iter();
    starts.map(|at| (at, code[at..].find(')').map_or(code.len(), |length| at + length)))
}

/// Whether the item whose keyword is at `at` starts with `pub`.
fn is_public(code: &str, at: usize) -> bool {
    let before = code[..at].trim_end();
    let before = match before.rfind("pub(") {
        Some(open) if before.ends_with(')') && !before[open..before.len() - 1].contains(')') => {
            &before[..open + "pub".len()]
        }
        _ => before,
    };
    before.ends_with("pub") && before.bytes().rev().nth("pub".len()).is_none_or(|b| !is_word(b))
}

/// The path without `..`: `a/b/../c` is `a/c`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// The value of `#[path = ".."]` above the item at `at`.
fn path_attribute<'a>(text: &'a str, code: &str, at: usize) -> Option<&'a str> {
    let attributes = attributes_before(code, at)..at;
    let value = code[attributes.clone()].find("path =")? + attributes.start + "path =".len();
    let mut quoted = text[value..attributes.end].split('"');
    quoted.nth(1)
}

/// A crate.
pub(crate) struct Tree<'a> {
    files: &'a [File],
    codes: &'a [Code],
    by_path: &'a BTreeMap<&'a str, usize>,
    /// The root comes first.
    pub(crate) nodes: Vec<Node<'a>>,
}

impl<'a> Tree<'a> {
    /// The crate whose root is `files[root]`.
    pub(crate) fn new(
        files: &'a [File],
        codes: &'a [Code],
        by_path: &'a BTreeMap<&'a str, usize>,
        root: usize,
    ) -> Self {
        let mut tree = Self { files, codes, by_path, nodes: Vec::new() };
        let folder = files[root].path.rsplit_once('/').map_or("", |(folder, _)| folder);
        tree.add_file(root, None, folder);
        tree
    }

    fn add_file(&mut self, file: usize, parent: Option<usize>, folder: &str) -> usize {
        let code = &self.codes[file].all;
        let top = self.nodes.len();
        self.nodes.push(Node {
            file,
            body: (0, code.len()),
            parent,
            children: BTreeMap::new(),
            uses: Vec::new(),
        });
        let declared = modules(code);
        // The module that is open at an offset, and the folder of its children.
        let mut open: Vec<(usize, usize, String)> = vec![(top, code.len(), folder.to_owned())];
        for module in &declared {
            open.retain(|(_, end, _)| module.at < *end);
            let Some((outer, _, folder)) = open.last().cloned() else { continue };
            let below = format!("{folder}/{}", module.name);
            let child = match module.body {
                Some(body) => {
                    let node = Node {
                        file,
                        body,
                        parent: Some(outer),
                        children: BTreeMap::new(),
                        uses: Vec::new(),
                    };
                    self.nodes.push(node);
                    let child = self.nodes.len() - 1;
                    open.push((child, body.1, below));
                    child
                }
                None => {
                    let Some((found, folder)) = self.file_of(file, module.at, &below) else {
                        continue;
                    };
                    self.add_file(found, Some(outer), &folder)
                }
            };
            self.nodes[outer].children.insert(module.name, (child, module.at));
        }
        for (at, _) in use_items(code) {
            let node = self.innermost(top, at);
            let is_public = is_public(code, at);
            let paths = branches(code, at + "use".len()).into_iter();
            self.nodes[node].uses.extend(paths.map(|path| Use { at, path, is_public }));
        }
        top
    }

    /// The file that a `mod name;` at `at` declares, and the folder of its children.
    fn file_of(&self, from: usize, at: usize, below: &str) -> Option<(usize, String)> {
        let file = &self.files[from];
        if let Some(value) = path_attribute(&file.text, &self.codes[from].all, at) {
            let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let path = normal(&format!("{folder}/{value}"));
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
            return Some((*self.by_path.get(path.as_str())?, folder));
        }
        let candidates = [format!("{below}.rs"), format!("{below}/mod.rs")];
        let found = candidates.iter().find_map(|path| self.by_path.get(path.as_str()));
        Some((*found?, below.to_owned()))
    }

    /// The innermost module of the file at `top` that an offset lies in.
    pub(crate) fn innermost(&self, top: usize, at: usize) -> usize {
        let file = self.nodes[top].file;
        let mut found = top;
        loop {
            let inner =
                self.nodes[found].children.values().map(|(child, _)| *child).find(|&child| {
                    let node = &self.nodes[child];
                    node.file == file && node.body.0 < at && at < node.body.1
                });
            match inner {
                Some(child) => found = child,
                None => return found,
            }
        }
    }

    /// The target of a path in the module `from`; `None` for items of other crates and associated
    /// items.
    pub(crate) fn resolve(&self, from: usize, path: &[&str]) -> Option<Target> {
        self.resolve_past(from, path, &mut BTreeSet::new())
    }

    fn resolve_past(
        &self,
        from: usize,
        path: &[&'_ str],
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Option<Target> {
        let mut at = from;
        for (number, name) in path.iter().enumerate() {
            at = match *name {
                "crate" => 0,
                "self" => at,
                "super" => self.nodes[at].parent?,
                name => match self.lookup(at, name, number + 1 == path.len(), seen) {
                    Some(Target::Module(module)) => module,
                    Some(item) => return Some(item),
                    None if number > 0 => return Some(Target::Item(self.nodes[at].file)),
                    None => return None,
                },
            };
        }
        Some(Target::Module(at))
    }

    /// The target of a name in a module, if it is a child or an import. A module and an item may
    /// have one name: the last name of a path is an item then.
    fn lookup(
        &self,
        module: usize,
        name: &str,
        is_last: bool,
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Option<Target> {
        let node = &self.nodes[module];
        let child = node.children.get(name).map(|(child, _)| Target::Module(*child));
        if child.is_some() && !is_last || !seen.insert((module, name.to_owned())) {
            return child;
        }
        let bound = node.uses.iter().filter(|one| one.path.binds() == Some(name));
        let mut found = bound.filter_map(|one| self.resolve_past(module, &one.path.names, seen));
        let item = found.next();
        seen.remove(&(module, name.to_owned()));
        item.or(child)
    }
}
