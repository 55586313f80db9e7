//! Axes in another order.

use crate::error::Cause;

/// Elements on a side of the tiles that are copied at once, so that their lines stay in the cache.
const TILE: usize = 32;

/// The shape of a decoded block, and the order in which its axes are stored.
pub(crate) struct Axes<'a> {
    pub(crate) element: usize,
    pub(crate) shape: &'a [usize],
    pub(crate) order: &'a [usize],
}

/// One axis of an output.
#[derive(Debug, Clone, Copy)]
struct Axis {
    size: usize,
    /// Elements of the input from one element of the axis to the next.
    from: usize,
    /// Elements of the output from one element of the axis to the next.
    to: usize,
}

impl Axes<'_> {
    /// Compares the axes with the length of a block.
    fn check(&self, length: usize) -> Result<(), Cause> {
        let mut seen = vec![false; self.shape.len()];
        let is_new =
            |&axis: &usize| seen.get_mut(axis).is_some_and(|seen| !std::mem::replace(seen, true));
        if self.order.len() != self.shape.len() || !self.order.iter().all(is_new) {
            return Err(format!("{:?} is no order of the axes", self.order).into());
        }
        let bytes = self.shape.iter().try_fold(self.element, |all, &size| all.checked_mul(size));
        if self.element == 0 || bytes != Some(length) {
            let Self { element, shape, .. } = self;
            let cause = format!("{length} bytes are not {shape:?} elements of {element} bytes");
            return Err(cause.into());
        }
        Ok(())
    }

    /// The elements from one element of each axis to the next, for axes of these sizes.
    fn steps(sizes: &[usize]) -> Vec<usize> {
        let mut step = 1_usize;
        let mut steps: Vec<usize> = sizes
            .iter()
            .rev()
            .map(|&size| {
                let this = step;
                // A product below the length of the block, unless an axis is empty.
                step = step.saturating_mul(size);
                this
            })
            .collect();
        steps.reverse();
        steps
    }

    fn stored_shape(&self) -> Vec<usize> {
        self.order.iter().map(|&axis| self.shape[axis]).collect()
    }
}

/// Writes a stored block in the order of its decoded axes.
pub(crate) fn undo(axes: &Axes<'_>, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    axes.check(input.len())?;
    let (to, stored) = (Axes::steps(axes.shape), Axes::steps(&axes.stored_shape()));
    let mut from = vec![0; to.len()];
    for (&axis, &step) in axes.order.iter().zip(&stored) {
        from[axis] = step;
    }
    let all = axes.shape.iter().zip(from).zip(to);
    let all: Vec<Axis> = all.map(|((&size, from), to)| Axis { size, from, to }).collect();
    copy(axes.element, &all, input, output);
    Ok(input.len())
}

/// Writes a block in the order in which its axes are stored.
pub(crate) fn apply(axes: &Axes<'_>, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    axes.check(input.len())?;
    let (from, sizes) = (Axes::steps(axes.shape), axes.stored_shape());
    let to = Axes::steps(&sizes);
    let all = axes.order.iter().zip(sizes).zip(to);
    let all: Vec<Axis> =
        all.map(|((&axis, size), to)| Axis { size, from: from[axis], to }).collect();
    copy(axes.element, &all, input, output);
    Ok(input.len())
}

/// Copies every element of the axes.
fn copy(element: usize, axes: &[Axis], input: &[u8], output: &mut [u8]) {
    if input.is_empty() {
        return;
    }
    // Axes of one element have no step that counts.
    let mut axes: Vec<Axis> = axes.iter().copied().filter(|axis| axis.size > 1).collect();
    let one = Axis { size: 1, from: 1, to: 1 };
    let mut remove = |is_fast: fn(&Axis) -> bool| {
        axes.iter().position(is_fast).map_or(one, |at| axes.remove(at))
    };
    // The axis on which the output is contiguous, and the one on which the input is.
    let inner = remove(|axis| axis.to == 1);
    let outer = remove(|axis| axis.from == 1);
    let mut index = vec![0; axes.len()];
    loop {
        let offset = |step: fn(&Axis) -> usize| -> usize {
            axes.iter().zip(&index).map(|(axis, &at)| step(axis) * at).sum()
        };
        let plane = Plane { inner, outer, from: offset(|a| a.from), to: offset(|a| a.to) };
        match element {
            1 => plane.copy_chunks::<1>(input, output),
            2 => plane.copy_chunks::<2>(input, output),
            4 => plane.copy_chunks::<4>(input, output),
            8 => plane.copy_chunks::<8>(input, output),
            16 => plane.copy_chunks::<16>(input, output),
            _ => plane.copy_any(element, input, output),
        }
        // The next index, the last axis first.
        let mut at = axes.len();
        loop {
            let Some(before) = at.checked_sub(1) else { return };
            at = before;
            index[at] += 1;
            if index[at] < axes[at].size {
                break;
            }
            index[at] = 0;
        }
    }
}

/// Two axes of a block at fixed positions of the others.
struct Plane {
    inner: Axis,
    outer: Axis,
    from: usize,
    to: usize,
}

impl Plane {
    /// Calls `line` for the lines of each tile: with the first elements of a line in the input and
    /// in the output, and its length.
    fn lines(&self, mut line: impl FnMut(usize, usize, usize)) {
        // Lines of the input that are lines of the output need no tiles.
        let tile = if self.inner.from == 1 { self.inner.size } else { TILE };
        for outer in (0..self.outer.size).step_by(TILE) {
            for inner in (0..self.inner.size).step_by(tile) {
                let length = tile.min(self.inner.size - inner);
                for at in outer..self.outer.size.min(outer + TILE) {
                    let from = self.from + at * self.outer.from + inner * self.inner.from;
                    line(from, self.to + at * self.outer.to + inner, length);
                }
            }
        }
    }

    fn copy_chunks<const N: usize>(&self, input: &[u8], output: &mut [u8]) {
        let (input, _) = input.as_chunks::<N>();
        let (output, _) = output.as_chunks_mut::<N>();
        self.lines(|from, to, length| {
            let output = &mut output[to..to + length];
            if self.inner.from == 1 {
                output.copy_from_slice(&input[from..from + length]);
                return;
            }
            for (to, from) in output.iter_mut().zip(input[from..].iter().step_by(self.inner.from)) {
                *to = *from;
            }
        });
    }

    fn copy_any(&self, element: usize, input: &[u8], output: &mut [u8]) {
        self.lines(|from, to, length| {
            for at in 0..length {
                let from = (from + at * self.inner.from) * element;
                let to = (to + at) * element;
                output[to..to + element].copy_from_slice(&input[from..from + element]);
            }
        });
    }
}
