//! The calls of cargo in the pages name tasks, packages, programs and options that exist. The test
//! `documents` of the command compares the calls of `trijet`.

use super::pages::{SUMMARY, listed, parser};
use super::read;
use crate::USAGE;
use crate::tools::root;
use pulldown_cmark::{Event, Tag, TagEnd};
use std::path::Path;

/// The calls of cargo in the code of a page: in blocks the lines that begin with `cargo `, and code
/// in a sentence that does. A comment at the end of a line is no part of its call.
fn calls(text: &str) -> Vec<String> {
    let (mut found, mut in_block) = (Vec::new(), false);
    for event in parser(text) {
        let code = match event {
            Event::Start(Tag::CodeBlock(_)) => {
                in_block = true;
                continue;
            }
            Event::End(TagEnd::CodeBlock) => {
                in_block = false;
                continue;
            }
            Event::Text(code) if in_block => code,
            Event::Code(code) => code,
            _ => continue,
        };
        let lines = code.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
        found.extend(lines.filter(|line| line.starts_with("cargo ")).map(str::to_owned));
    }
    found
}

/// The lines of the usage that describe a task.
fn described(task: &str) -> Option<String> {
    let mut lines = USAGE.lines().skip_while(|line| {
        line.strip_prefix("  ").and_then(|line| line.split(' ').next()) != Some(task)
    });
    let first = lines.next()?.to_owned();
    Some(lines.take_while(|line| line.starts_with("     ")).fold(first, |all, line| all + line))
}

/// The folder of a package.
fn folder(package: &str) -> String {
    if package == "xtask" { package.to_owned() } else { format!("crates/{package}") }
}

/// Whether a folder has a program of tests or an example with a name.
fn has_program(root: &Path, package: Option<&str>, kind: &str, name: &str) -> bool {
    let folders: Vec<String> = match package {
        Some(package) => vec![folder(package)],
        None => ["trijet", "trijet-cli", "trijet-io"].map(folder).into(),
    };
    let file = |end: &str| {
        let paths = folders.iter().map(|folder| root.join(format!("{folder}/{kind}/{name}{end}")));
        paths.into_iter().any(|path| path.exists())
    };
    file(".rs") || file("/main.rs")
}

/// The first word of a call of cargo that names nothing, if there is one. Words in capitals are
/// completed by the reader.
fn unknown(call: &str, root: &Path) -> Option<String> {
    let mut words = call.split_whitespace().skip(1);
    let verb = words.next()?;
    if verb == "xtask" {
        let task = words.next()?;
        let Some(usage) = described(task) else { return Some(task.to_owned()) };
        let unknown = words.find(|word| word.starts_with("--") && !usage.contains(*word));
        return unknown.map(str::to_owned);
    }
    if !["bench", "build", "clippy", "doc", "fmt", "install", "package", "run", "test"]
        .contains(&verb)
    {
        return Some(verb.to_owned());
    }
    let words: Vec<&str> = words.take_while(|word| *word != "--").collect();
    let package = words.windows(2).find(|pair| pair[0] == "-p").map(|pair| pair[1]);
    words.windows(2).find_map(|pair| {
        let [option, name] = pair else { return None };
        let exists = match *option {
            "-p" => root.join(folder(name)).join("Cargo.toml").exists(),
            "--path" => root.join(name).join("Cargo.toml").exists(),
            "--test" => has_program(root, package, "tests", name),
            "--example" => {
                name.chars().all(|c| c.is_ascii_uppercase())
                    || has_program(root, package, "examples", name)
            }
            _ => true,
        };
        (!exists).then(|| (*name).to_owned())
    })
}

#[test]
fn every_call_of_cargo_in_the_pages_names_things_that_exist() {
    let pages = listed(&read(&root(), SUMMARY).expect("it exists")).expect("it has links");
    let (mut count, mut found) = (0, Vec::new());
    for page in pages {
        for call in calls(&read(&root(), &page).expect("every page exists")) {
            count += 1;
            if let Some(word) = unknown(&call, &root()) {
                found.push(format!("{page}: `{call}`: no `{word}`"));
            }
        }
    }
    assert!(count > 40, "{count} calls");
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_call_of_cargo_that_names_nothing_is_found() {
    let text = "`cargo test -p trijet`, `cargo`\n\n    cargo xtask ptx  # for all\n    ls\n";
    assert_eq!(calls(text), ["cargo test -p trijet", "cargo xtask ptx"]);
    let unknown = |call: &str| unknown(call, &root());
    for good in [
        "cargo test -p trijet --test tidy",
        "cargo run --release -p trijet --example NAME -- --none",
        "cargo xtask ptx --check",
        "cargo install --path crates/trijet-cli",
    ] {
        assert_eq!(unknown(good), None, "{good}");
    }
    for (bad, word) in [
        ("cargo nothing", "nothing"),
        ("cargo xtask none", "none"),
        ("cargo xtask ptx --none", "--none"),
        ("cargo test -p none", "none"),
        ("cargo test -p trijet --test none", "none"),
        ("cargo run -p trijet --example none", "none"),
        ("cargo install --path crates/none", "crates/none"),
    ] {
        assert_eq!(unknown(bad).as_deref(), Some(word), "{bad}");
    }
}
