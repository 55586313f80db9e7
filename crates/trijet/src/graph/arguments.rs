//! The memory of a launch of a graph.
#![forbid(unsafe_code)]

use crate::base::ledger::Mode;
use crate::device::memory::Span;
use crate::memory::{Element, View, ViewMut};
use crate::order::track::Use;
use smallvec::SmallVec;

/// The memory of the arguments of a graph, in their order.
///
/// See [`Stream::launch_graph`](crate::Stream::launch_graph).
#[derive(Debug, Default)]
pub struct Arguments<'a> {
    pub(super) all: SmallVec<[Argument<'a>; 8]>,
}

/// The memory of one argument.
#[derive(Debug)]
pub(super) struct Argument<'a> {
    pub(super) span: Span,
    pub(super) access: Use<'a>,
}

impl<'a> Arguments<'a> {
    /// No memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds memory that the graph only reads.
    #[must_use]
    pub fn read<T: Element>(mut self, view: View<'a, T>) -> Self {
        self.all.push(Argument { span: view.span(), access: view.read_use() });
        self
    }

    /// Adds memory that the graph writes, or reads and writes.
    #[must_use]
    pub fn write<T: Element>(mut self, view: ViewMut<'a, T>) -> Self {
        self.all.push(Argument { span: view.span(), access: view.write_use(Mode::ReadWrite) });
        self
    }
}
