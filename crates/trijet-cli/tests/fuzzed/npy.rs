//! An `.npy` file of any bytes: the body of the fuzz target `npy`.

use crate::desk;
use trijet::pipeline::Source;
use trijet_cli::format;

/// # Panics
/// When a file is taken whose data are not its last bytes, or refused without naming it.
pub(crate) fn check(bytes: &[u8]) {
    let path = desk::file("in.npy", bytes);
    let input = match format::open(&path, None) {
        Ok(input) => input,
        Err(error) => return desk::refused(&error, &path),
    };
    let layout = input.layout();
    assert_eq!(layout.rows * layout.row_bytes, input.array().bytes());
    let mut data = vec![0; usize::try_from(input.array().bytes()).expect("less than the file")];
    input.read(0..layout.rows, &mut data).expect("the size was compared at open");
    assert!(bytes.ends_with(&data), "{:?}", input.array());
}
