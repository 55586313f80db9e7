//! Names of kernels for people.
#![forbid(unsafe_code)]

use cpp_demangle::{DemangleOptions, Symbol};

/// A longer name is cut in the middle; its ends say most.
const LENGTH_MAX: usize = 96;

/// The name as it stands in the source, without parameters; as it is when it is no C++ name.
pub(super) fn readable(name: &str) -> String {
    let options = DemangleOptions::new().no_params().no_return_type();
    let plain =
        Symbol::new(name).ok().and_then(|symbol| symbol.demangle_with_options(&options).ok());
    cut(plain.unwrap_or_else(|| name.to_owned()))
}

fn cut(name: String) -> String {
    // A name of the program may hold anything; control characters would reach the terminal.
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
    fn a_name_is_demangled_and_cut() {
        assert_eq!(readable("_ZN2at6native3addIfEEvPT_S2_i"), "at::native::add<float>");
        assert_eq!(readable("my_kernel"), "my_kernel");
        assert_eq!(readable(""), "");
        assert_eq!(readable("a\u{1b}[31mred"), "a?[31mred");
        let long = readable(&format!("begin{}end", "x".repeat(500)));
        assert_eq!(long.chars().count(), LENGTH_MAX);
        assert!(long.starts_with("begin") && long.ends_with("end") && long.contains(".."));
    }
}
