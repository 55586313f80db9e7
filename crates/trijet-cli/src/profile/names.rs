//! Readable names of kernels.
#![forbid(unsafe_code)]

use cpp_demangle::{DemangleOptions, Symbol};

/// The most characters of a name. The middle of a longer name is cut out.
const LENGTH_MAX: usize = 96;

/// The demangled name without parameters, or the name itself if it is not a mangled C++ name.
pub(super) fn readable(name: &str) -> String {
    let options = DemangleOptions::new().no_params().no_return_type();
    let plain =
        Symbol::new(name).ok().and_then(|symbol| symbol.demangle_with_options(&options).ok());
    cut(plain.unwrap_or_else(|| name.to_owned()))
}

fn cut(name: String) -> String {
    // The program chooses its names; control characters must not reach the terminal.
    let letters: Vec<char> =
        name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
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
        assert_eq!(readable("a\u{1b}[31mred"), "a?[31mred");
        let long = readable(&format!("begin{}end", "x".repeat(500)));
        assert_eq!(long.chars().count(), LENGTH_MAX);
        assert!(long.starts_with("begin") && long.ends_with("end") && long.contains(".."));
    }
}
