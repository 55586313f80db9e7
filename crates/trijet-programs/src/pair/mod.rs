//! Two kinds of tasks. Each kind makes tasks of the other kind, like the two procedures in
//! Whippletree.

use trijet::kernels::{ArgBlock, Update};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Worker, WorkerTask};

/// The kinds of tasks of [`PAIR`].
#[derive(Debug, Clone, Copy)]
pub struct PairKinds;

impl Kinds for PairKinds {
    const KINDS: &'static [(&'static str, Body)] =
        &[("even", |w, n| half(w, n, 0)), ("odd", |w, n| half(w, n, 1))];
}

/// The initial task, which starts the recursion at `n`.
#[must_use]
pub const fn first(n: u8) -> WorkerTask {
    WorkerTask::new(0, n as u64)
}

/// The number of tasks of each kind in the recursion from `n`.
#[must_use]
pub fn counts(n: u8) -> [u64; 2] {
    // For a task at `n`: the number of tasks of its own kind, including itself, and the number of
    // tasks of the other kind.
    let mut of = vec![[1, 0], [1, 0]];
    for at in 2..=usize::from(n) {
        let (a, b): ([u64; 2], [u64; 2]) = (of[at - 1], of[at - 2]);
        of.push([1 + a[1] + b[1], a[0] + b[0]]);
    }
    of[usize::from(n)]
}

fn half(w: &mut Worker<'_>, n: u64, kind: u8) {
    w.shared::<u64>(0).update(usize::from(kind), |count| count.wrapping_add(1));
    if n > 1 {
        w.must_spawn(1 - kind, n - 1);
        w.must_spawn(1 - kind, n - 2);
    }
}

fn check(args: &ArgBlock) -> Result<(), String> {
    match args.spans().first() {
        Some(counts) if counts.elements == 2 => Ok(()),
        _ => Err("two words for the counts are needed".to_owned()),
    }
}

/// The parameters of [`PAIR`].
pub type PairParams = (Update<u64>,);

/// Counts the tasks of each kind. Its argument is `(&mut counts,)`, and its initial task is
/// [`first`].
pub static PAIR: Program<PairKinds, PairParams> = {
    let spec = ProgramSpec::new("pair", include_str!("pair.cu"), "u64* counts, u64 length");
    // SAFETY: the bodies atomically add to the first two words only. The check demands that the
    // span has two words.
    unsafe { Program::declare(spec.check(check)) }
};
