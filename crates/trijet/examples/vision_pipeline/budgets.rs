//! Stage 3: distributes 4096 tokens over the patches of an image, 64 to 400 tokens per patch.
//!
//! The three scores of a patch become a weight, in whole numbers. `a`, `b` and `c` are the scores
//! times 65536, rounded to the nearest whole number, ties to even. `max` and `min` are the largest
//! and the smallest of them:
//!
//! `weight = 1 + (a + b + c) * (1 - (max - min) / 131072)`, rounded down.
//!
//! So a patch whose scores agree gets a larger weight. Each patch gets 64 tokens. The other tokens
//! are shared in proportion to the weights. A patch whose share is more than 336 gets 336, and the
//! rest of its share is shared again, until no patch exceeds 336. Then each share is rounded down,
//! and the remaining tokens go to the largest remainders, one token each. If remainders are equal,
//! the first patch comes first.

use crate::patches::{PER_PATCH, TOKENS, check_count};
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Read, Shape, Tile, Twin, Write};
use trijet::{Kernel, LaunchConfig};

/// `budgets(scores, tokens)`.
pub(crate) static BUDGETS: Kernel<(Read<f32>, Write<u32>)> = {
    let shape = Shape::Computed(|_| Ok(LaunchConfig::new([1, 1, 1], [64, 1, 1])));
    let twin = Twin { tile_elements: |args| args.spans()[1].elements, run, cost };
    let spec = KernelSpec::new("budgets", Code::source(include_str!("budgets.cu")), shape);
    // SAFETY: `budgets` takes (const float*, u64, u32*, u64). Thread i of the one block reads
    // scores 3i to 3i + 2 and writes token i; `check` refuses more patches than threads.
    unsafe { Kernel::declare(spec.check(check).twin(twin)) }
};

fn check(args: &ArgBlock) -> Result<(), String> {
    let [scores, patches] = [0, 1].map(|span| args.spans()[span].elements);
    check_count(patches)?;
    let is_right = scores == 3 * patches;
    if is_right { Ok(()) } else { Err(format!("{scores} scores of {patches} patches")) }
}

fn cost(args: &ArgBlock) -> Cost {
    let patches = args.spans()[1].elements;
    Cost { bytes: 16 * patches, ops: 8 * patches * patches }
}

/// Computes the tokens of all patches: the tile is the whole image.
fn run(tile: &mut Tile<'_>) {
    let room = u64::from(PER_PATCH.end() - PER_PATCH.start());
    let weights: Vec<u64> = tile.read::<f32>(0).chunks_exact(3).map(weight).collect();
    let mut full = vec![false; weights.len()];
    let (left, sum) = loop {
        let mut left = u64::from(TOKENS) - u64::from(*PER_PATCH.start()) * weights.len() as u64;
        left -= room * full.iter().filter(|full| **full).count() as u64;
        let open = || weights.iter().zip(&full).filter(|(_, full)| !**full);
        let sum: u64 = open().map(|(weight, _)| weight).sum();
        let is_over = |weight: u64| weight * left > room * sum;
        if !open().any(|(weight, _)| is_over(*weight)) {
            break (left, sum);
        }
        full.iter_mut().zip(&weights).for_each(|(full, weight)| *full |= is_over(*weight));
    };
    let given = |i: usize| if full[i] { room } else { weights[i] * left / sum };
    let rest = |i: usize| if full[i] { 0 } else { weights[i] * left % sum };
    let all = 0..weights.len();
    let spare = left - all.clone().filter(|i| !full[*i]).map(given).sum::<u64>();
    for (i, tokens) in tile.write::<u32>(2).iter_mut().enumerate() {
        let is_before = |k: &usize| rest(*k) > rest(i) || (rest(*k) == rest(i) && *k < i);
        let before = all.clone().filter(is_before).count() as u64;
        let more = given(i) + u64::from(before < spare);
        *tokens = PER_PATCH.start() + u32::try_from(more).expect("at most 337");
    }
}

fn weight(scores: &[f32]) -> u64 {
    let [a, b, c] = [0, 1, 2].map(|score| scaled(scores[score]));
    let spread = a.max(b).max(c) - a.min(b).min(c);
    1 + (a + b + c) * (131_072 - spread) / 131_072
}

#[expect(clippy::cast_possible_truncation, reason = "a score is 0 to 1")]
#[expect(clippy::cast_sign_loss, reason = "a score is 0 to 1")]
fn scaled(score: f32) -> u64 {
    (score * 65_536.0).round_ties_even() as u64
}
