//! JSON strings that are safe inside an HTML page.
#![forbid(unsafe_code)]

use std::fmt::Write;

/// The text as a JSON string, with its quotes. Three kinds of characters are escaped: characters
/// that could end a script in HTML, characters that could begin a comment, and two line ends. Old
/// versions of JavaScript refuse these line ends in strings.
pub(crate) fn string(text: &str) -> String {
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
        #[test]
        fn a_string_is_read_back_and_holds_no_markup(text in any::<String>()) {
            let quoted = string(&text);
            let back: String = serde_json::from_str(&quoted).unwrap();
            prop_assert_eq!(back, text);
            prop_assert!(!quoted.contains(['<', '>', '&', '\n']));
        }
    }

    #[test]
    fn the_end_of_a_script_is_escaped() {
        assert_eq!(string("</script>\"\u{2028}"), r#""\u003c/script\u003e\"\u2028""#);
    }
}
