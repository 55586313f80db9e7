//! The frame that pages of runs and pages of programs share: markup, style and scripts.
#![forbid(unsafe_code)]

use super::markup::{escaped, none};
use super::sheet::SheetData;
use std::borrow::Cow;

const PAGE: &str = include_str!("page.html");
/// The style that all pages share, in CSS: colours, text, buttons, tables and cards.
pub const SHARED_STYLE: &str = include_str!("look.css");
pub(super) const STYLE: &str = concat!(include_str!("look.css"), include_str!("page.css"));
/// The script that unpacks [`Columns`](super::columns::Columns).
pub(crate) const UNPACK: &str = include_str!("unpack.js");
/// The parts of the script, in order.
const SCRIPTS: [&str; 7] = [
    "window.timelineReady = (async () => {\n'use strict';\n",
    UNPACK,
    include_str!("data.js"),
    include_str!("draw.js"),
    include_str!("words.js"),
    include_str!("page.js"),
    "})();\n",
];

/// The page with all marks replaced. A mark is a name in double braces. A name of a part that all
/// pages share is replaced by that part, and any other name by the result of `part`.
pub(super) fn filled(data: &SheetData, part: impl Fn(&str) -> String) -> String {
    with_parts(PAGE, |name| shared(name, data).unwrap_or_else(|| signed(&part(name)).into()))
}

/// The template with each mark, a name in double braces, replaced by its part. A part may have
/// marks, which stay.
///
/// # Panics
/// If a mark is not closed.
pub(crate) fn with_parts<'a>(template: &str, part: impl Fn(&str) -> Cow<'a, str>) -> String {
    let mut page = String::new();
    let mut rest = template;
    while let Some((before, marked)) = rest.split_once("{{") {
        let (name, after) = marked.split_once("}}").expect("the page closes its marks");
        page.push_str(before);
        page.push_str(&part(name));
        rest = after;
    }
    page.push_str(rest);
    page
}

/// The text with the sign of microseconds in place of `us`. A page can show the sign, but some
/// terminals cannot.
pub(super) fn signed(text: &str) -> String {
    let mut signed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(" us") {
        let (before, after) = (&rest[..at], &rest[at + 3..]);
        let is_time = before.ends_with(|c: char| c.is_ascii_digit())
            && !after.starts_with(|c: char| c.is_alphanumeric());
        signed.push_str(before);
        signed.push_str(if is_time { " \u{b5}s" } else { " us" });
        rest = after;
    }
    signed + rest
}

/// The parts that all pages share.
fn shared<'a>(name: &str, data: &'a SheetData) -> Option<Cow<'a, str>> {
    Some(match name {
        "style" => STYLE.into(),
        "note" => {
            let note = data.note.as_deref();
            note.map_or_else(String::new, |note| signed(&none(&escaped(note)))).into()
        }
        "data" => data.json.as_str().into(),
        "columns" => data.columns.as_str().into(),
        "script" => SCRIPTS.concat().into(),
        _ => return None,
    })
}
