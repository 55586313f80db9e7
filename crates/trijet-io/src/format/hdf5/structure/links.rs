//! Links: the names of the objects of a group.

use super::cursor::{FieldCursor, text_of};
use super::fault::{Fault, Outcome};

/// A name in a group, and the object or the path that it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::format::hdf5) struct Link {
    pub(in crate::format::hdf5) name: String,
    pub(in crate::format::hdf5) end: LinkEnd,
}

/// The bytes that a link counts as, beside its texts. Its record in a file may be shorter.
pub(super) const LINK_BYTES: u64 = 32;

/// The end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::format::hdf5) enum LinkEnd {
    /// The address of an object.
    Hard(u64),
    /// A path from the group of the link, or from the root.
    Soft(String),
    /// An object of another file.
    External { file: String, path: String },
    /// A link of a kind that a program has defined.
    Foreign(u8),
}

/// Parses the message of a link.
pub(super) fn link(mut fields: FieldCursor<'_>) -> Outcome<Link> {
    let mut parse = || {
        let (version, flags) = (fields.u8()?, fields.u8()?);
        if version != 1 {
            return Err(Fault::damaged(format!("it has the version {version}")));
        }
        let kind = if flags & 8 == 0 { 0 } else { fields.u8()? };
        // The order of creation, and the encoding of the name.
        fields.skip(if flags & 4 == 0 { 0 } else { 8 })?;
        fields.skip(if flags & 0x10 == 0 { 0 } else { 1 })?;
        let length = fields.count(1 << (flags & 3))?;
        let name = text_of(fields.take(length)?);
        Ok(Link { name, end: end(kind, &mut fields)? })
    };
    parse().map_err(|fault| fault.within("a link"))
}

fn end(kind: u8, fields: &mut FieldCursor<'_>) -> Outcome<LinkEnd> {
    if kind == 0 {
        return Ok(LinkEnd::Hard(fields.defined_address()?));
    }
    let length = usize::from(fields.u16()?);
    let value = fields.take(length)?;
    Ok(match kind {
        1 => LinkEnd::Soft(text_of(value)),
        64 => {
            let mut value = fields.of(value);
            // The version and the flags.
            value.skip(1)?;
            let (file, path) = (text_of(value.until_nul()?), text_of(value.until_nul()?));
            LinkEnd::External { file, path }
        }
        kind => LinkEnd::Foreign(kind),
    })
}
