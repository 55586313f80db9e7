//! The anchors of a page, to which links may lead.

use super::pages::parser;
use pulldown_cmark::{Event, Tag, TagEnd};
use std::collections::HashSet;

/// The anchors of a page: one for each heading, as GitHub makes it from the words, and the anchors
/// that the page defines by `<a id="..">`.
pub(crate) fn anchors(text: &str) -> HashSet<String> {
    let (mut found, mut heading) = (HashSet::new(), None::<String>);
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    *heading += &words;
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let words = heading.take().unwrap_or_default();
                let anchor = anchor(&words);
                let numbered = (1..).map(|n| format!("{anchor}-{n}"));
                let mut free = std::iter::once(anchor.clone()).chain(numbered);
                found.extend(free.find(|anchor| !found.contains(anchor)));
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                let ids = html.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(ids.map(str::to_owned));
            }
            _ => {}
        }
    }
    found
}

/// The anchor of a heading with these words.
fn anchor(words: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    };
    words.trim().to_lowercase().chars().filter_map(kept).collect()
}

#[test]
fn headings_and_ids_are_anchors_and_equal_headings_are_numbered() {
    let text = "# A `b::c`, and D_e!\n## Same\n## Same\n\n| <a id=\"a1\"></a>A1 |\n|---|\n\n```\n# no\n```\n";
    let mut found: Vec<String> = anchors(text).into_iter().collect();
    found.sort();
    assert_eq!(found, ["a-bc-and-d_e", "a1", "same", "same-1"]);
}
