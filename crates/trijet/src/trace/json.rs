//! Text in JSON that may stand inside of a page.
#![forbid(unsafe_code)]

use std::fmt::Write;

/// The text as a JSON string, quotes included. What could end a script or begin a comment in HTML
/// is escaped too, and so are the line ends that JavaScript once did not take.
pub(super) fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '<' | '>' | '&' | '\0'..='\u{1f}' | '\u{7f}' | '\u{2028}' | '\u{2029}' => {
                write!(quoted, "\\u{:04x}", u32::from(c)).expect("writing to a string");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The law: a reader gets the text back, and a page sees no markup.
        #[test]
        fn a_string_survives_and_holds_no_markup(text in any::<String>()) {
            let quoted = string(&text);
            let back: String = serde_json::from_str(&quoted).unwrap();
            prop_assert_eq!(back, text);
            prop_assert!(!quoted.contains(['<', '>', '&', '\n']));
        }
    }

    #[test]
    fn what_ends_a_script_is_escaped() {
        assert_eq!(string("</script>\"\u{2028}"), r#""\u003c/script\u003e\"\u2028""#);
    }
}
