//! The description of a file of plain bytes. The file itself does not describe its array.

use crate::array::Array;
use crate::byte_order::ByteOrder;

/// The content of a file of plain bytes: a number of header bytes that are skipped, and after them
/// only the elements of an array in C order. The elements are little-endian unless the description
/// states otherwise.
///
/// ```
/// use trijet_io::{Array, Dtype, Input, Plain};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("scan.vol");
/// std::fs::write(&path, [9, 9, 9, 1, 2, 3, 4])?;
/// let plain = Plain::new(Array::new(Dtype::U8, vec![2, 2])?).header(3).any_name();
/// let input = Input::plain(&path, plain)?;
/// let mut rows = [0; 2];
/// trijet::Source::read(&input, 1..2, &mut rows)?;
/// assert_eq!(rows, [3, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    array: Array,
    header: u64,
    byte_order: ByteOrder,
    has_any_name: bool,
}

impl Plain {
    /// Describes a file that has only the elements of `array`.
    #[must_use]
    pub fn new(array: Array) -> Self {
        Self { array, header: 0, byte_order: ByteOrder::Little, has_any_name: false }
    }

    /// Skips the first `bytes` bytes of the file as a header.
    #[must_use]
    pub fn header(mut self, bytes: u64) -> Self {
        self.header = bytes;
        self
    }

    /// Declares that the elements are big-endian: the highest byte of each comes first.
    #[must_use]
    pub fn big_endian(mut self) -> Self {
        self.byte_order = ByteOrder::Big;
        self
    }

    /// Treats the file as plain bytes, whatever its name and its first bytes are.
    #[must_use]
    pub fn any_name(mut self) -> Self {
        self.has_any_name = true;
        self
    }

    /// The array in the file.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// The number of bytes that are skipped at the start of the file.
    #[must_use]
    pub fn header_bytes(&self) -> u64 {
        self.header
    }

    /// The byte order of the elements.
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        self.byte_order
    }

    /// Whether the name and the first bytes of the file are ignored.
    #[must_use]
    pub fn has_any_name(&self) -> bool {
        self.has_any_name
    }
}
