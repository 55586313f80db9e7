//! The program of the workers. It has one kind of task, with a body in CUDA C++ and one in Rust.

use trijet::kernels::Update;
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Worker};

/// The body for a GPU. If a part is large, two lanes each create a task for a half. Otherwise each
/// number of the part has a lane.
const BODIES: &str = "
DEV void part(Worker& w, const Args& args, u64 payload) {
  const u64 first = payload >> 28, count = payload & 0xfffffff, half = count / 2;
  if (count > 32) {
    const u64 mine = lane_id() == 0 ? first << 28 | half : (first + half) << 28 | (count - half);
    return must_spawn(w, lane_id() < 2, PART, mine);
  }
  u64 steps = 0;
  if (lane_id() < count)
    for (u64 n = first + lane_id(); n > 1; ++steps) n = n % 2 ? 3 * n + 1 : n / 2;
  atomicAdd(args.sum, steps);
}";

/// The kinds of tasks of the program: only `part`.
pub(crate) struct Parts;

impl Kinds for Parts {
    const KINDS: &'static [(&'static str, Body)] = &[("part", part)];
}

/// The number of steps from a number to 1.
pub(crate) fn steps(mut n: u64) -> u64 {
    let mut steps = 0;
    while n > 1 {
        (n, steps) = (if n % 2 == 1 { 3 * n + 1 } else { n / 2 }, steps + 1);
    }
    steps
}

fn part(w: &mut Worker<'_>, payload: u64) {
    let (first, count) = (payload >> 28, payload & 0xfff_ffff);
    if count > 32 {
        let half = count / 2;
        w.must_spawn(0, first << 28 | half);
        return w.must_spawn(0, (first + half) << 28 | (count - half));
    }
    let all = (first..first + count).map(steps).sum::<u64>();
    w.shared::<u64>(0).update(0, |sum| sum + all);
}

/// Sums the steps of a range of numbers. A payload has the first number, shifted by 28 bits, and
/// the count of numbers in its lower 28 bits.
pub(crate) static COLLATZ: Program<Parts, (Update<u64>,)> = {
    let spec = ProgramSpec::new("collatz", BODIES, "u64* sum, u64 length").check(|args| {
        let has_one = args.spans()[0].elements == 1;
        has_one.then_some(()).ok_or_else(|| "one sum is needed".to_owned())
    });
    // SAFETY: the body adds to the first word only, atomically, and the check demands one.
    unsafe { Program::declare(spec) }
};
