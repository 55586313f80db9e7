//! The body of the fuzz target `npy`: an `.npy` file of any bytes.

use crate::workdir;
use trijet::Source;
use trijet_io::Input;

/// Reads an `.npy` file of these bytes.
///
/// # Panics
/// If the data are not the last bytes of the file, in any order of the elements and of their bytes;
/// if the data as they are stored are not the last bytes of a file in C order; or if an error does
/// not name the file.
pub(crate) fn check(bytes: &[u8]) {
    let path = workdir::file("in.npy", bytes);
    let input = match Input::open(&path, None) {
        Ok(input) => input,
        Err(error) => return workdir::refused(&error, &path),
    };
    let layout = input.layout();
    assert_eq!(layout.rows * layout.row_bytes, input.array().bytes());
    let length = usize::try_from(input.array().bytes()).expect("at most the size of the file");
    let (mut data, mut stored) = (vec![0; length], vec![0; length]);
    input.read(0..layout.rows, &mut data).expect("the size was compared at open");
    let input = input.as_stored();
    input.read(0..layout.rows, &mut stored).expect("the rows were read before");
    let end = &bytes[bytes.len() - length..];
    let has_word = bytes.windows(4).any(|word| word == b"True");
    assert!(has_word || stored == end, "{:?}", input.array());
    let sorted = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.sort_unstable();
        bytes
    };
    assert!([&data, &stored].iter().all(|one| sorted(one) == sorted(end)), "{:?}", input.array());
}
