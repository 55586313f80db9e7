//! Local heaps: the names of the links of a group of the older form.

use super::cursor::text_of;
use super::fault::{Fault, Outcome};
use super::storage::Structure;

/// The texts of a heap.
#[derive(Debug)]
pub(super) struct LocalHeap(Vec<u8>);

impl LocalHeap {
    pub(super) fn read(structure: &Structure, address: u64) -> Outcome<Self> {
        let widths = structure.widths;
        let length = 8 + (2 * widths.length + widths.address) as u64;
        let read = structure.signed(address, length, "HEAP")?;
        let mut fields = structure.cursor(&read);
        fields.skip(4)?;
        let bytes = fields.length()?;
        fields.length()?;
        Ok(Self(structure.read(fields.defined_address()?, bytes)?))
    }

    /// The text at an offset, up to the next NUL.
    pub(super) fn text(&self, structure: &Structure, offset: u64) -> Outcome<String> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..));
        let text = rest.and_then(|rest| rest.split(|byte| *byte == 0).next());
        let text = text.ok_or_else(|| Fault::damaged("a name is not in its heap"))?;
        structure.charge(text.len() as u64)?;
        Ok(text_of(text))
    }
}
