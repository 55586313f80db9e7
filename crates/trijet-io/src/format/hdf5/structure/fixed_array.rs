//! Fixed arrays: the index of the chunks of a data set that cannot grow.

use super::array_entries::{EntryForm, has_page};
use super::chunk_sink::ChunkSink;
use super::fault::{Fault, Outcome};
use super::storage::Structure;

const CHECKSUM_BYTES: u64 = 4;

/// A fixed array, whose header is read.
struct FixedArray {
    form: EntryForm,
    entries: u64,
    /// The number of entries of a page.
    page: u64,
    block: u64,
}

/// Gives the chunks of an array to a sink.
pub(super) fn fixed_array(
    structure: &Structure,
    address: u64,
    sink: &mut ChunkSink<'_>,
) -> Outcome<()> {
    let Some(array) = header(structure, address)? else { return Ok(()) };
    // The signature, the version, the user, and the address of the header.
    let prefix = 6 + structure.widths.address as u64;
    if array.entries > array.page {
        return pages(structure, &array, prefix, sink);
    }
    let length = array.entries.checked_mul(array.form.bytes as u64);
    let length = length.and_then(|bytes| bytes.checked_add(prefix + CHECKSUM_BYTES));
    let block = structure.checked(array.block, length.ok_or_else(too_large)?, "FADB")?;
    let mut fields = structure.cursor(&block);
    fields.skip(2 + structure.widths.address)?;
    array.form.take(&mut fields, 0, array.entries, sink)
}

fn too_large() -> Fault {
    Fault::damaged("a fixed array is too large")
}

/// The header of an array. `None` if no chunk is stored.
fn header(structure: &Structure, address: u64) -> Outcome<Option<FixedArray>> {
    let widths = structure.widths;
    let length = 12 + (widths.length + widths.address) as u64;
    let read = structure.checked(address, length, "FAHD")?;
    let mut fields = structure.cursor(&read);
    let (version, user) = (fields.u8()?, fields.u8()?);
    let (entry_bytes, page_bits) = (fields.u8()?, fields.u8()?);
    if version != 0 {
        return Err(Fault::damaged(format!("a fixed array has the version {version}")));
    }
    let form = EntryForm::new(structure, user, entry_bytes)?;
    let page = 1_u64.checked_shl(u32::from(page_bits));
    let page = page.ok_or_else(|| Fault::damaged(format!("a page has 2^{page_bits} entries")))?;
    let entries = fields.length()?;
    Ok(fields.address()?.map(|block| FixedArray { form, entries, page, block }))
}

/// Takes the pages that were written. They follow the bits of the pages and a checksum.
fn pages(
    structure: &Structure,
    array: &FixedArray,
    prefix: u64,
    sink: &mut ChunkSink<'_>,
) -> Outcome<()> {
    let pages = array.entries.div_ceil(array.page);
    let start = prefix + pages.div_ceil(8) + CHECKSUM_BYTES;
    let block = structure.checked(array.block, start, "FADB")?;
    let mut fields = structure.cursor(&block);
    fields.skip(2 + structure.widths.address)?;
    let bits = fields.rest();
    let entry_bytes = array.form.bytes as u64;
    let page_bytes =
        array.page.checked_mul(entry_bytes).and_then(|n| n.checked_add(CHECKSUM_BYTES));
    for number in (0..pages).filter(|number| has_page(bits, *number)) {
        let first = number * array.page;
        let count = array.page.min(array.entries - first);
        let at = page_bytes.and_then(|bytes| bytes.checked_mul(number));
        let at = at.and_then(|at| at.checked_add(start)?.checked_add(array.block));
        let at = at.ok_or_else(too_large)?;
        let page = structure.summed(at, count * entry_bytes + CHECKSUM_BYTES, "a page")?;
        array.form.take(&mut structure.cursor(&page), first, count, sink)?;
    }
    Ok(())
}
