//! The pages of the book: their list, their places, and their links.
//!
//! `docs/SUMMARY.md` is the only list. A page of `docs` has the same place in the book; a page of
//! another folder keeps its path. `README.md` becomes `index.md`, the page that a server shows for a
//! folder. A link leads to a page or a picture of the book. Any other file of the repository gets
//! the address of the repository, or its path as plain text if the repository has no address.

use crate::tools::Result;
use pulldown_cmark::{Event, Options, Parser, Tag};
use std::collections::HashSet;
use std::ops::Range;

/// The list of the pages.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// Endings of pictures, which are copied into the book.
const PICTURES: [&str; 2] = [".png", ".svg"];

/// A link or a picture in a page.
#[derive(Debug, PartialEq)]
pub(crate) struct Link {
    /// All bytes of the link in the page.
    range: Range<usize>,
    /// The text between the brackets.
    label: String,
    /// The target as written in the page.
    pub(crate) target: String,
    is_picture: bool,
}

/// Reads Markdown as mdBook does, as far as links and headings need it.
pub(crate) fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH)
}

/// The links of a page in their order. Code has none.
///
/// # Errors
///
/// If a link has another form than `[label](target)`: no page has one, so nothing rewrites it.
pub(crate) fn links(text: &str) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for (event, range) in parser(text).into_offset_iter() {
        let (target, is_picture) = match event {
            Event::Start(Tag::Link { dest_url, .. }) => (dest_url, false),
            Event::Start(Tag::Image { dest_url, .. }) => (dest_url, true),
            _ => continue,
        };
        let whole = &text[range.clone()];
        let inner = whole.strip_prefix('!').unwrap_or(whole);
        let form = inner.strip_suffix(&format!("]({target})")).and_then(|s| s.strip_prefix('['));
        let Some(label) = form else {
            return Err(format!("`{whole}` is no link of the form `[label](target)`").into());
        };
        links.push(Link {
            range,
            label: label.to_owned(),
            target: target.into_string(),
            is_picture,
        });
    }
    Ok(links)
}

/// The paths of the pages in the order of the summary.
///
/// # Errors
///
/// If a link of the summary has an unknown form.
pub(crate) fn listed(summary: &str) -> Result<Vec<String>> {
    Ok(links(summary)?.iter().map(|link| followed(SUMMARY, &link.target)).collect())
}

/// Follows a relative link from a file of the repository: `../a.md` in `docs/b.md` is `a.md`.
pub(crate) fn followed(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The place of a file of the repository in the book.
pub(crate) fn place(path: &str) -> String {
    let path = path.strip_prefix("docs/").unwrap_or(path);
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.to_owned(),
    }
}

/// A relative link from one place to another: from `a/b.md` to `c.md` it is `../c.md`.
fn relative(from: &str, to: &str) -> String {
    let folders = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<String>>();
    let (from, to) = (folders(from), folders(to));
    let shared = from.iter().zip(&to).take(from.len().min(to.len()) - 1);
    let shared = shared.take_while(|(a, b)| a == b).count();
    let up = "../".repeat(from.len() - 1 - shared);
    format!("{up}{}", to[shared..].join("/"))
}

/// The target of a link within the repository: the path, and the anchor after `#`. A link to a
/// place in the same page has the path of the page. A link into the network has no such target.
pub(crate) fn within(page: &str, target: &str) -> Option<(String, Option<String>)> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (target, None),
    };
    let path = if path.is_empty() { page.to_owned() } else { followed(page, path) };
    Some((path, anchor))
}

/// Whether a file is a picture of the book.
fn is_picture(path: &str) -> bool {
    PICTURES.iter().any(|ending| path.ends_with(ending))
}

/// A page of the book.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    /// The paths of the pictures that the page shows or links.
    pub(crate) pictures: Vec<String>,
    /// The number of links that became plain text.
    pub(crate) plain: usize,
}

/// A page with the links of the book. `pages` are the paths of all pages, and `repository` is the
/// address of the repository.
///
/// # Errors
///
/// If a link has an unknown form.
pub(crate) fn rewritten(
    page: &str,
    text: &str,
    pages: &HashSet<String>,
    repository: Option<&str>,
) -> Result<Rewritten> {
    let mut all = links(text)?;
    // A picture may stand in the label of a link. The link comes first in this order. If the link
    // leads into the network, the link stays as it is, and its picture is rewritten. A picture in
    // any other link is an error.
    all.sort_by_key(|link| (link.range.start, std::cmp::Reverse(link.range.end)));
    let (mut new, mut at) = (Rewritten { text: String::new(), pictures: vec![], plain: 0 }, 0);
    for link in &all {
        if link.range.start < at {
            return Err(format!("{page}: a link within the link to `{}`", link.target).into());
        }
        let Some((path, anchor)) = within(page, &link.target) else { continue };
        new.text += &text[at..link.range.start];
        at = link.range.end;
        let anchor = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
        let mark = if link.is_picture { "!" } else { "" };
        let target = if pages.contains(&path) {
            relative(&place(page), &place(&path)) + &anchor
        } else if is_picture(&path) {
            new.pictures.push(path.clone());
            relative(&place(page), &place(&path))
        } else if let Some(repository) = repository {
            format!("{}/blob/main/{path}{anchor}", repository.trim_end_matches('/'))
        } else {
            new.plain += 1;
            new.text += &plain(&link.label, &path);
            continue;
        };
        new.text += &format!("{mark}[{}]({target})", link.label);
    }
    new.text += &text[at..];
    Ok(new)
}

/// The words for a file that the book does not have.
fn plain(label: &str, path: &str) -> String {
    if label.trim_matches('`') == path {
        format!("`{path}`")
    } else {
        format!("{label} (`{path}`)")
    }
}

#[cfg(test)]
mod tests {
    use super::{listed, place, relative, rewritten};

    #[test]
    fn links_of_the_book_lead_to_its_pages_and_pictures_and_to_the_repository() {
        let pages = ["README.md", "docs/a.md", "docs/design/README.md"].map(str::to_owned).into();
        let text = "[a\nb](../a.md#x) `[no](link.md)` [here](#y) ![p](../p.png) [web](https://c.d/e)\n\
                    [top](../../README.md) [code](../../crates/a.rs) [`c/d.txt`](../../c/d.txt)\n\
                    \n    [no](code.md)\n";
        let page = "docs/design/README.md";
        let plain = rewritten(page, text, &pages, None).expect("the links have the usual form");
        assert_eq!(
            plain.text,
            "[a\nb](../a.md#x) `[no](link.md)` [here](index.md#y) ![p](../p.png) [web](https://c.d/e)\n\
             [top](../index.md) code (`crates/a.rs`) `c/d.txt`\n\
             \n    [no](code.md)\n"
        );
        assert_eq!((plain.plain, plain.pictures), (2, vec!["docs/p.png".to_owned()]));
        let linked = rewritten(page, text, &pages, Some("https://host/x/")).expect("as above");
        assert!(linked.text.contains("[code](https://host/x/blob/main/crates/a.rs) [`c/d.txt`]("));
        assert_eq!(linked.plain, 0);
    }

    #[test]
    fn a_link_of_an_unknown_form_is_an_error() {
        for text in
            ["[a](b.md \"title\")", "[a]\n\n[a]: b.md", "<https://a.b>", "[![p](p.png)](a.md)"]
        {
            assert!(rewritten("docs/a.md", text, &[].into(), None).is_err(), "{text}");
        }
    }

    #[test]
    fn the_summary_lists_paths_of_the_repository() {
        let summary = "# Summary\n\n[T](../README.md)\n\n- [`a`](a.md)\n  - [b](design/b.md)\n";
        assert_eq!(
            listed(summary).expect("the links have the usual form"),
            ["README.md", "docs/a.md", "docs/design/b.md"]
        );
    }

    #[test]
    fn places_and_the_links_between_them_are_relative() {
        assert_eq!(place("crates/a/README.md"), "crates/a/index.md");
        assert_eq!(place("docs/design/README.md"), "design/index.md");
        assert_eq!(relative("a/b.md", "a/c.md"), "c.md");
        assert_eq!(relative("index.md", "a/c.md"), "a/c.md");
        assert_eq!(relative("a/b/c.md", "a/d.md"), "../d.md");
    }
}
