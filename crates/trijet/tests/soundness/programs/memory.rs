//! The memory of a program, each piece with the values that the program's steps give it one after
//! another.

use std::ops::Range;
use trijet::kernels::{
    ArgBlock, Code, Cost, KernelSpec, Read, Shape, Tile, Twin, Update, any_lengths, equal_lengths,
};
use trijet::memory::{GrowingBuffer, PageLocked};
use trijet::task::Data;
use trijet::{Buffer, Kernel, PageableBuffer, PinnedBuffer, View, ViewMut};

/// The value of an element; `None` while it is arbitrary.
pub(super) type Cell = Option<u32>;

/// The salt with which the twins of [`BLEND`] and [`STIR`] panic.
pub(super) const PANIC: u32 = u32::MAX;

/// A hash in which order matters: no two applications commute, and none is idempotent.
pub(super) fn mix(salt: u32, x: u32, y: u32) -> u32 {
    let key = (x ^ salt.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
    (y ^ key.rotate_left(15)).wrapping_mul(0xc2b2_ae35).wrapping_add(salt | 1)
}

fn cost(_: &ArgBlock) -> Cost {
    Cost { bytes: 64, ops: 64 }
}

fn demand_calm(salt: u32) {
    assert_ne!(salt, PANIC, "drawn panic of a twin");
}

/// `y[i] = mix(salt, x[i], y[i])`. Its arguments are `(salt, &x, &mut y)`, of equal lengths.
pub(super) static BLEND: Kernel<(u32, Read<u32>, Update<u32>)> = {
    let run: fn(&mut Tile<'_>) = |tile| {
        let (salt, first) = (tile.scalar(0), tile.first);
        demand_calm(salt);
        let x = tile.read::<u32>(1);
        for (y, x) in tile.write::<u32>(3).iter_mut().zip(&x[first..]) {
            *y = mix(salt, *x, *y);
        }
    };
    let twin = Twin { tile_elements: |_| 64, run, cost };
    let shape = Shape::Elements { per_thread: 1 };
    let spec = KernelSpec::new("blend", Code::ptx(""), shape).check(equal_lengths).twin(twin);
    // SAFETY: it has no code for a GPU, and its twin stays within both spans.
    unsafe { Kernel::declare(spec) }
};

/// `y[i] = mix(salt, 0, y[i])`. Its arguments are `(salt, &mut y)`.
pub(super) static STIR: Kernel<(u32, Update<u32>)> = {
    let run: fn(&mut Tile<'_>) = |tile| {
        let salt = tile.scalar(0);
        demand_calm(salt);
        tile.write::<u32>(1).iter_mut().for_each(|y| *y = mix(salt, 0, *y));
    };
    let twin = Twin { tile_elements: |_| 64, run, cost };
    let shape = Shape::Elements { per_thread: 1 };
    let spec = KernelSpec::new("stir", Code::ptx(""), shape).check(any_lengths).twin(twin);
    // SAFETY: it has no code for a GPU, and its twin stays within its span.
    unsafe { Kernel::declare(spec) }
};

/// The memory of a slot. Data belong to the set of tasks with this number.
pub(super) enum Real {
    Gone,
    Device(Buffer<u32>),
    Growing(GrowingBuffer<u32>),
    Pinned(PinnedBuffer<u32>),
    Pageable(PageableBuffer<u32>),
    Data(usize, Data<u32>),
    HostData(usize, Data<u32, PageLocked>),
}

/// A variable of a program.
pub(super) struct Slot {
    pub(super) real: Real,
    /// The device of the memory, or the one whose driver locked it.
    pub(super) device: usize,
    pub(super) cells: Vec<Cell>,
    /// Elements of data without a value, because a task failed that was to write them.
    pub(super) lost: Vec<bool>,
    /// Whether tasks may use it that other tasks submit, at an unknown time.
    pub(super) reserved: bool,
}

impl Slot {
    pub(super) fn gone() -> Self {
        Self { real: Real::Gone, device: 0, cells: vec![], lost: vec![], reserved: false }
    }

    pub(super) fn of(real: Real, device: usize, cells: Vec<Cell>) -> Self {
        let lost = vec![false; cells.len()];
        Self { real, device, cells, lost, reserved: false }
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.real, Real::Gone)
    }

    pub(super) fn is_on_device(&self) -> bool {
        matches!(self.real, Real::Device(_) | Real::Growing(_))
    }

    pub(super) fn is_in_use(&self) -> bool {
        !self.is_gone() && self.set().is_none()
    }

    pub(super) fn is_pinned(&self) -> bool {
        matches!(self.real, Real::Pinned(_))
    }

    /// The number of the tasks that have the memory.
    pub(super) fn set(&self) -> Option<usize> {
        match self.real {
            Real::Data(set, _) | Real::HostData(set, _) => Some(set),
            _ => None,
        }
    }

    pub(super) fn view(&self, range: Range<usize>) -> Option<View<'_, u32>> {
        match &self.real {
            Real::Device(buffer) => Some(buffer.slice(range)),
            Real::Growing(buffer) => Some(buffer.slice(range)),
            Real::Pinned(buffer) => Some(buffer.slice(range)),
            Real::Pageable(buffer) => Some(buffer.slice(range)),
            Real::Gone | Real::Data(..) | Real::HostData(..) => None,
        }
    }

    pub(super) fn view_mut(&mut self, range: Range<usize>) -> Option<ViewMut<'_, u32>> {
        match &mut self.real {
            Real::Device(buffer) => Some(buffer.slice_mut(range)),
            Real::Growing(buffer) => Some(buffer.slice_mut(range)),
            Real::Pinned(buffer) => Some(buffer.slice_mut(range)),
            Real::Pageable(buffer) => Some(buffer.slice_mut(range)),
            Real::Gone | Real::Data(..) | Real::HostData(..) => None,
        }
    }

    pub(super) fn fill(&mut self, range: Range<usize>, value: Cell) {
        self.cells[range].fill(value);
    }

    pub(super) fn stir(&mut self, range: Range<usize>, salt: u32) {
        self.cells[range].iter_mut().for_each(|y| *y = y.map(|y| mix(salt, 0, y)));
    }

    /// Compares values of the memory with the expected values.
    pub(super) fn compare(&self, range: Range<usize>, found: &[u32]) -> Result<(), String> {
        compare(&self.cells[range.clone()], found).map_err(|why| format!("from {range:?}: {why}"))
    }
}

/// Compares values with the expected values.
pub(super) fn compare(expected: &[Cell], found: &[u32]) -> Result<(), String> {
    if expected.len() != found.len() {
        return Err(format!("{} elements, not {}", found.len(), expected.len()));
    }
    let wrong =
        expected.iter().zip(found).position(|(cell, v)| cell.is_some_and(|cell| cell != *v));
    let Some(at) = wrong else { return Ok(()) };
    Err(format!("element {at} is {:#x}, not {:#x}", found[at], expected[at].unwrap_or(0)))
}

/// `y` after [`BLEND`] of `x` into it.
pub(super) fn blend(salt: u32, x: &[Cell], y: &mut [Cell]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = x.zip(*y).map(|(x, y)| mix(salt, x, y));
    }
}

/// A part of a slot. It depends on the length of the slot when a step is reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part(pub(super) u8, pub(super) u8);

impl Part {
    /// At least one element, unless there are none.
    pub(super) fn of(self, len: usize) -> Range<usize> {
        let start = usize::from(self.0) * len / 256;
        let rest = len - start;
        start..start + rest.min(1 + usize::from(self.1) * rest / 256)
    }
}

/// The values of elements that are known.
pub(super) fn known(
    cells: &[Cell],
    range: Range<usize>,
) -> impl Iterator<Item = (usize, u32)> + '_ {
    cells[range].iter().enumerate().filter_map(|(at, cell)| Some((at, (*cell)?)))
}

/// Compares floats by their bits, and any NaN with any other one.
pub(super) fn compare_floats(expected: &[f32], found: &[f32]) -> Result<(), String> {
    let is_right = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    if expected.len() == found.len() && expected.iter().zip(found).all(is_right) {
        return Ok(());
    }
    Err(format!("{found:?}, not {expected:?}"))
}
