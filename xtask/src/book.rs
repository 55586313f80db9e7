//! `book`: builds the documents as a site, by mdBook.
//!
//! The documents stay where they are. The task writes the pages with the links of the book to an
//! ignored folder, builds the site there, and follows every link of the site. mdBook is installed
//! below the target folder. If it cannot be installed, the task fails with the reason.
#![forbid(unsafe_code)]

#[cfg(test)]
mod anchors;
#[cfg(test)]
mod commands;
mod pages;
mod site;

use crate::tools::{Result, root, target};
use pages::{SUMMARY, listed, place, rewritten};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of mdBook. It is pinned, so that a new release does not break an old commit.
const VERSION: &str = "0.5.4";

/// The settings of the book. The examples cannot run on a web server, and quotation marks of
/// options stay as they are. The links are rewritten already, so no preprocessor changes a page.
const SETTINGS: &str = r#"[book]
title = "Trijet"
language = "en"

[build]
build-dir = "site"
use-default-preprocessors = false

[output.html]
input-404 = ""
smart-punctuation = false
no-section-label = true
additional-css = ["book.css"]

[output.html.playground]
runnable = false
"#;

/// The own style of the book.
const STYLE: &str = include_str!("book/book.css");

/// Writes the pages, builds the site and follows its links.
pub(crate) fn run() -> Result<()> {
    let mdbook = installed()?;
    let folder = target().join("book");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let written = write(&root(), &folder.join("src"), repository()?.as_deref())?;
    fs::write(folder.join("book.toml"), SETTINGS)?;
    fs::write(folder.join("book.css"), STYLE)?;
    let output = Command::new(mdbook).arg("build").arg(&folder).output()?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        return Err(format!("book: mdBook failed: {}\n{log}", output.status).into());
    }
    let site = folder.join("site");
    let (links, broken) = site::broken_links(&site)?;
    if written.plain > 0 {
        println!(
            "== book: {} links to files of the repository are plain text, because Cargo.toml names \
             no `repository`",
            written.plain
        );
    }
    if !broken.is_empty() {
        return Err(format!("book: broken links:\n{}", broken.join("\n")).into());
    }
    println!(
        "== book: {} pages and {} pictures, {links} links lead to a place: {}",
        written.pages,
        written.pictures,
        site.join("index.html").display()
    );
    Ok(())
}

/// The command of mdBook, which is built if it is missing. The error is one line.
fn installed() -> Result<PathBuf> {
    let folder = target().join("tools").join(format!("mdbook-{VERSION}"));
    let program = folder.join("bin/mdbook");
    let runs = |program: &Path| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    if runs(&program) {
        return Ok(program);
    }
    println!("== book: mdBook {VERSION} is installed first, which takes longer than the book");
    let output = Command::new("cargo")
        // Without optimisation, mdBook is built sooner, and the book still takes seconds.
        .args(["install", "mdbook", "--version", VERSION, "--locked", "--quiet", "--debug"])
        .args(["--no-default-features", "--features", "search", "--root"])
        .arg(&folder)
        // Its build has nothing in common with the build of the workspace.
        .env_remove("CARGO_TARGET_DIR")
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() && runs(&program) {
        return Ok(program);
    }
    let log = String::from_utf8_lossy(&output.stderr);
    let reason = log.lines().rev().find(|line| !line.trim().is_empty());
    let reason = reason.unwrap_or("cargo printed no reason").trim();
    Err(format!("book: mdBook {VERSION} cannot be installed: {reason}").into())
}

/// The address of the repository in the manifest of the command.
fn repository() -> Result<Option<String>> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let command = packages.iter().find(|package| package["name"] == "trijet-cli");
    let command = command.ok_or("cargo metadata has no package `trijet-cli`")?;
    Ok(command["repository"].as_str().map(str::to_owned))
}

/// The numbers of files in the book.
struct Written {
    pages: usize,
    pictures: usize,
    plain: usize,
}

/// Writes the summary, the pages and the pictures of the book to a folder.
fn write(root: &Path, folder: &Path, repository: Option<&str>) -> Result<Written> {
    let summary = read(root, SUMMARY)?;
    let paths = listed(&summary)?;
    let pages: HashSet<String> = paths.iter().cloned().collect();
    let (mut pictures, mut plain) = (BTreeSet::new(), 0);
    for path in paths.iter().map(String::as_str).chain([SUMMARY]) {
        let new = rewritten(path, &read(root, path)?, &pages, repository)
            .map_err(|error| format!("{path}: {error}"))?;
        let file = folder.join(place(path));
        fs::create_dir_all(file.parent().ok_or("a page has a folder")?)?;
        fs::write(file, new.text)?;
        pictures.extend(new.pictures);
        plain += new.plain;
    }
    for picture in &pictures {
        let file = folder.join(place(picture));
        fs::create_dir_all(file.parent().ok_or("a picture has a folder")?)?;
        fs::copy(root.join(picture), file).map_err(|error| format!("{picture}: {error}"))?;
    }
    Ok(Written { pages: pages.len(), pictures: pictures.len(), plain })
}

fn read(root: &Path, path: &str) -> Result<String> {
    let text = fs::read_to_string(root.join(path));
    text.map_err(|error| format!("{path}: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::anchors::anchors;
    use super::pages::{SUMMARY, links, listed, within};
    use super::read;
    use crate::tools::root;
    use std::collections::{HashMap, HashSet};
    use std::fs;
    use std::path::Path;

    /// The Markdown files of a folder of the repository.
    fn documents(folder: &str) -> Vec<String> {
        let entries = fs::read_dir(root().join(folder)).expect("the folder exists");
        let names = entries.map(|entry| entry.expect("it can be read").file_name());
        let paths = names.map(|name| format!("{folder}/{}", name.to_string_lossy()));
        paths.filter(|path| path.ends_with(".md") && path != SUMMARY).collect()
    }

    /// The documents that a summary does not list, and the pages that it lists twice.
    fn misplaced(listed: &[String], documents: &[String]) -> Vec<String> {
        let mut seen = HashSet::new();
        let twice = listed.iter().filter(|page| !seen.insert(*page));
        let missing = documents.iter().filter(|document| !listed.contains(document));
        twice.chain(missing).cloned().collect()
    }

    /// The links of the pages to no file, or to no place in a page.
    fn broken(pages: &HashMap<String, String>, exists: impl Fn(&str) -> bool) -> Vec<String> {
        let places: HashMap<&String, HashSet<String>> =
            pages.iter().map(|(path, text)| (path, anchors(text))).collect();
        let mut found = Vec::new();
        for (page, text) in pages {
            for link in links(text).expect("links have the usual form") {
                let Some((path, anchor)) = within(page, &link.target) else { continue };
                let is_place = match (places.get(&path), anchor) {
                    (Some(anchors), Some(anchor)) => anchors.contains(&anchor),
                    (None, Some(_)) => false,
                    (_, None) => exists(&path),
                };
                if !is_place {
                    found.push(format!("{page}: {}", link.target));
                }
            }
        }
        found.sort();
        found
    }

    fn pages() -> HashMap<String, String> {
        let paths = listed(&read(&root(), SUMMARY).expect("it exists")).expect("it has links");
        paths
            .into_iter()
            .map(|path| (path.clone(), read(&root(), &path).expect("every page exists")))
            .collect()
    }

    #[test]
    fn every_document_is_in_the_summary_exactly_once() {
        let summary = read(&root(), SUMMARY).expect("it exists");
        let documents = [documents("docs"), documents("docs/design")].concat();
        assert!(documents.len() > 30, "{documents:?}");
        let found = misplaced(&listed(&summary).expect("it has links"), &documents);
        assert_eq!(found, [""; 0], "not in {SUMMARY}, or twice");
    }

    #[test]
    fn every_link_and_anchor_of_the_pages_leads_to_a_place() {
        let found = broken(&pages(), |path| root().join(path).exists());
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_page_that_is_missing_or_listed_twice_is_found() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let found = misplaced(&names(&["a", "b", "a"]), &names(&["a", "c"]));
        assert_eq!(found, ["a", "c"]);
    }

    #[test]
    fn a_link_to_no_file_and_an_anchor_of_no_heading_are_found() {
        let a = "# One\n[ok](#one) [ok](b.md#two) [ok](c.txt) [bad](#two) [bad](b.md#one) [bad](d.txt)\n";
        let page = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let pages = HashMap::from([page("docs/a.md", a), page("docs/b.md", "## Two\n")]);
        let found = broken(&pages, |path| Path::new(path) == Path::new("docs/c.txt"));
        assert_eq!(found, ["docs/a.md: #two", "docs/a.md: b.md#one", "docs/a.md: d.txt"]);
    }
}
