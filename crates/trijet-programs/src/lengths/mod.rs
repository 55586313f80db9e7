//! Independent tasks whose lengths are powers of two. If the length doubles, the number of tasks
//! halves.

use crate::mix::mix;
use trijet::kernels::{ArgBlock, Write};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Worker};

/// The kinds of tasks of [`LENGTHS`]. There is one kind.
#[derive(Debug, Clone, Copy)]
pub struct Lengths;

impl Kinds for Lengths {
    const KINDS: &'static [(&'static str, Body)] = &[("steps", steps)];
}

/// The number of steps of a task.
#[must_use]
pub const fn count(number: u32, base: u32, skew: u32) -> u32 {
    let zeros = mix(number).leading_zeros();
    base << if zeros < skew { zeros } else { skew }
}

/// The result of a lane of a task: the random number after all steps of the lane. This function
/// does not run the steps one by one. It joins two steps into one step, again and again.
#[must_use]
pub fn value(number: u32, lane: u32, base: u32, skew: u32) -> u32 {
    let mut x = number.wrapping_mul(32).wrapping_add(lane);
    let (mut left, mut factor, mut term) =
        (count(number, base, skew), 1_664_525_u32, 1_013_904_223_u32);
    while left > 0 {
        if left & 1 == 1 {
            x = x.wrapping_mul(factor).wrapping_add(term);
        }
        // Joins two steps into one step.
        term = term.wrapping_mul(factor).wrapping_add(term);
        factor = factor.wrapping_mul(factor);
        left >>= 1;
    }
    x
}

fn steps(w: &mut Worker<'_>, payload: u64) {
    let (out, base, skew) = (w.shared::<u32>(0), w.scalar(2), w.scalar(3));
    let first = payload as u32 as usize * 32;
    for lane in (0..32).filter(|lane| first + lane < out.len()) {
        out.set(first + lane, value(payload as u32, lane as u32, base, skew));
    }
}

fn check(args: &ArgBlock) -> Result<(), String> {
    let (length, base, skew) =
        (args.spans()[0].elements, args.scalar::<u32>(2), args.scalar::<u32>(3));
    if !length.is_multiple_of(32)
        || skew > 31
        || base.checked_shl(skew).is_none_or(|n| n >> skew != base)
    {
        return Err(format!(
            "out has {length} words, the base is {base} and the skew is {skew}; the words must \
             be a multiple of 32, the skew at most 31, and `base << skew` less than 2^32"
        ));
    }
    Ok(())
}

/// The parameters of [`LENGTHS`].
pub type LengthsParams = (Write<u32>, u32, u32);

/// Runs steps of a random number generator. Its arguments are `(&mut out, base, skew)`. Task `i`
/// runs `base << min(z, skew)` steps in each lane, where `z` is the number of leading zeros of a
/// hash of `i`, and writes 32 words of `out`.
pub static LENGTHS: Program<Lengths, LengthsParams> = {
    let bodies = concat!(include_str!("../mix.cu"), include_str!("lengths.cu"));
    let spec = ProgramSpec::new("lengths", bodies, "u32* out, u64 length, u32 base, u32 skew");
    // SAFETY: for any payload, each lane atomically writes at most one word: the word of its task
    // and of the number of the lane, if `out` has this word.
    unsafe { Program::declare(spec.check(check).blocks_min(8)) }
};
