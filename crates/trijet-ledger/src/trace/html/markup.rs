//! Markup for a page: escaped text, shares in percent, and the paragraph of an empty section.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;

/// The text, safe between tags and in quoted attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // HTML has no way to write these.
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
