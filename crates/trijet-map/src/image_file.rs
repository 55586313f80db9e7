//! An image in a file, which an operation combines with each image of the input.
#![forbid(unsafe_code)]

use std::path::Path;
use trijet::{Result, Source};
use trijet_io::{Input, file_error};
use trijet_ops::Image;

/// Reads the one image in a file.
///
/// # Errors
/// Errors of [`Input::open`]. `InvalidValue` for a file that has not one image.
pub fn load_image(path: &Path) -> Result<Image> {
    let input = Input::open(path, None)?;
    let array = input.array();
    let size = match *array.shape() {
        [height, width] | [1, height, width] => [height, width],
        _ => {
            let cause = format!("has {array}, which is not one image");
            return Err(file_error::refused("open", path, cause));
        }
    };
    let bytes = usize::try_from(array.bytes()).map_err(|_| {
        file_error::refused("open", path, format!("{array} does not fit into memory"))
    })?;
    let mut pixels = vec![0; bytes];
    input.read(0..input.layout().rows, &mut pixels)?;
    Image::new(array.dtype(), size, &pixels)
}
