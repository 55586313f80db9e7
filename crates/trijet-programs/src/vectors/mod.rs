//! Operations on ranges of four arrays, for tasks that declare their reads and writes.

use trijet::kernels::Write;
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Shared, Worker};

/// The kinds of tasks of [`VECTORS`].
#[derive(Debug, Clone, Copy)]
pub struct Vectors;

impl Kinds for Vectors {
    const KINDS: &'static [(&'static str, Body)] =
        &[("fill", fill), ("copy", copy), ("axpy", axpy)];
}

/// The kind that sets elements of array `to` to a number.
pub const FILL: u8 = 0;
/// The kind that copies elements of array `from` to array `to`.
pub const COPY: u8 = 1;
/// The kind that adds the elements of array `from`, times a number, to the elements of array `to`.
pub const AXPY: u8 = 2;

/// The fields of a task that uses the elements from `begin` to `end - 1`. If the task reads no
/// other array, pass `to` as `from`.
#[must_use]
pub fn fields(to: usize, from: usize, (begin, end): (usize, usize), value: f32) -> [u64; 5] {
    [to as u64, from as u64, begin as u64, end as u64, u64::from(value.to_bits())]
}

struct VectorRanges<'a> {
    to: Shared<'a, f32>,
    from: Shared<'a, f32>,
    elements: std::ops::Range<usize>,
    value: f32,
}

fn ranges<'a>(w: &Worker<'a>, payload: u64, reads: bool) -> VectorRanges<'a> {
    let [to, from, begin, end, value, ..] = w.fields(payload);
    // An array that does not exist has no elements.
    let array = |number: u64| (number < 4).then(|| w.shared::<f32>(2 * number as usize));
    let (to, from) = (array(to), array(if reads { from } else { to }));
    let length = |array: &Option<Shared<'_, f32>>| array.map_or(0, |array| array.len()) as u64;
    let end = end.min(length(&to)).min(length(&from)) as usize;
    let none = || w.shared::<f32>(0);
    let elements = begin.min(end as u64) as usize..end;
    let value = f32::from_bits(value as u32);
    VectorRanges { to: to.unwrap_or_else(none), from: from.unwrap_or_else(none), elements, value }
}

fn fill(w: &mut Worker<'_>, payload: u64) {
    let VectorRanges { to, elements, value, .. } = ranges(w, payload, false);
    elements.for_each(|at| to.set(at, value));
}

fn copy(w: &mut Worker<'_>, payload: u64) {
    let VectorRanges { to, from, elements, .. } = ranges(w, payload, true);
    elements.for_each(|at| to.set(at, from.get(at)));
}

fn axpy(w: &mut Worker<'_>, payload: u64) {
    let VectorRanges { to, from, elements, value } = ranges(w, payload, true);
    elements.for_each(|at| to.set(at, value.mul_add(from.get(at), to.get(at))));
}

/// The parameters of [`VECTORS`]. The arrays need no values before a run, and a run may write only
/// some elements of an array.
pub type VectorsParams = (Write<f32>, Write<f32>, Write<f32>, Write<f32>);

/// Operations on ranges of four arrays. Its arguments are the four arrays. Its tasks are nodes of a
/// graph, with fields that [`fields`] makes.
pub static VECTORS: Program<Vectors, VectorsParams> = {
    let parameters = "float* a, u64 as, float* b, u64 bs, float* c, u64 cs, float* d, u64 ds";
    let spec = ProgramSpec::new("vectors", include_str!("vectors.cu"), parameters);
    // SAFETY: the bodies use only elements below the lengths of their arrays, and access each
    // element with atomic operations.
    unsafe { Program::declare(spec) }
};
