//! Follows the links of a built site.

use super::pages::followed;
use crate::tools::Result;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

/// The page with all other pages, for printing. mdBook changes its anchors.
const PRINTED: &str = "print.html";

/// The number of links within a site, and the ones that lead to no file or to no element.
///
/// # Errors
///
/// If a file cannot be read.
pub(crate) fn broken_links(site: &Path) -> Result<(usize, Vec<String>)> {
    let mut pages = BTreeMap::new();
    read(site, "", &mut pages)?;
    pages.remove(PRINTED);
    Ok(broken(&pages, |path| site.join(path).is_file()))
}

/// Reads the pages below a folder of the site, by their paths.
fn read(site: &Path, folder: &str, pages: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in fs::read_dir(site.join(folder))? {
        let entry = entry?;
        let path = format!("{folder}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read(site, &format!("{path}/"), pages)?;
        } else if path.ends_with(".html") {
            pages.insert(path, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

/// The values of an attribute in a page. mdBook writes attributes in double quotes.
fn values<'a>(page: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {attribute}=\"");
    let rest: Vec<&str> = page.split(start.as_str()).skip(1).collect();
    rest.into_iter().filter_map(|rest| rest.split('"').next())
}

fn broken(pages: &BTreeMap<String, String>, exists: impl Fn(&str) -> bool) -> (usize, Vec<String>) {
    let ids: BTreeMap<&String, HashSet<&str>> =
        pages.iter().map(|(path, text)| (path, values(text, "id").collect())).collect();
    let (mut count, mut found) = (0, Vec::new());
    for (page, text) in pages {
        for target in values(text, "href").chain(values(text, "src")) {
            if target.contains("://") || target.starts_with("data:") {
                continue;
            }
            count += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { page.clone() } else { followed(page, path) };
            let has_place =
                anchor.is_empty() || ids.get(&path).is_some_and(|ids| ids.contains(anchor));
            if !has_place || !exists(&path) {
                found.push(format!("{page}: {target}"));
            }
        }
    }
    (count, found)
}

#[cfg(test)]
mod tests {
    use super::broken;

    #[test]
    fn links_to_no_page_and_to_no_element_are_found() {
        let page = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let a = "<h1 id=\"one\"><a href=\"#one\" href=\"b.html#two\"> <img src=\"p.png\"> \
                 <a href=\"https://c.d/e\"> <a href=\"#two\"> <a href=\"../b.html\"> <a href=\"c.html\">";
        let pages = [page("x/a.html", a), page("x/b.html", "<a id=\"two\">")].into();
        let files = ["x/a.html", "x/b.html", "x/p.png"];
        let (count, found) = broken(&pages, |path| files.contains(&path));
        assert_eq!(count, 6);
        assert_eq!(found, ["x/a.html: #two", "x/a.html: ../b.html", "x/a.html: c.html"]);
    }
}
