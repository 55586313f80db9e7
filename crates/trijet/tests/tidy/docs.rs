//! Rules about the documents: the paths, the functions and the tests that they name exist.

use std::collections::HashSet;

use crate::files::root;
use crate::{File, Finding, demand_none, files, lines};

/// The document of the laws, which names the tests of each.
const LAWS: &str = "docs/semantics.md";

/// The names in backticks of the table's last column without a test. The form of a name shows its
/// kind: `a_test`, `a-litmus-program`, or `a sequence of calls`.
fn unknown_tests(laws: &File, all: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (n, line) in laws.text.lines().enumerate().filter(|(_, line)| line.starts_with("| ")) {
        let Some(last) = line.trim_end().trim_end_matches('|').rsplit('|').next() else { continue };
        for name in last.split('`').skip(1).step_by(2).filter(|name| !is_known(name, all)) {
            findings.push(laws.finding(n + 1, format!("no test is called `{name}`")));
        }
    }
    findings
}

fn is_known(name: &str, all: &[File]) -> bool {
    let ours = || all.iter().filter(|file| file.path.starts_with("crates/trijet/"));
    let said = |text: String| ours().filter(|f| f.is_rust()).any(|file| file.text.contains(&text));
    if name.contains('/') {
        ours().any(|file| file.path.ends_with(name))
    } else if name.ends_with(".txt") {
        ours().any(|file| file.path.rsplit('/').next() == Some(name))
    } else if name.contains(' ') {
        // A title may end with the laws in brackets.
        let title = |line: &str| line.strip_prefix("= ")?.split(" (").next().map(str::to_owned);
        let is_title = |line: &str| title(line).as_deref() == Some(name);
        ours().filter(|f| f.path.ends_with(".txt")).any(|file| file.text.lines().any(is_title))
    } else if name.contains('-') {
        said(format!("\"{name}\""))
    } else {
        said(format!("fn {name}("))
    }
}

#[test]
fn every_test_that_the_laws_name_exists() {
    let all = files();
    let laws = all.iter().find(|file| file.path == LAWS).expect("the document of the laws exists");
    assert!(laws.text.matches('`').count() > 100, "the laws name their tests");
    demand_none("tests named in the laws", &unknown_tests(laws, &all));
}

#[test]
fn a_test_that_was_renamed_is_found() {
    let laws = File::new(
        LAWS,
        "| law | tests |\n| A1 | `old_name` |\n| A2 | `new_name`, `a sequence` |\n\
         | A3 | `no-litmus`; `a-litmus` |\n`outside_of_the_table`\n",
    );
    let all = [
        File::new("crates/trijet/tests/cases/a.rs", "fn new_name() {}\nlet x = \"a-litmus\";"),
        File::new("crates/trijet/src/device/conform/a.txt", "= a sequence\n"),
    ];
    assert_eq!(lines(&unknown_tests(&laws, &all)), [2, 4]);
}

/// Links to laws whose row does not exist. rustdoc does not check the part of a link after `#`.
fn unknown_laws(laws: &File, all: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in all.iter().filter(|file| file.is_rust() && file.path.contains("/src/")) {
        for (n, line) in file.text.lines().enumerate() {
            for link in line.split("(crate::laws#").skip(1) {
                let law = link.split(')').next().expect("a split has a first part");
                if !laws.text.contains(&format!("<a id=\"{law}\"></a>")) {
                    findings.push(file.finding(n + 1, format!("no law is called `{law}`")));
                }
            }
        }
    }
    findings
}

#[test]
fn every_link_to_a_law_leads_to_its_row() {
    let all = files();
    let laws = all.iter().find(|file| file.path == LAWS).expect("the document of the laws exists");
    demand_none("links to laws", &unknown_laws(laws, &all));
    let linked = all.iter().filter(|file| file.text.contains("(crate::laws#a")).count();
    assert!(linked > 10, "pages of the library link to the laws");
}

#[test]
fn a_link_to_no_law_is_found() {
    let laws = File::new(LAWS, "| <a id=\"a1\"></a>A1 | HB |\n");
    let text = "/// (law [A1](crate::laws#a1))\n/// (law [A99](crate::laws#a99))\n";
    let page = File::new("crates/trijet/src/stream/a.rs", text);
    assert_eq!(lines(&unknown_laws(&laws, &[page])), [2]);
}

/// Documents that describe the tree as it is. The changelog also names removed parts.
pub(crate) fn describes_the_tree(file: &File) -> bool {
    file.path.ends_with(".md") && file.path != "CHANGELOG.md"
}

/// The endings of files that a document may name in backticks.
const ENDINGS: &[&str] =
    &[".csv", ".cu", ".md", ".ptx", ".py", ".rs", ".sh", ".toml", ".txt", ".yml"];

/// Folders of build outputs.
const OUTPUTS: &[&str] = &["bundle/", "target/"];

/// Whether a name in backticks is a path of the tree, whole or starting at some folder:
/// `order/gate.rs`, `tests/oracle`. Codes of findings have upper case, and names with `<` are
/// patterns.
fn is_path(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let is_folder = name.contains('/') && !name.contains(|c: char| c.is_ascii_uppercase());
    let is_file = ENDINGS.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending));
    let is_output = OUTPUTS.iter().any(|folder| name.starts_with(folder));
    name.chars().all(is_part) && !name.starts_with('/') && !is_output && (is_folder || is_file)
}

/// Whether the tree has this path, whole or starting at some folder; `.rs` may be left out.
fn is_in_tree(path: &str, all: &[File]) -> bool {
    let path = path.trim_start_matches("./").trim_end_matches('/');
    all.iter().any(|file| {
        file.path.match_indices(path).any(|(at, _)| {
            let rest = &file.path[at + path.len()..];
            let begins = at == 0 || file.path.as_bytes()[at - 1] == b'/';
            begins && (rest.is_empty() || rest.starts_with('/') || rest == ".rs")
        })
    })
}

/// The targets of links in a line of Markdown, without links into the network and within the
/// document.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#']).next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

/// Follows a relative link from a document: `../a.md` in `docs/b.md` is `a.md`.
pub(crate) fn followed(document: &str, link: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Paths in backticks and targets of links that do not exist.
fn unknown_paths(document: &File, all: &[File], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (n, line) in document.text.lines().enumerate() {
        let named = line.split('`').skip(1).step_by(2).filter(|name| is_path(name));
        for path in named.filter(|path| !is_in_tree(path, all)) {
            findings.push(document.finding(n + 1, format!("there is no `{path}`")));
        }
        for link in links(line).filter(|link| !exists(&followed(&document.path, link))) {
            findings.push(document.finding(n + 1, format!("the link to `{link}` is broken")));
        }
    }
    findings
}

/// The words of all files in Rust and Python, and the names of all files without their endings.
fn known_names(all: &[File]) -> HashSet<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = all.iter().filter(|file| file.is_rust() || file.path.ends_with(".py"));
    let words = words.flat_map(|file| file.text.split(move |c| !is_word(c)));
    let stems = all.iter().flat_map(|file| file.path.split(['/', '.']));
    words.chain(stems).filter(|word| word.contains('_')).collect()
}

/// Names in backticks that no file in Rust or Python has: `a_function`, `module::a_function(..)`.
fn unknown_names(document: &File, known: &HashSet<&str>) -> Vec<Finding> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let mut findings = Vec::new();
    for (n, line) in document.text.lines().enumerate() {
        for code in line.split('`').skip(1).step_by(2) {
            let name = code.split('(').next().and_then(|path| path.rsplit("::").next());
            let name = name.filter(|name| name.contains('_') && name.chars().all(is_part));
            if let Some(name) = name.filter(|name| !known.contains(name)) {
                findings.push(document.finding(n + 1, format!("nothing is called `{name}`")));
            }
        }
    }
    findings
}

#[test]
fn every_path_that_a_document_names_exists() {
    let all = files();
    let exists = |path: &str| root().join(path).exists();
    let documents = all.iter().filter(|file| describes_the_tree(file));
    let found: Vec<_> = documents.flat_map(|file| unknown_paths(file, &all, exists)).collect();
    demand_none("paths in documents", &found);
}

#[test]
fn every_function_and_test_that_a_document_names_exists() {
    let all = files();
    let known = known_names(&all);
    let documents = all.iter().filter(|file| describes_the_tree(file));
    let found: Vec<_> = documents.flat_map(|file| unknown_names(file, &known)).collect();
    demand_none("names in documents", &found);
}

#[test]
fn a_path_that_was_moved_is_found() {
    let text = "`a/new.rs` `src/a/new` `src/a/` `RACE/RAW` `target/x.txt` `<gpu>/b.csv` `/usr/lib`\n\
                `old.rs`\n`a/old`\n[one](../new.md) [two](https://x/y) [three](#part)\n\
                [four](old.md#part)\n`ew.rs`\n";
    let document = File::new("docs/a.md", text);
    let all = [File::new("crates/x/src/a/new.rs", ""), File::new("new.md", "")];
    let found = unknown_paths(&document, &all, |path| path == "new.md");
    assert_eq!(lines(&found), [2, 3, 5, 6]);
}

#[test]
fn a_name_that_is_gone_is_found() {
    let all = [File::new("crates/x/tests/a_program.rs", "fn new_name() { other_name() }\n")];
    let text = "`new_name` `x::other_name(..)` `a_program` `Type` old_name\n`a::old_name()`\n";
    let found = unknown_names(&File::new("docs/a.md", text), &known_names(&all));
    assert_eq!(lines(&found), [2]);
}
