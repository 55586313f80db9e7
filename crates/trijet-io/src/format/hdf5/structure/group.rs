//! Groups: the links of an object, in the older form or one of the newer ones.

use super::btree1::{TreeForm, each_leaf};
use super::btree2::BTree;
use super::fault::{Fault, Outcome};
use super::fractal_heap::FractalHeap;
use super::header::{LINK, LINK_INFO, SYMBOL_TABLE};
use super::links::{LINK_BYTES, Link, LinkEnd, link};
use super::local_heap::LocalHeap;
use super::object::Object;
use super::storage::Structure;

/// The number of the type of the nodes of a tree of links, and of the records of links by name.
const LINK_NODES: u8 = 0;
const LINKS_BY_NAME: u8 = 5;
/// The number of the kind of a cached entry that is a soft link.
const CACHED_SOFT: u32 = 2;
/// The bytes before the number of an object in a record: the hash of the name.
const HASH_BYTES: u16 = 4;

/// The links of a group.
pub(super) fn links_of(structure: &Structure, group: &Object) -> Outcome<Vec<Link>> {
    let mut found = Vec::new();
    let mut read = || {
        if let Some(body) = group.body(structure, SYMBOL_TABLE)? {
            add_symbols(structure, &body, &mut found)?;
        }
        for message in group.all(LINK) {
            structure.charge(LINK_BYTES)?;
            found.push(link(structure.cursor(&message.body))?);
        }
        if let Some(body) = group.body(structure, LINK_INFO)? {
            add_dense(structure, &body, &mut found)?;
        }
        Ok(())
    };
    read().map_err(|fault: Fault| fault.within("a group"))?;
    Ok(found)
}

/// Adds the links of a group of the older form.
fn add_symbols(structure: &Structure, body: &[u8], found: &mut Vec<Link>) -> Outcome<()> {
    let mut fields = structure.cursor(body);
    let tree = fields.defined_address()?;
    let names = LocalHeap::read(structure, fields.defined_address()?)?;
    let form = TreeForm { kind: LINK_NODES, key_bytes: structure.widths.length };
    each_leaf(structure, tree, form, &mut |_, node| add_node(structure, &names, node, found))
}

/// Adds the links of a node of symbols.
fn add_node(
    structure: &Structure,
    names: &LocalHeap,
    node: u64,
    found: &mut Vec<Link>,
) -> Outcome<()> {
    let prefix = structure.signed(node, 8, "SNOD")?;
    let mut fields = structure.cursor(&prefix);
    fields.skip(2)?;
    let count = fields.u16()?;
    let entry_bytes = 24 + (structure.widths.length + structure.widths.address) as u64;
    let start = node.checked_add(8).ok_or_else(|| Fault::damaged("an address is too large"))?;
    let entries = structure.read(start, u64::from(count) * entry_bytes)?;
    let mut fields = structure.cursor(&entries);
    for _ in 0..count {
        let name = names.text(structure, fields.length()?)?;
        let object = fields.address()?;
        let cached = fields.u32()?;
        fields.skip(4)?;
        let mut scratch = fields.of(fields.rest());
        fields.skip(16)?;
        let end = match (cached, object) {
            (CACHED_SOFT, _) => LinkEnd::Soft(names.text(structure, u64::from(scratch.u32()?))?),
            (_, Some(object)) => LinkEnd::Hard(object),
            (_, None) => return Err(Fault::damaged("a link leads nowhere")),
        };
        structure.charge(LINK_BYTES)?;
        found.push(Link { name, end });
    }
    Ok(())
}

/// Adds the links that are in a heap.
fn add_dense(structure: &Structure, body: &[u8], found: &mut Vec<Link>) -> Outcome<()> {
    let mut fields = structure.cursor(body);
    let (version, flags) = (fields.u8()?, fields.u8()?);
    if version != 0 {
        return Err(Fault::damaged(format!("the facts about links have the version {version}")));
    }
    fields.skip(if flags & 1 == 0 { 0 } else { 8 })?;
    let Some((heap, names)) = fields.address()?.zip(fields.address()?) else { return Ok(()) };
    let mut heap = FractalHeap::read(structure, heap)?;
    let names = BTree::read(structure, names)?;
    if names.kind != LINKS_BY_NAME {
        return Err(Fault::damaged(format!("the index of links has the type {}", names.kind)));
    }
    heap.check_index(&names, HASH_BYTES)?;
    names.each_record(structure, &mut |record| {
        let id = record.get(usize::from(HASH_BYTES)..).unwrap_or_default();
        let message = heap.object(structure, id)?;
        structure.charge(LINK_BYTES)?;
        found.push(link(structure.cursor(&message))?);
        Ok(())
    })
}
