//! Extensible arrays: the index of the chunks of a data set that can grow along one axis.
//!
//! The index block has the first entries, the addresses of the first data blocks, and the addresses
//! of secondary blocks, which have the addresses of further data blocks. The secondary blocks with
//! the numbers 0, 1, 2, 3, 4 .. have 1, 1, 2, 2, 4 .. data blocks, each with 1, 2, 2, 4, 4 .. times
//! the entries of the smallest one. The index block takes the place of the first secondary blocks.

use super::array_entries::{EntryForm, has_page};
use super::chunk_sink::ChunkSink;
use super::fault::{Fault, Outcome};
use super::storage::Structure;

const CHECKSUM_BYTES: u64 = 4;

/// An extensible array, whose header is read.
struct ExtensibleArray {
    form: EntryForm,
    /// The bytes of the number of an entry.
    offset_bytes: u64,
    /// The number of entries of the index block.
    index_entries: u64,
    /// The number of entries of the smallest data block.
    smallest: u64,
    /// The number of secondary blocks whose data blocks are in the index block.
    direct: u32,
    /// The number of all secondary blocks.
    secondaries: u32,
    /// The number of entries of a page.
    page: u64,
    /// The number of entries that were set, as far as the highest one.
    used: u64,
    index_block: u64,
}

/// The data blocks of a secondary block.
#[derive(Debug, Clone, Copy)]
struct SecondaryBlock {
    /// The number of data blocks.
    blocks: u64,
    /// The number of entries of a data block.
    entries: u64,
    /// The number of the first entry.
    first: u64,
}

/// A data block of a secondary block.
#[derive(Debug, Clone, Copy)]
struct DataBlock<'a> {
    address: u64,
    first: u64,
    entries: u64,
    /// The bits of all pages of the secondary block, and the number of the first page.
    pages: Option<PageBits<'a>>,
}

/// The bits of pages, and the number of the first page of a data block.
#[derive(Debug, Clone, Copy)]
struct PageBits<'a> {
    bits: &'a [u8],
    first: u64,
}

/// Gives the chunks of an array to a sink.
pub(super) fn extensible_array(
    structure: &Structure,
    address: u64,
    sink: &mut ChunkSink<'_>,
) -> Outcome<()> {
    let Some(array) = header(structure, address)? else { return Ok(()) };
    let secondaries = array.secondary_blocks()?;
    let (direct, others) = secondaries.split_at(array.direct.min(array.secondaries) as usize);
    let direct_blocks: u64 = direct.iter().map(|one| one.blocks).sum();
    let address_bytes = structure.widths.address as u64;
    let addresses = direct_blocks.saturating_add(others.len() as u64);
    let length = array.index_entries * array.form.bytes as u64
        + addresses.saturating_mul(address_bytes).min(u64::MAX / 2)
        + array.prefix(structure)
        + CHECKSUM_BYTES;
    let read = structure.checked(array.index_block, length, "EAIB")?;
    let mut fields = structure.cursor(&read);
    fields.skip(2 + structure.widths.address)?;
    array.form.take(&mut fields, 0, array.index_entries, sink)?;
    for one in direct {
        for number in 0..one.blocks {
            let first = one.first + number * one.entries;
            if let Some(address) = fields.address()? {
                let block = DataBlock { address, first, entries: one.entries, pages: None };
                data_block(structure, &array, block, sink)?;
            }
        }
    }
    for one in others {
        if let Some(address) = fields.address()? {
            secondary_block(structure, &array, *one, address, sink)?;
        }
    }
    Ok(())
}

impl ExtensibleArray {
    /// The bytes of the signature, the version, the user and the address of the header.
    fn prefix(&self, structure: &Structure) -> u64 {
        6 + structure.widths.address as u64
    }

    /// All secondary blocks, also those in the index block.
    fn secondary_blocks(&self) -> Outcome<Vec<SecondaryBlock>> {
        let mut first = self.index_entries;
        let mut all = Vec::new();
        for number in 0..self.secondaries {
            let blocks = 1_u64.checked_shl(number / 2);
            let entries = 1_u64.checked_shl(number.div_ceil(2));
            let entries = entries.and_then(|times| times.checked_mul(self.smallest));
            let (blocks, entries) = blocks.zip(entries).ok_or_else(too_large)?;
            all.push(SecondaryBlock { blocks, entries, first });
            let end = blocks.checked_mul(entries).and_then(|all| all.checked_add(first));
            first = end.ok_or_else(too_large)?;
        }
        Ok(all)
    }
}

fn too_large() -> Fault {
    Fault::damaged("an extensible array is too large")
}

/// The header of an array. `None` if no chunk is stored.
fn header(structure: &Structure, address: u64) -> Outcome<Option<ExtensibleArray>> {
    let widths = structure.widths;
    let length = 16 + (6 * widths.length + widths.address) as u64;
    let read = structure.checked(address, length, "EAHD")?;
    let mut fields = structure.cursor(&read);
    let (version, user, entry_bytes) = (fields.u8()?, fields.u8()?, fields.u8()?);
    if version != 0 {
        return Err(Fault::damaged(format!("an extensible array has the version {version}")));
    }
    let form = EntryForm::new(structure, user, entry_bytes)?;
    let (bits, index_entries, smallest) = (fields.u8()?, fields.u8()?, fields.u8()?);
    let (pointers, page_bits) = (fields.u8()?, fields.u8()?);
    // The numbers and sizes of the blocks.
    for _ in 0..4 {
        fields.length()?;
    }
    let used = fields.length()?;
    fields.length()?;
    let index_block = fields.address()?;
    let is_sound = smallest.is_power_of_two()
        && pointers.is_power_of_two()
        && (1..=64).contains(&bits)
        && u32::from(bits) >= smallest.ilog2()
        && page_bits < 64;
    if !is_sound {
        return Err(Fault::damaged("the sizes of the blocks of an extensible array are wrong"));
    }
    Ok(index_block.map(|index_block| ExtensibleArray {
        form,
        offset_bytes: u64::from(bits.div_ceil(8)),
        index_entries: u64::from(index_entries),
        smallest: u64::from(smallest),
        direct: 2 * pointers.ilog2(),
        secondaries: 1 + u32::from(bits) - smallest.ilog2(),
        page: 1 << page_bits,
        used,
        index_block,
    }))
}

/// Takes the data blocks of a secondary block.
fn secondary_block(
    structure: &Structure,
    array: &ExtensibleArray,
    own: SecondaryBlock,
    address: u64,
    sink: &mut ChunkSink<'_>,
) -> Outcome<()> {
    // A data block without pages has no bits of them.
    let pages = if own.entries > array.page { own.entries / array.page } else { 0 };
    let bits_bytes = pages.div_ceil(8).checked_mul(own.blocks);
    let addresses = own.blocks.checked_mul(structure.widths.address as u64);
    let length = bits_bytes.zip(addresses).and_then(|(bits, addresses)| {
        let fixed = array.prefix(structure) + array.offset_bytes + CHECKSUM_BYTES;
        bits.checked_add(addresses)?.checked_add(fixed)
    });
    let read = structure.checked(address, length.ok_or_else(too_large)?, "EASB")?;
    let mut fields = structure.cursor(&read);
    fields.skip(2 + structure.widths.address)?;
    fields.skip(usize::try_from(array.offset_bytes).unwrap_or(8))?;
    let bits = fields.take(bits_bytes.and_then(|n| usize::try_from(n).ok()).unwrap_or(0))?;
    for number in 0..own.blocks {
        let Some(address) = fields.address()? else { continue };
        let first = own.first + number * own.entries;
        let first_page = PageBits { bits, first: number * pages };
        let pages = (pages > 0).then_some(first_page);
        let block = DataBlock { address, first, entries: own.entries, pages };
        data_block(structure, array, block, sink)?;
    }
    Ok(())
}

/// Takes the entries of a data block.
fn data_block(
    structure: &Structure,
    array: &ExtensibleArray,
    own: DataBlock<'_>,
    sink: &mut ChunkSink<'_>,
) -> Outcome<()> {
    let entry_bytes = array.form.bytes as u64;
    let prefix = array.prefix(structure) + array.offset_bytes;
    let used = own.entries.min(array.used.saturating_sub(own.first));
    let Some(pages) = own.pages else {
        let length = own.entries.checked_mul(entry_bytes);
        let length = length.and_then(|bytes| bytes.checked_add(prefix + CHECKSUM_BYTES));
        let read = structure.checked(own.address, length.ok_or_else(too_large)?, "EADB")?;
        let mut fields = structure.cursor(&read);
        fields.skip(usize::try_from(prefix).unwrap_or(usize::MAX) - 4)?;
        return array.form.take(&mut fields, own.first, used, sink);
    };
    structure.checked(own.address, prefix + CHECKSUM_BYTES, "EADB")?;
    let page_bytes =
        array.page.checked_mul(entry_bytes).and_then(|n| n.checked_add(CHECKSUM_BYTES));
    let page_bytes = page_bytes.ok_or_else(too_large)?;
    let count = used.div_ceil(array.page);
    for number in (0..count).filter(|number| has_page(pages.bits, pages.first + number)) {
        let at = number.checked_mul(page_bytes).and_then(|at| at.checked_add(own.address));
        let at = at.and_then(|at| at.checked_add(prefix + CHECKSUM_BYTES)).ok_or_else(too_large)?;
        let page = structure.summed(at, page_bytes, "a page")?;
        let (first, before) = (own.first + number * array.page, number * array.page);
        let count = array.page.min(used - before);
        array.form.take(&mut structure.cursor(&page), first, count, sink)?;
    }
    Ok(())
}
