//! Shows text from outside this program in messages. An example is the name of a file.
//!
//! A file name may have any character except `/` and NUL. A terminal obeys control characters: an
//! escape sequence colours or clears the terminal, or sets its title. So a message has an escape
//! such as `\u001b` instead of each control character. JSON output has the same escape, from which
//! a reader of the JSON gets the original character.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};
use std::path::Path;

/// A path for a message, on one line and without control characters.
///
/// ```
/// use trijet_io::shown;
/// assert_eq!(shown("scans/a 1.png").to_string(), "scans/a 1.png");
/// assert_eq!(shown("a\n\u{1b}[31m.png").to_string(), "a\\n\\u001b[31m.png");
/// ```
#[must_use]
pub fn shown<P: AsRef<Path> + ?Sized>(path: &P) -> Shown<'_> {
    Shown(path.as_ref())
}

/// A path in the form for messages: see [`shown`].
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(&'a Path);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string_lossy();
        text.chars().try_for_each(|one| match one {
            '\n' | '\t' => write!(f, "{}", one.escape_default()),
            one => write_shown(f, one),
        })
    }
}

/// The lines of a message or a report, without control characters except line ends and tabs.
///
/// ```
/// use trijet_io::escaped;
/// assert_eq!(escaped("one\n\ttwo"), "one\n\ttwo");
/// assert_eq!(escaped("kernel \u{1b}[2J\r"), "kernel \\u001b[2J\\r");
/// ```
#[must_use]
pub fn escaped(lines: &str) -> Cow<'_, str> {
    let is_plain = |one: char| matches!(one, '\n' | '\t') || !is_obeyed(one);
    if lines.chars().all(is_plain) {
        return Cow::Borrowed(lines);
    }
    let mut text = String::with_capacity(lines.len() + 16);
    for one in lines.chars() {
        if is_plain(one) {
            text.push(one);
        } else {
            write_shown(&mut text, one).expect("a write to a string does not fail");
        }
    }
    Cow::Owned(text)
}

/// Whether a terminal obeys a character. A terminal obeys control characters. It also obeys
/// characters that change the direction of the following text or start a new line.
fn is_obeyed(one: char) -> bool {
    let is_layout = matches!(one, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    one.is_control() || is_layout
}

fn write_shown(to: &mut impl Write, one: char) -> fmt::Result {
    match one {
        '\r' => to.write_str("\\r"),
        one if is_obeyed(one) => write!(to, "\\u{:04x}", u32::from(one)),
        one => to.write_char(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_reaches_a_terminal_and_all_other_text_is_kept() {
        for one in char::MIN..=char::MAX {
            let text = one.to_string();
            let (name, lines) = (shown(&text).to_string(), escaped(&text).into_owned());
            assert!(!name.chars().any(char::is_control), "{one:?}: {name}");
            assert!(!lines.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{one:?}");
            if !is_obeyed(one) {
                assert_eq!((&name, &lines), (&text, &text));
            }
        }
    }

    /// A reader of a JSON report gets the original character from an escape.
    #[test]
    fn an_escape_in_json_is_the_same_character() {
        let name = "a\u{7f}\u{9b}31m\u{202e}\u{1b}";
        let json = serde_json::json!({ "name": name }).to_string();
        let read: serde_json::Value = serde_json::from_str(&escaped(&json)).expect("JSON");
        assert_eq!(read["name"], name);
    }
}
