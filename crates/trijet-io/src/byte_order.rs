//! The order of the bytes of an element, and its conversion.

use std::fmt;
use trijet::Dtype;
use trijet_codecs::swap_in_place;

/// The order of the bytes of each element in a file. Each part of a complex number has this order.
///
/// ```
/// use trijet::Source;
/// use trijet_io::{Array, ByteOrder, Dtype, Input, Plain};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("scan.raw");
/// std::fs::write(&path, [0, 1, 0, 2])?;
/// let plain = Plain::new(Array::new(Dtype::U16, vec![2])?).big_endian();
/// let input = Input::plain(&path, plain)?;
/// let mut rows = [0; 4];
/// input.read(0..2, &mut rows)?;
/// assert_eq!(rows, [1, 0, 2, 0]);
/// assert_eq!(input.byte_order(), ByteOrder::Big);
/// input.as_stored().read(0..2, &mut rows)?;
/// assert_eq!(rows, [0, 1, 0, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ByteOrder {
    /// The lowest byte comes first, as on the processors and GPUs that this library supports.
    #[default]
    Little,
    /// The highest byte comes first.
    Big,
}

impl fmt::Display for ByteOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Little => "little-endian",
            Self::Big => "big-endian",
        })
    }
}

/// Converts elements from one byte order to the other. `bytes` are whole elements.
pub(crate) fn swap(dtype: Dtype, bytes: &mut [u8]) {
    let part =
        usize::try_from(dtype.part_bytes()).expect("a part of an element has 16 bytes at most");
    if part > 1 {
        swap_in_place(part, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_an_element_is_reversed() {
        for dtype in Dtype::ALL {
            let part = usize::try_from(dtype.part_bytes()).unwrap();
            for elements in [0, 1, 2, 3, 100] {
                let length = elements * usize::try_from(dtype.bytes()).unwrap();
                let before: Vec<u8> = (0..=255).cycle().take(length).collect();
                let mut expected = before.clone();
                expected.chunks_exact_mut(part).for_each(<[u8]>::reverse);
                let mut bytes = before.clone();
                swap(dtype, &mut bytes);
                assert_eq!(bytes, expected, "{elements} of {dtype}");
                swap(dtype, &mut bytes);
                assert_eq!(bytes, before, "{elements} of {dtype}, twice");
            }
        }
    }
}
