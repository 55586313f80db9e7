//! B-trees of version 2, which index links and attributes by their names, chunks, and large objects
//! of heaps.

use super::fault::{Fault, Outcome};
use super::storage::Structure;

/// Maximum number of levels. A tree of 2^64 records has fewer.
const DEPTH_MAX: u16 = 64;
/// The bytes of a node beside its records and its children: signature, version, type, checksum.
const NODE_BYTES: u64 = 10;

/// A tree, whose header is read.
#[derive(Debug)]
pub(super) struct BTree {
    /// The number of the type of its records.
    pub(super) kind: u8,
    pub(super) record_bytes: u16,
    root: Option<u64>,
    root_records: u16,
    /// By the height of a node over the leaves.
    levels: Vec<Level>,
}

/// The sizes of the numbers in a node.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// The bytes of the number of all records below a child. 0 for a child that is a leaf.
    total_bytes: usize,
    /// The bytes of the number of records of a child.
    count_bytes: usize,
}

/// A node that is not visited yet.
struct OpenTreeNode {
    address: u64,
    records: u64,
    height: usize,
}

/// The bytes of numbers up to a limit.
fn bytes_for(limit: u64) -> u64 {
    u64::from(limit.max(1).ilog2() / 8 + 1)
}

impl BTree {
    pub(super) fn read(structure: &Structure, address: u64) -> Outcome<Self> {
        let widths = structure.widths;
        let length = 22 + (widths.address + widths.length) as u64;
        let read = structure.checked(address, length, "BTHD")?;
        let mut fields = structure.cursor(&read);
        let (version, kind) = (fields.u8()?, fields.u8()?);
        if version != 0 {
            return Err(Fault::damaged(format!("a B-tree has the version {version}")));
        }
        let (node_bytes, record_bytes, depth) = (fields.u32()?, fields.u16()?, fields.u16()?);
        fields.skip(2)?;
        let (root, root_records) = (fields.address()?, fields.u16()?);
        if record_bytes == 0 || depth > DEPTH_MAX {
            let cause = format!("a B-tree has {depth} levels and records of {record_bytes} bytes");
            return Err(Fault::damaged(cause));
        }
        let space = u64::from(node_bytes).saturating_sub(NODE_BYTES);
        let levels = levels(space, u64::from(record_bytes), depth, widths.address as u64)?;
        Ok(Self { kind, record_bytes, root, root_records, levels })
    }

    /// Calls `visit` with every record.
    pub(super) fn each_record(
        &self,
        structure: &Structure,
        visit: &mut dyn FnMut(&[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        let height = self.levels.len().saturating_sub(1);
        let root = self.root.map(|address| OpenTreeNode {
            address,
            records: u64::from(self.root_records),
            height,
        });
        let mut open: Vec<OpenTreeNode> = root.into_iter().collect();
        while let Some(node) = open.pop() {
            let below = self.visit_node(structure, &node, visit)?;
            open.extend(below);
        }
        Ok(())
    }

    /// Visits the records of a node, and returns its children.
    fn visit_node(
        &self,
        structure: &Structure,
        node: &OpenTreeNode,
        visit: &mut dyn FnMut(&[u8]) -> Outcome<()>,
    ) -> Outcome<Vec<OpenTreeNode>> {
        let is_leaf = node.height == 0;
        let Level { total_bytes, count_bytes } = self.levels[node.height];
        let child_bytes = (structure.widths.address + count_bytes + total_bytes) as u64;
        let children = if is_leaf { 0 } else { node.records.saturating_add(1) };
        let records = node.records.checked_mul(u64::from(self.record_bytes));
        let bytes = children.checked_mul(child_bytes).zip(records);
        let bytes = bytes.and_then(|(children, records)| children.checked_add(records));
        let bytes = bytes.and_then(|bytes| bytes.checked_add(NODE_BYTES));
        let bytes = bytes.ok_or_else(|| Fault::damaged("a node of a B-tree is too large"))?;
        let read = structure.checked(node.address, bytes, if is_leaf { "BTLF" } else { "BTIN" })?;
        let mut fields = structure.cursor(&read);
        let (version, kind) = (fields.u8()?, fields.u8()?);
        if version != 0 || kind != self.kind {
            let cause = format!("a node of a B-tree has the version {version} and type {kind}");
            return Err(Fault::damaged(cause));
        }
        for _ in 0..node.records {
            visit(fields.take(usize::from(self.record_bytes))?)?;
        }
        let mut below = Vec::new();
        for _ in 0..children {
            let (address, records) = (fields.defined_address()?, fields.number(count_bytes)?);
            fields.skip(total_bytes)?;
            below.push(OpenTreeNode { address, records, height: node.height - 1 });
        }
        Ok(below)
    }
}

/// The sizes of the numbers in the nodes of each height, from the maximum numbers of records.
fn levels(space: u64, record: u64, depth: u16, address: u64) -> Outcome<Vec<Level>> {
    let small = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let leaf_records = space / record;
    let count_bytes = bytes_for(leaf_records);
    let mut levels = vec![Level { total_bytes: 0, count_bytes: small(count_bytes) }];
    // The maximum number of records below a child, and the bytes of this number.
    let (mut below, mut total_bytes) = (leaf_records, 0);
    for _ in 0..depth {
        levels.push(Level { total_bytes: small(total_bytes), count_bytes: small(count_bytes) });
        let child = address + count_bytes + total_bytes;
        let records = space.saturating_sub(child) / (record + child);
        if records == 0 {
            return Err(Fault::damaged("the nodes of a B-tree are too small"));
        }
        below = (records + 1).saturating_mul(below).saturating_add(records);
        total_bytes = bytes_for(below);
    }
    Ok(levels)
}
