//! Global heaps: the texts of any length of attributes.

use super::fault::{Fault, Outcome};
use super::storage::Structure;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The parts of a collection start at multiples of this number of bytes.
const ALIGN_BYTES: usize = 8;

/// The collections of objects that were read.
#[derive(Debug, Default)]
pub(super) struct GlobalHeap {
    /// By the address of a collection.
    collections: BTreeMap<u64, Collection>,
}

/// The objects of a collection, by their numbers.
type Collection = BTreeMap<u16, Vec<u8>>;

impl GlobalHeap {
    /// The bytes of an object.
    pub(super) fn object(
        &mut self,
        structure: &Structure,
        collection: u64,
        number: u32,
    ) -> Outcome<&[u8]> {
        let objects = match self.collections.entry(collection) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(objects(structure, collection)?),
        };
        let number = u16::try_from(number).ok();
        let found = number.and_then(|number| objects.get(&number));
        let found = found.ok_or_else(|| Fault::damaged("a text is not in its heap"))?;
        structure.charge(found.len() as u64)?;
        Ok(found)
    }
}

fn objects(structure: &Structure, address: u64) -> Outcome<Collection> {
    // The prefix of the collection, and of each object, ends with a length and with padding.
    let length_bytes = structure.widths.length;
    let padding = length_bytes.wrapping_neg() % ALIGN_BYTES;
    let prefix_bytes = 8 + length_bytes + padding;
    let prefix = structure.signed(address, prefix_bytes as u64, "GCOL")?;
    let mut fields = structure.cursor(&prefix);
    fields.skip(4)?;
    let read = structure.read(address, fields.length()?)?;
    let mut fields = structure.cursor(&read);
    fields.skip(prefix_bytes)?;
    let mut found = Collection::new();
    // The space at the end is the object 0, or too short for an object.
    while fields.rest().len() >= prefix_bytes {
        let number = fields.u16()?;
        fields.skip(6)?;
        let bytes = usize::try_from(fields.length()?);
        let bytes = bytes.map_err(|_| Fault::damaged("an object of a heap is too large"))?;
        if number == 0 {
            break;
        }
        fields.skip(padding)?;
        found.insert(number, fields.take(bytes)?.to_vec());
        fields.skip(fields.rest().len().min(bytes.wrapping_neg() % ALIGN_BYTES))?;
    }
    Ok(found)
}
