//! The entries of the arrays that index chunks.

use super::chunk_sink::{ChunkPlace, ChunkSink};
use super::cursor::FieldCursor;
use super::fault::{Fault, Outcome};
use super::storage::Structure;

/// The bytes of the mask of filters.
const MASK_BYTES: usize = 4;

/// The form of the entries of an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryForm {
    pub(super) bytes: usize,
    /// The bytes of the size of a chunk. `None` if the chunks have no filters.
    size_bytes: Option<usize>,
}

impl EntryForm {
    /// The form of entries of `bytes` bytes for a kind of user of the array: 0 for chunks without
    /// filters, and 1 for chunks with filters.
    pub(super) fn new(structure: &Structure, user: u8, bytes: u8) -> Outcome<Self> {
        let bytes = usize::from(bytes);
        let fixed = structure.widths.address;
        let size_bytes = match user {
            0 if bytes == fixed => Some(None),
            1 => bytes
                .checked_sub(fixed + MASK_BYTES)
                .filter(|size| (1..=8).contains(size))
                .map(Some),
            _ => None,
        };
        let wrong = || Fault::damaged(format!("its entries of the kind {user} have {bytes} bytes"));
        Ok(Self { bytes, size_bytes: size_bytes.ok_or_else(wrong)? })
    }

    /// Takes `count` entries, from the entry with the number `first` on.
    pub(super) fn take(
        self,
        fields: &mut FieldCursor<'_>,
        first: u64,
        count: u64,
        sink: &mut ChunkSink<'_>,
    ) -> Outcome<()> {
        for number in (first..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
            let address = fields.address()?;
            let (bytes, mask) = match self.size_bytes {
                None => (sink.chunk_bytes, 0),
                Some(size_bytes) => (fields.number(size_bytes)?, fields.u32()?),
            };
            if let Some(start) = address {
                sink.numbered(number, ChunkPlace { start, bytes, mask })?;
            }
        }
        Ok(())
    }
}

/// Whether the page with a number was written. The first page is the highest bit of a byte.
pub(super) fn has_page(bits: &[u8], number: u64) -> bool {
    let byte = usize::try_from(number / 8).ok().and_then(|at| bits.get(at));
    byte.is_some_and(|byte| byte & (0x80 >> (number % 8)) != 0)
}
