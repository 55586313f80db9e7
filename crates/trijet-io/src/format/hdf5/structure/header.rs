//! Object headers: the messages that describe a group or a data set.

use super::fault::{Fault, Outcome};
use super::storage::Structure;
use std::collections::BTreeSet;

/// The numbers of the types of messages.
pub(super) const DATASPACE: u16 = 0x1;
pub(super) const LINK_INFO: u16 = 0x2;
pub(super) const DATATYPE: u16 = 0x3;
pub(super) const OLD_FILL_VALUE: u16 = 0x4;
pub(super) const FILL_VALUE: u16 = 0x5;
pub(super) const LINK: u16 = 0x6;
pub(super) const EXTERNAL_FILES: u16 = 0x7;
pub(super) const LAYOUT: u16 = 0x8;
pub(super) const FILTERS: u16 = 0xb;
pub(super) const ATTRIBUTE: u16 = 0xc;
/// A gap.
const NIL: u16 = 0;
const CONTINUATION: u16 = 0x10;
pub(super) const SYMBOL_TABLE: u16 = 0x11;
pub(super) const ATTRIBUTE_INFO: u16 = 0x15;
/// The highest type of a message of the specification.
const KNOWN_MAX: u16 = 0x18;

/// The bytes that a message counts as, beside its body.
const MESSAGE_BYTES: u64 = size_of::<Message>() as u64;

/// The flags of a message: its body is elsewhere, and a reader must know its type.
pub(super) const SHARED: u8 = 1 << 1;
const MUST_BE_KNOWN: u8 = 1 << 7;

/// A message of an object header.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: u16,
    /// Whether the body is the place of the message that is meant.
    pub(super) is_shared: bool,
    pub(super) body: Vec<u8>,
}

/// A block of messages.
#[derive(Debug, Clone, Copy)]
struct MessageBlock {
    address: u64,
    bytes: u64,
}

/// The form of the messages of a header.
#[derive(Debug, Clone, Copy)]
enum MessageForm {
    First,
    /// The second version, which may number messages in the order of their creation.
    Second {
        is_numbered: bool,
    },
}

/// The messages of the header at an address, with its continuation blocks.
pub(super) fn messages(structure: &Structure, address: u64) -> Outcome<Vec<Message>> {
    let start = structure.read(address, 4)?;
    let found =
        if start == b"OHDR" { second(structure, address) } else { first(structure, address) };
    found.map_err(|fault| fault.within("an object header"))
}

fn first(structure: &Structure, address: u64) -> Outcome<Vec<Message>> {
    let prefix = structure.read(address, 16)?;
    let mut fields = structure.cursor(&prefix);
    let version = fields.u8()?;
    if version != 1 {
        return Err(Fault::damaged(format!("it has the version {version}")));
    }
    fields.skip(7)?;
    let bytes = u64::from(fields.u32()?);
    let body = structure.read(after(address, 16)?, bytes)?;
    all_messages(structure, MessageForm::First, &body)
}

fn second(structure: &Structure, address: u64) -> Outcome<Vec<Message>> {
    let prefix = structure.signed(address, 6, "OHDR")?;
    let mut fields = structure.cursor(&prefix);
    let (version, flags) = (fields.u8()?, fields.u8()?);
    if version != 2 {
        return Err(Fault::damaged(format!("it has the version {version}")));
    }
    // Four times, and the limits between the two forms of attributes.
    let times = if flags & 0x20 == 0 { 0 } else { 16 };
    let limits = if flags & 0x10 == 0 { 0 } else { 4 };
    let size_bytes = 1_usize << (flags & 3);
    let fixed = 6 + times + limits;
    let size = structure.read(after(address, fixed)?, size_bytes as u64)?;
    let size = structure.cursor(&size).number(size_bytes)?;
    let start = fixed + size_bytes as u64;
    let whole = size.checked_add(start + 4).ok_or_else(|| Fault::damaged("it is too large"))?;
    let read = structure.summed(address, whole, "OHDR")?;
    let mut body = structure.cursor(&read);
    body.take(usize::try_from(start).map_err(|_| Fault::damaged("it is too large"))?)?;
    all_messages(structure, MessageForm::Second { is_numbered: flags & 4 != 0 }, body.rest())
}

/// The messages of the first block and of all blocks after it.
fn all_messages(structure: &Structure, form: MessageForm, first: &[u8]) -> Outcome<Vec<Message>> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut open = add_messages(structure, first, form, &mut found)?;
    while let Some(block) = open.pop() {
        if !seen.insert(block.address) {
            return Err(Fault::damaged("its blocks follow each other in a circle"));
        }
        let bytes = match form {
            MessageForm::First => structure.read(block.address, block.bytes)?,
            MessageForm::Second { .. } => structure.checked(block.address, block.bytes, "OCHK")?,
        };
        open.extend(add_messages(structure, &bytes, form, &mut found)?);
    }
    Ok(found)
}

/// Adds the messages of a block. Returns the blocks that continue it.
fn add_messages(
    structure: &Structure,
    block: &[u8],
    form: MessageForm,
    found: &mut Vec<Message>,
) -> Outcome<Vec<MessageBlock>> {
    let (mut fields, mut more) = (structure.cursor(block), Vec::new());
    let prefix = match form {
        MessageForm::First => 8,
        MessageForm::Second { is_numbered } => {
            if is_numbered {
                6
            } else {
                4
            }
        }
    };
    // A gap at the end is shorter than a message.
    while fields.rest().len() >= prefix {
        let (kind, size, flags);
        match form {
            MessageForm::First => {
                (kind, size, flags) = (fields.u16()?, fields.u16()?, fields.u8()?);
                fields.skip(3)?;
            }
            MessageForm::Second { is_numbered } => {
                (kind, size, flags) = (u16::from(fields.u8()?), fields.u16()?, fields.u8()?);
                fields.skip(if is_numbered { 2 } else { 0 })?;
            }
        }
        let bytes = fields.take(usize::from(size))?;
        match kind {
            NIL => {}
            CONTINUATION => {
                let mut body = fields.of(bytes);
                more.push(MessageBlock { address: body.defined_address()?, bytes: body.length()? });
            }
            kind if kind > KNOWN_MAX && flags & MUST_BE_KNOWN != 0 => {
                let cause = format!("an object has a message of the unknown type {kind}");
                return Err(Fault::Unsupported(cause));
            }
            _ => {
                structure.charge(MESSAGE_BYTES)?;
                let is_shared = flags & SHARED != 0;
                found.push(Message { kind, is_shared, body: bytes.to_vec() });
            }
        }
    }
    Ok(more)
}

fn after(address: u64, bytes: u64) -> Outcome<u64> {
    address.checked_add(bytes).ok_or_else(|| Fault::damaged("an address is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, a message of four bytes took eight times its size.
    #[test]
    fn gaps_are_no_messages_and_messages_count_their_memory() {
        // Three gaps without bytes, and a message of one byte.
        let block = [&[0; 12][..], &[1, 1, 0, 0, 7]].concat();
        let structure = Structure::of_bytes(&block);
        let left = structure.left();
        let form = MessageForm::Second { is_numbered: false };
        let found = all_messages(&structure, form, &block).unwrap();
        let found: Vec<_> = found.iter().map(|one| (one.kind, &one.body[..])).collect();
        assert_eq!(found, [(DATASPACE, &[7][..])]);
        assert_eq!(left - structure.left(), MESSAGE_BYTES);
    }
}
