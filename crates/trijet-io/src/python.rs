//! Lines of Python that convert a file to an `.npy` file. They are for files that this program
//! cannot read.

use crate::file_error;
use crate::shown::shown;
use std::path::{Path, PathBuf};
use trijet::Error;

/// A line that saves an array as an `.npy` file beside the file at `path`. `array` is the Python
/// expression of the array. In this expression, the first `{}` means the name of the file. Others
/// may be part of a name in the file. The line imports `modules` in addition to numpy. `modules`
/// may be empty.
pub(crate) fn line(path: &Path, modules: &str, array: &str) -> String {
    let comma = if modules.is_empty() { "" } else { ", " };
    let array = array.replacen("{}", &literal(path), 1);
    format!("import numpy{comma}{modules}; numpy.save({}, {array})", literal(&beside(path)))
}

/// The error for an intact file that this program cannot read, with the cause and with the
/// [line](line) of Python that converts the file.
pub(crate) fn refused_with_line(
    op: &'static str,
    path: &Path,
    cause: &str,
    modules: &str,
    array: &str,
) -> Error {
    let line = line(path, modules, array);
    let cause = format!("{cause}; this line of Python converts the array to an .npy file: {line}");
    file_error::refused(op, path, cause)
}

/// The path of the new `.npy` file beside the file at `path`.
fn beside(path: &Path) -> PathBuf {
    let new = path.with_extension("npy");
    if new != path {
        return new;
    }
    let mut name = path.file_stem().unwrap_or(path.as_os_str()).to_owned();
    name.push("-new.npy");
    path.with_file_name(name)
}

/// A path as a string literal of Python, with the same escapes as in messages.
pub(crate) fn literal(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{}'", shown(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_file_and_a_new_one_beside_it() {
        assert_eq!(
            line(Path::new("a/it's.tif"), "tifffile", "tifffile.imread({})"),
            "import numpy, tifffile; numpy.save('a/it\\'s.npy', tifffile.imread('a/it\\'s.tif'))"
        );
        assert_eq!(
            line(Path::new("b\\\n.npy"), "", "numpy.load({})"),
            "import numpy; numpy.save('b\\\\\\n-new.npy', numpy.load('b\\\\\\n.npy'))"
        );
    }

    /// Once, the name of the file ended the text of such a name, and its rest was code.
    #[test]
    fn the_names_in_a_file_stay_as_they_are() {
        let array = format!("h5py.File({{}})[{}][:]", literal(Path::new("a{}b")));
        assert_eq!(
            line(Path::new("+print(1)+.h5"), "h5py", &array),
            "import numpy, h5py; numpy.save('+print(1)+.npy', \
             h5py.File('+print(1)+.h5')['a{}b'][:])"
        );
    }
}
