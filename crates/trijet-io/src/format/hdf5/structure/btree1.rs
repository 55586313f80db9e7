//! B-trees of version 1, which index the links of groups and chunks.

use super::fault::{Fault, Outcome};
use super::storage::Structure;

/// The form of a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeForm {
    /// The number of the type of its nodes.
    pub(super) kind: u8,
    pub(super) key_bytes: usize,
}

/// A node that is not visited yet.
struct OpenNode {
    address: u64,
    /// The level that the node must have. `None` for the root.
    level: Option<u8>,
}

/// Calls `visit` with every child of the leaves, and with the key before it.
///
/// The levels of the nodes decrease on every way, so no way is endless.
pub(super) fn each_leaf(
    structure: &Structure,
    root: u64,
    form: TreeForm,
    visit: &mut dyn FnMut(&[u8], u64) -> Outcome<()>,
) -> Outcome<()> {
    let mut open = vec![OpenNode { address: root, level: None }];
    while let Some(node) = open.pop() {
        let below = children(structure, &node, form, visit)?;
        open.extend(below);
    }
    Ok(())
}

/// Visits the children of a leaf, and returns the children of another node.
fn children(
    structure: &Structure,
    node: &OpenNode,
    form: TreeForm,
    visit: &mut dyn FnMut(&[u8], u64) -> Outcome<()>,
) -> Outcome<Vec<OpenNode>> {
    let address_bytes = structure.widths.address;
    let prefix_bytes = 8 + 2 * address_bytes as u64;
    let prefix = structure.signed(node.address, prefix_bytes, "TREE")?;
    let mut fields = structure.cursor(&prefix);
    let (kind, level, count) = (fields.u8()?, fields.u8()?, fields.u16()?);
    if kind != form.kind || node.level.is_some_and(|wanted| wanted != level) {
        let cause = format!("a node of a B-tree has the type {kind} and the level {level}");
        return Err(Fault::damaged(cause));
    }
    let entry_bytes = form.key_bytes + address_bytes;
    let start = node.address.checked_add(prefix_bytes);
    let start = start.ok_or_else(|| Fault::damaged("an address is too large"))?;
    let entries = structure.read(start, u64::from(count) * entry_bytes as u64)?;
    let mut fields = structure.cursor(&entries);
    let mut below = Vec::new();
    for _ in 0..count {
        let key = fields.take(form.key_bytes)?;
        let child = fields.defined_address()?;
        match level.checked_sub(1) {
            None => visit(key, child)?,
            level => below.push(OpenNode { address: child, level }),
        }
    }
    Ok(below)
}
