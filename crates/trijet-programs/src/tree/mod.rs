//! An unbalanced tree that is not known before the run: each node makes its children.

use crate::mix::mix;
use trijet::kernels::{ArgBlock, Update};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Worker, WorkerTask};

/// The kinds of tasks of [`TREE`]. There is one kind.
#[derive(Debug, Clone, Copy)]
pub struct TreeNodes;

impl Kinds for TreeNodes {
    const KINDS: &'static [(&'static str, Body)] = &[("node", node)];
}

/// The task of the root of a tree with this seed.
#[must_use]
pub const fn root(seed: u32) -> WorkerTask {
    WorkerTask::new(0, mix(seed) as u64)
}

/// The hashes of the children of a node. A node has at most `most` children, and no children at the
/// depth `limit`.
fn children(hash: u32, depth: u32, limit: u32, most: u32) -> impl Iterator<Item = u32> {
    let most = if depth < limit { most } else { 0 };
    let many = if most == 0 { 0 } else { mix(hash ^ 0x9e37_79b9) % (most + 1) };
    (0..many).map(move |at| mix(hash.wrapping_add(at + 1)))
}

/// The number of nodes of a tree, and the sum of their hashes.
#[must_use]
pub fn sums(seed: u32, limit: u32, most: u32) -> [u64; 2] {
    let (mut stack, mut sums) = (vec![(mix(seed), 0)], [0; 2]);
    while let Some((hash, depth)) = stack.pop() {
        sums = [sums[0] + 1, sums[1] + u64::from(hash)];
        stack.extend(children(hash, depth, limit, most).map(|child| (child, depth + 1)));
    }
    sums
}

fn node(w: &mut Worker<'_>, payload: u64) {
    let (hash, depth) = (payload as u32, (payload >> 32) as u32 & 0xffff);
    let (limit, most) = (w.scalar::<u32>(2), w.scalar::<u32>(3));
    w.shared::<u64>(0).update(0, |nodes| nodes.wrapping_add(1));
    w.shared::<u64>(0).update(1, |sum| sum.wrapping_add(u64::from(hash)));
    for child in children(hash, depth, limit, most) {
        w.must_spawn(0, u64::from(depth + 1) << 32 | u64::from(child));
    }
}

fn check(args: &ArgBlock) -> Result<(), String> {
    let (sums, depth, children) =
        (args.spans()[0].elements, args.scalar::<u32>(2), args.scalar::<u32>(3));
    if sums != 2 || depth > 0xffff || children > 32 {
        return Err(format!(
            "{sums} sums (2 are needed), a depth of {depth} (at most 65535), {children} children (at most 32)"
        ));
    }
    Ok(())
}

/// The parameters of [`TREE`].
pub type TreeParams = (Update<u64>, u32, u32);

/// Visits a tree. Its arguments are `(&mut sums, depth, children)`. The number of nodes and the sum
/// of their hashes are added to `sums`. A node at a smaller depth than `depth` has 0 to `children`
/// children. The initial task is [`root`].
pub static TREE: Program<TreeNodes, TreeParams> = {
    let bodies = concat!(include_str!("../mix.cu"), include_str!("tree.cu"));
    let spec = ProgramSpec::new("tree", bodies, "u64* sums, u64 length, u32 depth, u32 children");
    // SAFETY: the body atomically adds to the first two words of `sums` only. The check demands
    // that the span has two words.
    unsafe { Program::declare(spec.check(check)) }
};
