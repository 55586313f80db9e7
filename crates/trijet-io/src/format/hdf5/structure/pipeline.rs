//! The pipeline of filters of chunks.

use super::cursor::{FieldCursor, text_of};
use super::fault::{Fault, Outcome};

/// The first number of a filter that is not of the library itself.
const FIRST_FOREIGN: u16 = 256;

/// A filter of chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::format::hdf5) struct Filter {
    pub(in crate::format::hdf5) id: u16,
    pub(in crate::format::hdf5) name: Option<String>,
    /// The parameters of the filter.
    pub(in crate::format::hdf5) values: Vec<u32>,
}

/// The filters in the order in which they are applied when a chunk is written.
pub(super) fn filters(mut fields: FieldCursor<'_>) -> Outcome<Vec<Filter>> {
    let mut read = || {
        let (version, count) = (fields.u8()?, fields.u8()?);
        match version {
            1 => fields.skip(6)?,
            2 => {}
            _ => return Err(Fault::damaged(format!("it has the version {version}"))),
        }
        (0..count).map(|_| filter(&mut fields, version)).collect()
    };
    read().map_err(|fault| fault.within("the pipeline of filters"))
}

fn filter(fields: &mut FieldCursor<'_>, version: u8) -> Outcome<Filter> {
    let id = fields.u16()?;
    let has_name = version == 1 || id >= FIRST_FOREIGN;
    let name_bytes = if has_name { fields.u16()? } else { 0 };
    fields.skip(2)?;
    let count = fields.u16()?;
    // The first version fills a name to a multiple of eight bytes.
    let room = usize::from(name_bytes);
    let name = fields.take(if version == 1 { room.next_multiple_of(8) } else { room })?;
    let name = name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty()).map(text_of);
    let values = (0..count).map(|_| fields.u32()).collect::<Outcome<_>>()?;
    if version == 1 && count % 2 == 1 {
        fields.skip(4)?;
    }
    Ok(Filter { id, name, values })
}
