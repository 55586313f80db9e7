//! Attributes: named values of an object.

use super::btree2::BTree;
use super::cursor::{FieldCursor, text_of};
use super::dataspace::Dataspace;
use super::datatype::Datatype;
use super::fault::{Fault, Outcome};
use super::fractal_heap::FractalHeap;
use super::global_heap::GlobalHeap;
use super::header::{ATTRIBUTE, ATTRIBUTE_INFO, DATASPACE, DATATYPE, SHARED};
use super::object::{Object, in_file_heap, shared};
use super::storage::Structure;
use std::borrow::Cow;

/// The number of the type of the records of attributes by name.
const ATTRIBUTES_BY_NAME: u8 = 8;
/// The bytes of a record after the number of the object: flags, the order of creation, and the hash
/// of the name.
const AFTER_ID_BYTES: u16 = 9;
/// The bytes that an attribute counts as, beside the bytes of its message.
const ATTRIBUTE_BYTES: u64 = size_of::<Attribute>() as u64;
/// The flags of an attribute whose type or dataspace is elsewhere.
const SHARED_DATATYPE: u8 = 1;
const SHARED_DATASPACE: u8 = 2;

/// An attribute with the bytes of its values.
#[derive(Debug)]
pub(in crate::format::hdf5) struct Attribute {
    pub(in crate::format::hdf5) name: String,
    pub(in crate::format::hdf5) datatype: Datatype,
    pub(in crate::format::hdf5) space: Dataspace,
    bytes: Vec<u8>,
}

impl Attribute {
    /// The bytes of each value. `None` for more than `values_max` values, and if the bytes end
    /// early.
    pub(in crate::format::hdf5) fn values(
        &self,
        bytes: usize,
        values_max: usize,
    ) -> Option<Vec<&[u8]>> {
        let count = usize::try_from(self.space.elements()?).ok().filter(|n| *n <= values_max)?;
        let all = self.bytes.get(..count.checked_mul(bytes)?)?;
        if bytes == 0 { None } else { Some(all.chunks_exact(bytes).collect()) }
    }

    pub(in crate::format::hdf5) fn is_text(&self) -> bool {
        matches!(self.datatype, Datatype::Text { .. } | Datatype::TextOfAnyLength)
    }
}

/// The attributes of an object.
#[derive(Debug, Default)]
pub(in crate::format::hdf5) struct Attributes {
    /// The attributes that can be read.
    pub(in crate::format::hdf5) found: Vec<Attribute>,
    /// The reason why there may be others.
    pub(in crate::format::hdf5) unread: Option<Fault>,
}

impl Attributes {
    fn add(&mut self, one: Outcome<Attribute>) {
        match one {
            Ok(attribute) => self.found.push(attribute),
            Err(fault) => self.unread = Some(fault),
        }
    }
}

/// The attributes of an object. An attribute that cannot be read is left out.
pub(super) fn attributes(structure: &Structure, object: &Object) -> Attributes {
    let mut all = Attributes::default();
    for message in object.all(ATTRIBUTE) {
        all.add(match message.is_shared {
            true => shared(structure, &message.body, ATTRIBUTE)
                .and_then(|body| attribute(structure, &body)),
            false => attribute(structure, &message.body),
        });
    }
    let dense = match object.body(structure, ATTRIBUTE_INFO) {
        Ok(Some(body)) => dense(structure, &body, &mut all),
        Ok(None) => Ok(()),
        Err(fault) => Err(fault),
    };
    // The attributes before the fault stay.
    if let Err(fault) = dense {
        all.unread = Some(fault);
    }
    all
}

/// Adds the attributes in a heap.
fn dense(structure: &Structure, body: &[u8], all: &mut Attributes) -> Outcome<()> {
    let mut fields = structure.cursor(body);
    let (_version, flags) = (fields.u8()?, fields.u8()?);
    fields.skip(if flags & 1 == 0 { 0 } else { 2 })?;
    let Some((heap, names)) = fields.address()?.zip(fields.address()?) else { return Ok(()) };
    let mut heap = FractalHeap::read(structure, heap)?;
    let names = BTree::read(structure, names)?;
    if names.kind != ATTRIBUTES_BY_NAME {
        return Err(Fault::damaged(format!("the index of attributes has the type {}", names.kind)));
    }
    heap.check_index(&names, AFTER_ID_BYTES)?;
    let id_bytes = usize::from(names.record_bytes.saturating_sub(AFTER_ID_BYTES));
    names.each_record(structure, &mut |record| {
        let is_shared = record.get(id_bytes).is_some_and(|flags| flags & SHARED != 0);
        let message = match is_shared {
            true => Err(in_file_heap()),
            false => heap.object(structure, record),
        };
        all.add(message.and_then(|message| attribute(structure, &message)));
        Ok(())
    })
}

fn attribute(structure: &Structure, message: &[u8]) -> Outcome<Attribute> {
    structure.charge(ATTRIBUTE_BYTES)?;
    let mut fields = structure.cursor(message);
    let (version, flags) = (fields.u8()?, fields.u8()?);
    let (name_bytes, type_bytes) = (usize::from(fields.u16()?), usize::from(fields.u16()?));
    let space_bytes = usize::from(fields.u16()?);
    // The first version fills each part to a multiple of eight bytes, and the third one has the
    // encoding of the name.
    let room = |bytes: usize| if version == 1 { bytes.next_multiple_of(8) } else { bytes };
    match version {
        1 | 2 => {}
        3 => fields.skip(1)?,
        _ => return Err(Fault::damaged(format!("an attribute has the version {version}"))),
    }
    let flags = if version == 1 { 0 } else { flags };
    let name = fields.take(room(name_bytes))?;
    let name = name.split(|byte| *byte == 0).next().map(text_of).unwrap_or_default();
    let datatype = fields.take(room(type_bytes))?;
    let space = fields.take(room(space_bytes))?;
    let datatype = match flags & SHARED_DATATYPE {
        0 => Cow::Borrowed(datatype),
        _ => shared(structure, datatype, DATATYPE)?.into(),
    };
    let space = match flags & SHARED_DATASPACE {
        0 => Cow::Borrowed(space),
        _ => shared(structure, space, DATASPACE)?.into(),
    };
    Ok(Attribute {
        name,
        datatype: Datatype::parse(structure.cursor(&datatype))?,
        space: Dataspace::parse(structure.cursor(&space))?,
        bytes: fields.rest().to_vec(),
    })
}

/// The texts of an attribute, without the bytes that fill them. `None` for other values and for
/// more than `values_max` texts.
pub(super) fn texts(
    structure: &Structure,
    heap: &mut GlobalHeap,
    attribute: &Attribute,
    values_max: usize,
) -> Option<Vec<String>> {
    match attribute.datatype {
        Datatype::Text { bytes, padding } => {
            let values = attribute.values(usize::try_from(bytes).ok()?, values_max)?;
            Some(values.into_iter().map(|value| text_of(unfilled(value, padding))).collect())
        }
        Datatype::TextOfAnyLength => {
            let bytes = 8 + structure.widths.address;
            let values = attribute.values(bytes, values_max)?;
            let text = |value| text_in(structure, heap, structure.cursor(value)).ok();
            values.into_iter().map(text).collect()
        }
        _ => None,
    }
}

/// A text of a fixed length: it ends at a NUL, or is filled with NULs or with spaces.
fn unfilled(value: &[u8], padding: u8) -> &[u8] {
    let fill = match padding {
        0 => return value.split(|byte| *byte == 0).next().unwrap_or_default(),
        2 => b' ',
        _ => 0,
    };
    let end = value.iter().rposition(|byte| *byte != fill).map_or(0, |last| last + 1);
    value.get(..end).unwrap_or_default()
}

/// A text in the global heap.
fn text_in(
    structure: &Structure,
    heap: &mut GlobalHeap,
    mut fields: FieldCursor<'_>,
) -> Outcome<String> {
    let length = fields.count(4)?;
    let Some(collection) = fields.address()?.filter(|_| length > 0) else {
        return Ok(String::new());
    };
    let object = heap.object(structure, collection, fields.u32()?)?;
    let text = object.get(..length).ok_or_else(|| Fault::damaged("a text ends early"))?;
    Ok(text_of(unfilled(text, 0)))
}
