//! Readable names of kernels, and texts of a trace without characters that a terminal obeys.
#![forbid(unsafe_code)]

use cpp_demangle::{DemangleOptions, DemangleWrite, ParseOptions, Symbol};
use std::fmt;

/// Maximum number of characters of a name. The middle of a longer name is cut out.
const LENGTH_MAX: usize = 96;
/// Maximum length in bytes of a name that is demangled. The names of template libraries have up to
/// a few thousand bytes.
const MANGLED_MAX: usize = 16 << 10;
/// Maximum number of bytes of a demangled name that are kept. A mangled name may repeat its parts,
/// so that each byte of the mangled name doubles the length of the demangled name.
const DEMANGLED_MAX: usize = 64 << 10;
/// The depth at which a mangled name is refused. This is the limit of the demangler. Such a depth
/// fits on the stack of any Rust thread.
const DEPTH_MAX: u32 = 96;

/// A demangled name of limited length.
struct Limited(String);

impl DemangleWrite for Limited {
    fn write_string(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > DEMANGLED_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// The demangled name without parameters, or the name itself if it is not a mangled C++ name or
/// exceeds a limit. Without characters that a terminal obeys, and of a limited length.
#[must_use]
pub fn readable(name: &str) -> String {
    cut(&clean(&demangled(name).unwrap_or_else(|| name.to_owned())))
}

fn demangled(name: &str) -> Option<String> {
    if name.len() > MANGLED_MAX {
        return None;
    }
    let parsing = ParseOptions::default().recursion_limit(DEPTH_MAX);
    let printing = DemangleOptions::new().no_params().no_return_type().recursion_limit(DEPTH_MAX);
    let symbol = Symbol::new_with_options(name, &parsing).ok()?;
    let mut plain = Limited(String::new());
    symbol.structured_demangle(&mut plain, &printing).ok()?;
    Some(plain.0)
}

/// The text with `?` for each control character, and for each invisible character that changes the
/// direction or the order of the text around it. A traced program chooses its texts. The texts must
/// not control a terminal or deceive a reader.
#[must_use]
pub(super) fn clean(text: &str) -> String {
    let acts = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}')
    };
    text.chars().map(|letter| if acts(letter) { '?' } else { letter }).collect()
}

fn cut(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LENGTH_MAX {
        return letters.into_iter().collect();
    }
    let tail = LENGTH_MAX / 3;
    let head: String = letters[..LENGTH_MAX - tail - 2].iter().collect();
    let tail: String = letters[letters.len() - tail..].iter().collect();
    format!("{head}..{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_name_is_demangled_and_shortened() {
        assert_eq!(readable("_ZN2at6native3addIfEEvPT_S2_i"), "at::native::add<float>");
        assert_eq!(readable("my_kernel"), "my_kernel");
        assert_eq!(readable(""), "");
        let long = readable(&format!("begin{}end", "x".repeat(500)));
        assert_eq!(long.chars().count(), LENGTH_MAX);
        assert!(long.starts_with("begin") && long.ends_with("end") && long.contains(".."));
    }

    #[test]
    fn no_character_of_a_name_acts_upon_a_terminal_or_a_page() {
        assert_eq!(readable("a\u{1b}[31mred"), "a?[31mred");
        // A right-to-left override, a left-to-right isolate, a C1 control, a line separator, a
        // carriage return, and a line feed.
        assert_eq!(clean("a\u{202e}b\u{2066}c\u{9b}d\u{2028}e\r\n"), "a?b?c?d?e??");
        assert_eq!(clean("k\u{e4}rnel \u{4e2d}"), "k\u{e4}rnel \u{4e2d}");
    }

    /// Each level of templates names the whole previous type twice, so the plain name has 2^40
    /// parts. The second and the third name are too deep for a stack, the fourth is long.
    #[test]
    fn a_hostile_name_is_cut_in_little_time_and_memory() {
        let mut doubling = String::from("_Z1fI1XI");
        doubling.push_str("iiE");
        for level in 0..40 {
            let last = base36(level);
            doubling.push_str(&format!("1XIS{last}_S{last}_E"));
        }
        doubling.push_str("EvT_");
        let deep = format!("_Z1f{}i", "P".repeat(10_000));
        let nested = format!("_Z{}1fE", "N1a".repeat(5000));
        let long = "_Z".repeat(1 << 20);
        for name in [doubling, deep, nested, long] {
            assert!(readable(&name).chars().count() <= LENGTH_MAX, "{}", &name[..20]);
        }
    }

    fn base36(number: u32) -> String {
        let digit = |n: u32| char::from_digit(n, 36).unwrap().to_ascii_uppercase();
        if number < 36 {
            digit(number).into()
        } else {
            [digit(number / 36), digit(number % 36)].iter().collect()
        }
    }
}
