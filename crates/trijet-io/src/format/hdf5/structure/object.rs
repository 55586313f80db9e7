//! Objects: groups, data sets and named types, with their messages.

use super::fault::{Fault, Outcome};
use super::header::{
    DATASPACE, DATATYPE, LAYOUT, LINK, LINK_INFO, Message, SYMBOL_TABLE, messages,
};
use super::storage::Structure;
use std::borrow::Cow;

/// An object of a file. Two paths lead to the same object if its address is the same.
#[derive(Debug)]
pub(in crate::format::hdf5) struct Object {
    pub(in crate::format::hdf5) address: u64,
    messages: Vec<Message>,
}

impl Object {
    pub(super) fn read(structure: &Structure, address: u64) -> Outcome<Self> {
        Ok(Self { address, messages: messages(structure, address)? })
    }

    fn has(&self, kind: u16) -> bool {
        self.messages.iter().any(|message| message.kind == kind)
    }

    pub(in crate::format::hdf5) fn is_group(&self) -> bool {
        [SYMBOL_TABLE, LINK_INFO, LINK].into_iter().any(|kind| self.has(kind))
    }

    pub(in crate::format::hdf5) fn is_data_set(&self) -> bool {
        [DATASPACE, DATATYPE, LAYOUT].into_iter().all(|kind| self.has(kind))
    }

    pub(super) fn all(&self, kind: u16) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }

    /// The body of the first message of a type, which may be in another object.
    pub(super) fn body(&self, structure: &Structure, kind: u16) -> Outcome<Option<Cow<'_, [u8]>>> {
        let Some(message) = self.all(kind).next() else { return Ok(None) };
        match message.is_shared {
            true => Ok(Some(shared(structure, &message.body, kind)?.into())),
            false => Ok(Some((&message.body[..]).into())),
        }
    }

    /// The body of a message that a data set has.
    pub(super) fn needed(&self, structure: &Structure, kind: u16) -> Outcome<Cow<'_, [u8]>> {
        let missing = || Fault::damaged(format!("there is no message of the type {kind}"));
        self.body(structure, kind)?.ok_or_else(missing)
    }
}

/// The fault of a message that is in the heap of all objects, which is not read.
pub(super) fn in_file_heap() -> Fault {
    let cause = "its description is in a heap of the file (H5Pset_shared_mesg_index)";
    Fault::Unsupported(cause.to_owned())
}

/// The body of a message that a shared message names.
pub(super) fn shared(structure: &Structure, place: &[u8], kind: u16) -> Outcome<Vec<u8>> {
    let mut fields = structure.cursor(place);
    let (version, location) = (fields.u8()?, fields.u8()?);
    match (version, location) {
        // The earlier versions have no other location than an object. The first one has the start
        // of an entry of a group: the offset of a name, which is not used, and the address.
        (1, _) => {
            fields.skip(6)?;
            fields.length()?;
        }
        (2, _) | (3, 2) => {}
        (3, 1) => return Err(in_file_heap()),
        _ => {
            let cause = format!("a shared message has the version {version} and type {location}");
            return Err(Fault::damaged(cause));
        }
    }
    let object = Object::read(structure, fields.defined_address()?)?;
    let own = object.messages.into_iter().find(|message| message.kind == kind);
    match own {
        Some(Message { is_shared: false, body, .. }) => Ok(body),
        _ => Err(Fault::damaged("a shared message is not where it should be")),
    }
}
