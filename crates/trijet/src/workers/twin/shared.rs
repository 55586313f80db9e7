//! The written spans of a run. All tasks may read and write the elements of these spans. Only one
//! task runs at a time.
#![forbid(unsafe_code)]

use crate::device::asked::AskedArgument;
use crate::device::twin::{Tile, TileInputs};
use bytemuck::Pod;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

/// The elements of a written span, as integers that have the size of an element.
#[derive(Clone, Copy)]
enum Cells<'a> {
    Bytes(&'a [Cell<u8>]),
    Halves(&'a [Cell<u16>]),
    Words(&'a [Cell<u32>]),
    Doubles(&'a [Cell<u64>]),
}

fn cells<T>(elements: &mut [T]) -> &[Cell<T>] {
    Cell::from_mut(elements).as_slice_of_cells()
}

/// The arguments of a program.
pub(super) struct Memory<'a> {
    pub(super) inputs: TileInputs<'a>,
    written: Vec<(usize, Cells<'a>)>,
}

impl<'a> Memory<'a> {
    /// The first `count` arguments of the kernel, which are the arguments of the program.
    pub(super) fn of(tile: &mut Tile<'a>, count: usize) -> Self {
        let inputs = tile.inputs();
        let words = |(index, bytes): (usize, u64)| {
            let words = match bytes {
                1 => Cells::Bytes(cells(tile.write_words(index))),
                2 => Cells::Halves(cells(tile.write_words(index))),
                4 => Cells::Words(cells(tile.write_words(index))),
                _ => Cells::Doubles(cells(tile.write_words(index))),
            };
            (index, words)
        };
        let written = inputs.written().filter(|(index, _)| *index < count).map(words).collect();
        Self { inputs, written }
    }

    /// The written span whose pointer is the argument with this index.
    pub(super) fn shared<T: Pod>(&self, index: usize) -> Shared<'a, T> {
        self.inputs.expect::<T>(AskedArgument::Shared, index);
        let found = self.written.iter().find(|(at, _)| *at == index);
        let (_, words) = *found.expect("an argument of the program has this index");
        Shared { words, element: PhantomData }
    }
}

/// Elements that tasks share. On a host device, tasks run one at a time, so each access is atomic.
/// In CUDA C++, the body needs atomic operations for elements that several tasks may use.
#[derive(Clone, Copy)]
pub struct Shared<'a, T> {
    words: Cells<'a>,
    element: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Shared<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<T: Pod> Shared<'_, T> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.words {
            Cells::Bytes(cells) => cells.len(),
            Cells::Halves(cells) => cells.len(),
            Cells::Words(cells) => cells.len(),
            Cells::Doubles(cells) => cells.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the element with index `at`.
    ///
    /// # Panics
    /// If there is no such element.
    #[must_use]
    pub fn get(&self, at: usize) -> T {
        match self.words {
            Cells::Bytes(cells) => bytemuck::cast(cells[at].get()),
            Cells::Halves(cells) => bytemuck::cast(cells[at].get()),
            Cells::Words(cells) => bytemuck::cast(cells[at].get()),
            Cells::Doubles(cells) => bytemuck::cast(cells[at].get()),
        }
    }

    /// Sets the element with index `at`.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn set(&self, at: usize, value: T) {
        match self.words {
            Cells::Bytes(cells) => cells[at].set(bytemuck::cast(value)),
            Cells::Halves(cells) => cells[at].set(bytemuck::cast(value)),
            Cells::Words(cells) => cells[at].set(bytemuck::cast(value)),
            Cells::Doubles(cells) => cells[at].set(bytemuck::cast(value)),
        }
    }

    /// Replaces the element with index `at` by the result of `change`, and returns the earlier
    /// value.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn update(&self, at: usize, change: impl FnOnce(T) -> T) -> T {
        let before = self.get(at);
        self.set(at, change(before));
        before
    }
}
