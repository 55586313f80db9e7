//! Markup for a page: escaped text, shares in percent, headings, sentences, and the paragraph of an
//! empty section.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;

/// The text, safe between tags and in quoted attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // HTML cannot represent these characters.
            '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// The part as a share of the whole, in thousandths.
pub(super) fn share(part: Nanos, whole: u64) -> u64 {
    u64::try_from(u128::from(part.0) * 1000 / u128::from(whole.max(1))).unwrap_or(1000)
}

/// The paragraph of a section without content.
pub(super) fn none(words: &str) -> String {
    format!("<p class=\"none\">{words}</p>")
}

/// The heading of one device, or of several devices.
pub(super) fn heading(title: &str) -> String {
    format!("<h3 class=\"device\">{}</h3>", escaped(title))
}

/// The lines as a list; nothing if there are no lines.
pub(super) fn figures(lines: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let items = lines.into_iter().map(|line| format!("<li>{}</li>", escaped(line.as_ref())));
    let items: String = items.collect();
    if items.is_empty() { items } else { format!("<ul class=\"figures\">{items}</ul>") }
}
