//! The paths of programs that start each other and are installed in the same folder.
#![forbid(unsafe_code)]

use std::env;
use std::path::PathBuf;

/// The path of the program `name` in the folder of the running program. If this folder has no such
/// file, the result is the name alone. The system then searches PATH when the program is started.
#[must_use]
pub fn beside(name: &str) -> PathBuf {
    let place = env::current_exe().ok().map(|own| own.with_file_name(name));
    place.filter(|place| place.is_file()).unwrap_or_else(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_folder_of_this_one_and_else_left_to_the_path() {
        let own = env::current_exe().expect("this program has a path");
        let name = own.file_name().and_then(|name| name.to_str()).expect("it has a name");
        assert_eq!(beside(name), own);
        assert_eq!(beside("no-such-program"), PathBuf::from("no-such-program"));
    }
}
