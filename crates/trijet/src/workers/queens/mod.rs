//! N queens. A task is a board with queens in its first rows. A task with few queens makes a task
//! for each board with one more queen. A task with more queens counts the solutions of its board.
//! The number of tasks is known only at the end.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a payload holds numbers of fewer bits, as the kernel takes them"
)]

use crate::device::args::ArgBlock;
use crate::launch::Update;
use crate::workers::{Body, Kinds, Program, ProgramSpec, Worker, WorkerTask};

/// The kinds of tasks of [`QUEENS`]. There is one kind.
#[derive(Debug, Clone, Copy)]
pub struct Boards;

impl Kinds for Boards {
    const KINDS: &'static [(&'static str, Body)] = &[("place", place)];
}

/// The task of the empty board with `n` columns, from 1 to 15.
///
/// # Panics
/// If `n` is not in `1..=15`.
#[must_use]
pub const fn root(n: u8) -> WorkerTask {
    assert!(n >= 1 && n <= 15, "a board has 1 to 15 columns");
    WorkerTask::new(0, (n as u64) << 52)
}

/// A board with queens in its first rows.
#[derive(Debug, Clone, Copy)]
struct Board {
    columns: u32,
    left: u32,
    right: u32,
    row: u32,
    n: u32,
}

impl Board {
    fn of(payload: u64) -> Self {
        let part = |at: u32, bits: u32| (payload >> at) as u32 & ((1 << bits) - 1);
        let (columns, left, right) = (part(0, 16), part(16, 16), part(32, 16));
        Self { columns, left, right, row: part(48, 4), n: part(52, 4) }
    }

    fn payload(self) -> u64 {
        let [columns, left, right, row, n] =
            [self.columns, self.left, self.right, self.row, self.n].map(u64::from);
        columns | left << 16 | right << 32 | row << 48 | n << 52
    }

    /// The boards that have one more queen than this board.
    fn next(self) -> impl Iterator<Item = Self> {
        let all = (1_u32 << self.n) - 1;
        let open = all & !(self.columns | self.left | self.right);
        (0..self.n).map(|column| 1 << column).filter(move |bit| open & bit != 0).map(move |bit| {
            Self {
                columns: self.columns | bit,
                left: ((self.left | bit) << 1) & all,
                right: (self.right | bit) >> 1,
                row: self.row + 1,
                n: self.n,
            }
        })
    }

    fn count(self) -> u64 {
        if self.row == self.n { 1 } else { self.next().map(Self::count).sum() }
    }
}

/// The number of ways to place `n` queens, counted on the host.
#[must_use]
pub fn solutions(n: u8) -> u64 {
    Board::of(root(n).payload()).count()
}

fn place(w: &mut Worker<'_>, payload: u64) {
    let (board, cut) = (Board::of(payload), w.scalar::<u32>(2));
    if board.row >= board.n {
        return;
    }
    let mut found = 0;
    for next in board.next() {
        let is_task = board.row < cut && next.row < next.n && w.spawn(0, next.payload());
        found += if is_task { 0 } else { next.count() };
    }
    w.shared::<u64>(0).update(0, |total| total.wrapping_add(found));
}

fn check(args: &ArgBlock) -> Result<(), String> {
    match args.spans().first() {
        Some(total) if total.elements == 1 => Ok(()),
        _ => Err("one word for the number of solutions is needed".to_owned()),
    }
}

/// The parameters of [`QUEENS`].
pub type QueensParams = (Update<u64>, u32);

/// Counts the ways to place `n` queens on a board of `n` columns. Its arguments are
/// `(&mut total, cut)`. The number of ways is added to `total`. If a board has fewer than `cut`
/// queens, its task makes a task for each next board. Otherwise, its task counts the solutions. The
/// initial task is [`root`].
pub static QUEENS: Program<Boards, QueensParams> = {
    let spec =
        ProgramSpec::new("queens", include_str!("queens.cu"), "u64* total, u64 length, u32 cut");
    // SAFETY: the body adds to the first word of `total` only, atomically, and the check demands
    // that `total` has a word. A payload is a board of at most 15 columns. Each level of the stacks
    // takes a column, and each stack has 16 entries.
    unsafe { Program::declare(spec.check(check).ptx(include_str!("queens.ptx"))) }
};
