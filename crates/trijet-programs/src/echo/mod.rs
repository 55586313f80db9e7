//! Tasks that only send an answer, for tests and benchmarks of feeds.

use trijet::kernels::{ArgBlock, Update};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Worker};

/// The kinds of tasks of [`ECHO`]. There is one kind.
#[derive(Debug, Clone, Copy)]
pub struct Echoes;

impl Kinds for Echoes {
    const KINDS: &'static [(&'static str, Body)] = &[("echo", echo)];
}

/// The answer to a task with this payload.
#[must_use]
pub const fn echoed(payload: u64) -> u64 {
    payload.wrapping_mul(2).wrapping_add(1)
}

fn echo(w: &mut Worker<'_>, payload: u64) {
    w.shared::<u64>(0).update(0, |sum| sum.wrapping_add(payload));
    w.answer(echoed(payload));
}

fn check(args: &ArgBlock) -> Result<(), String> {
    match args.spans().first() {
        Some(sum) if sum.elements == 1 => Ok(()),
        _ => Err("one word for the sum is needed".to_owned()),
    }
}

/// Adds up the payloads of its tasks, and answers each task with [`echoed`]. Its argument is
/// `(&mut sum,)`.
pub static ECHO: Program<Echoes, EchoParams> = {
    let spec = ProgramSpec::new("echo", include_str!("echo.cu"), "u64* sum, u64 length");
    // SAFETY: the body atomically adds to the first word only. The check demands that the span has
    // one word.
    unsafe { Program::declare(spec.check(check)) }
};

/// The parameters of [`ECHO`].
pub type EchoParams = (Update<u64>,);
