//! A batch for a mixture of experts. A few experts get most of the tokens (Zipf). A task of kind 0
//! is one expert. It makes tasks of kind 1, which are up to 16 tokens of the expert.

use crate::mix::mix;
use trijet::kernels::{ArgBlock, Read, Write};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Worker};

/// The kinds of tasks of [`EXPERTS`].
#[derive(Debug, Clone, Copy)]
pub struct Experts;

impl Kinds for Experts {
    const KINDS: &'static [(&'static str, Body)] = &[("expert", expert), ("tokens", tokens)];
}

/// The number of 32-bit words per token.
pub const WIDTH: usize = 32;
/// Maximum number of tokens per task.
const TILE: usize = 16;

/// For each expert, the index of its first token; the last entry is the number of tokens. Expert
/// `i` gets a share proportional to `1 / (i + 1)`.
#[must_use]
pub fn zipf(experts: u32, tokens: u32) -> Vec<u32> {
    let weight = |at: u32| 1.0 / f64::from(at + 1);
    let all: f64 = (0..experts).map(weight).sum();
    let mut sum = 0.0;
    let ends = (0..experts).map(|at| {
        sum += weight(at);
        (f64::from(tokens) * sum / all).round() as u32
    });
    std::iter::once(0).chain(ends).collect()
}

/// The product of a token with the weights of an expert.
#[must_use]
pub fn routed(expert: u32, token: &[u32]) -> Vec<u32> {
    let weight = |at: u32, column: u32| mix(expert << 10 | at << 5 | column);
    let sum = |column: u32| {
        let terms = (0..).zip(token).map(|(at, x)| x.wrapping_mul(weight(at, column)));
        terms.fold(0, u32::wrapping_add)
    };
    (0..WIDTH as u32).map(sum).collect()
}

/// The number of whole tokens in `x`, or in `y` if `y` is shorter.
fn all_tokens(w: &Worker<'_>) -> usize {
    w.read::<u32>(2).len().min(w.shared::<u32>(4).len()) / WIDTH
}

fn expert(w: &mut Worker<'_>, payload: u64) {
    let (ends, number) = (w.read::<u32>(0), payload as u32 as usize);
    let (Some(begin), Some(end)) = (ends.get(number), ends.get(number + 1)) else { return };
    let end = u64::from(*end).min(all_tokens(w) as u64);
    for first in (u64::from(*begin)..end).step_by(TILE) {
        w.must_spawn(1, payload << 32 | first);
    }
}

fn tokens(w: &mut Worker<'_>, payload: u64) {
    let (ends, x, y) = (w.read::<u32>(0), w.read::<u32>(2), w.shared::<u32>(4));
    let (number, first) = ((payload >> 32) as u32, payload as u32 as usize);
    let Some(end) = ends.get(number as usize + 1) else { return };
    let end = (*end as usize).min(first + TILE).min(all_tokens(w));
    for token in first..end {
        let routed = routed(number, &x[token * WIDTH..][..WIDTH]);
        (0..WIDTH).for_each(|at| y.set(token * WIDTH + at, routed[at]));
    }
}

fn check(args: &ArgBlock) -> Result<(), String> {
    let [_, x, y] = [0, 1, 2].map(|at| args.spans()[at].elements);
    if x != y || !x.is_multiple_of(WIDTH as u64) {
        return Err(format!(
            "x has {x} words and y has {y}; both need the same number of words, a multiple of 32"
        ));
    }
    Ok(())
}

/// The parameters of [`EXPERTS`].
pub type ExpertsParams = (Read<u32>, Read<u32>, Write<u32>);

/// Multiplies tokens by the weights of their experts, in 32-bit words that wrap around. Its
/// arguments are `(&ends, &x, &mut y)`. Expert `i` gets the tokens from `ends[i]` to
/// `ends[i + 1] - 1`. The initial tasks are one task of kind 0 per expert.
pub static EXPERTS: Program<Experts, ExpertsParams> = {
    let bodies = concat!(include_str!("../mix.cu"), include_str!("experts.cu"));
    let parameters = "const u32* ends, u64 marks, const u32* x, u64 length, u32* y, u64 results";
    let spec = ProgramSpec::new("experts", bodies, parameters);
    // SAFETY: every index is compared with the length of its span, in 64 bits, and results are
    // written atomically.
    unsafe { Program::declare(spec.check(check)) }
};
