//! Attention of one query per sequence, as in decoding. The lengths of the sequences differ
//! greatly.

use trijet::kernels::{ArgBlock, Read, Write};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Worker};

/// The kinds of tasks of [`ATTENTION`]. There is one kind.
#[derive(Debug, Clone, Copy)]
pub struct Queries;

impl Kinds for Queries {
    const KINDS: &'static [(&'static str, Body)] = &[("attend", attend)];
}

/// The number of dimensions of a head.
pub const WIDTH: usize = 32;

fn exponential(x: f32) -> f32 {
    (0..10).fold(1.0 + x * 0.000_976_562_5, |y, _| y * y)
}

/// The sum of 32 values, added in the same order as the lanes of a warp add them.
fn sum(mut values: [f32; WIDTH]) -> f32 {
    for step in [16, 8, 4, 2, 1] {
        values = std::array::from_fn(|lane| values[lane] + values[lane ^ step]);
    }
    values[0]
}

/// The result for a query over the keys and values of its sequence.
///
/// # Panics
/// If the query does not have [`WIDTH`] dimensions.
#[must_use]
pub fn attended(query: &[f32], keys: &[f32], values: &[f32]) -> [f32; WIDTH] {
    assert_eq!(query.len(), WIDTH, "the dimensions of a head");
    let (mut sums, mut weight) = ([0.0_f32; WIDTH], 0.0_f32);
    for (key, value) in keys.chunks_exact(WIDTH).zip(values.chunks_exact(WIDTH)) {
        let p = exponential(sum(std::array::from_fn(|lane| query[lane] * key[lane])));
        sums.iter_mut().zip(value).for_each(|(sum, value)| *sum += p * value);
        weight += p;
    }
    sums.map(|sum| if weight > 0.0 { sum / weight } else { 0.0 })
}

fn attend(w: &mut Worker<'_>, payload: u64) {
    let (ends, q) = (w.read::<u32>(0), w.read::<f32>(2));
    let (k, v, out) = (w.read::<f32>(4), w.read::<f32>(6), w.shared::<f32>(8));
    let number = payload as u32 as usize;
    let (Some(begin), Some(end)) = (ends.get(number), ends.get(number + 1)) else { return };
    let Some(query) = q.get(number * WIDTH..).and_then(|rest| rest.get(..WIDTH)) else { return };
    let end = (*end as usize).min(k.len() / WIDTH).min(v.len() / WIDTH);
    let rows = (*begin as usize).min(end) * WIDTH..end * WIDTH;
    let result = attended(query, &k[rows.clone()], &v[rows]);
    (0..WIDTH).for_each(|lane| out.set(number * WIDTH + lane, result[lane]));
}

fn check(args: &ArgBlock) -> Result<(), String> {
    let [ends, q, k, v, out] = [0, 1, 2, 3, 4].map(|at| args.spans()[at].elements);
    if q != out || (ends.max(1) - 1) * WIDTH as u64 != q || k != v {
        return Err(format!(
            "the lengths of the arguments do not match: {ends} ends of sequences, and {q} elements \
             of queries, {k} of keys, {v} of values and {out} of results"
        ));
    }
    Ok(())
}

/// The parameters of [`ATTENTION`].
pub type AttentionParams = (Read<u32>, Read<f32>, Read<f32>, Read<f32>, Write<f32>);

/// Attention in single precision with heads of [`WIDTH`] dimensions. Its arguments are
/// `(&ends, &q, &k, &v, &mut out)`. Query `i` attends to the rows of `k` and `v` from `ends[i]` to
/// `ends[i + 1] - 1`. Each task computes one query. The scores must be small, because no maximum is
/// subtracted before the exponential.
pub static ATTENTION: Program<Queries, AttentionParams> = {
    let parameters = "const u32* ends, u64 marks, const float* q, u64 queries, const float* k, u64 all, \
                      const float* v, u64 others, float* out, u64 results";
    let spec = ProgramSpec::new("attention", include_str!("attention.cu"), parameters);
    // SAFETY: every index is compared with the length of its span, in 64 bits, and results are
    // written atomically.
    unsafe { Program::declare(spec.check(check)) }
};
