//! The body of the fuzz target `npy`: an `.npy` file of any bytes.

use crate::workdir;
use trijet::Source;
use trijet_io::Input;

/// Reads an `.npy` file of these bytes.
///
/// # Panics
/// If the data are not the last bytes of the file, or an error does not name the file.
pub(crate) fn check(bytes: &[u8]) {
    let path = workdir::file("in.npy", bytes);
    let input = match Input::open(&path, None) {
        Ok(input) => input,
        Err(error) => return workdir::refused(&error, &path),
    };
    let layout = input.layout();
    assert_eq!(layout.rows * layout.row_bytes, input.array().bytes());
    let mut data =
        vec![0; usize::try_from(input.array().bytes()).expect("at most the size of the file")];
    input.read(0..layout.rows, &mut data).expect("the size was compared at open");
    assert!(bytes.ends_with(&data), "{:?}", input.array());
}
