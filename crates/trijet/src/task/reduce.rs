//! Reductions: each task computes a part of a result, and the library combines the parts into the
//! result.
#![forbid(unsafe_code)]

use super::data::{Data, Datum};
use super::declared::{AllDeclared, DeclaredUse};
use crate::base::error::Result;
use crate::base::ledger::Mode;
use crate::kernels::Reduction;
use crate::memory::{Buffer, Element, OnDevice, ViewMut, within};
use crate::stream::Stream;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;

/// Elements into which the library combines the part of a task.
pub struct Reduces<T, R> {
    datum: Arc<Datum<T, OnDevice>>,
    range: Range<usize>,
    /// The number of the task's device among the devices of the tasks.
    place: usize,
    /// The part of the task. `None` before the function of the task runs, and after the part was
    /// combined.
    part: Option<Buffer<T>>,
    how: PhantomData<fn() -> R>,
}

impl<T: Element> Data<T> {
    /// All elements, for a reduction: the task computes a part, and the library combines the part
    /// into the elements. The function of the task gets the part. At the start, each element of the
    /// part is the identity of the reduction, for example 0 for a sum. Tasks that reduce into the
    /// same data run at the same time. Their parts are combined in the order of the tasks, so the
    /// result has the same bits in each run.
    ///
    /// ```
    /// use trijet::kernels::AXPY;
    /// use trijet::kernels::Sum;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let tasks = device.tasks();
    /// let (total, x) = (tasks.alloc::<f32>(100)?, tasks.alloc::<f32>(100)?);
    /// tasks.task((total.write(), x.write())).run(|s, (mut total, mut x)| {
    ///     s.fill(&mut total, 1.0)?;
    ///     s.fill(&mut x, 0.5)
    /// })?;
    /// for weight in [2.0, 4.0] {
    ///     let task = tasks.task((x.read(), total.reduce(Sum)));
    ///     task.run(move |s, (x, part)| s.launch(&AXPY, (weight, x, part)))?;
    /// }
    /// assert_eq!(device.stream()?.download(&tasks.take(total)?)?, [4.0; 100]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn reduce<R: Reduction<T>>(&self, how: R) -> Reduces<T, R> {
        self.reduce_range(.., how)
    }

    /// The elements `range`, for a reduction; see [`Data::reduce`].
    ///
    /// # Panics
    /// If the range does not lie within the data, as for a slice.
    #[must_use]
    pub fn reduce_range<R: Reduction<T>>(
        &self,
        range: impl RangeBounds<usize>,
        _: R,
    ) -> Reduces<T, R> {
        Reduces::new(&self.0, within(range, self.len()))
    }
}

impl<T: Element, R: Reduction<T>> Reduces<T, R> {
    pub(super) fn new(datum: &Arc<Datum<T, OnDevice>>, range: Range<usize>) -> Self {
        Self { datum: Arc::clone(datum), range, place: 0, part: None, how: PhantomData }
    }

    pub(super) fn declared(&self, all: &AllDeclared) -> DeclaredUse {
        DeclaredUse { reduces: true, ..self.datum.declared(&self.range, Mode::Update, all) }
    }

    /// Sets the device of the task.
    pub(super) fn put(&mut self, place: usize) -> Result<()> {
        self.place = place;
        self.datum.demand_on(place)
    }

    /// Allocates the part of the task, and fills it with the identity of the reduction.
    pub(super) fn begin(&mut self, stream: &Stream) -> Result<()> {
        let mut part = stream.alloc::<T>(self.range.len())?;
        if !part.is_empty() {
            stream.fill(&mut part, R::IDENTITY)?;
        }
        self.part = Some(part);
        Ok(())
    }

    pub(super) fn view(&mut self) -> ViewMut<'_, T> {
        self.part.as_mut().expect("the task has begun").view_mut()
    }

    /// Combines the part of the task into the data.
    pub(super) fn end(&mut self, stream: &Stream) -> Result<()> {
        match self.part.take() {
            Some(part) if !part.is_empty() => {
                let total = self.datum.view_mut_on(self.place, self.range.clone());
                R::combine(stream, part.view(), total)
            }
            _ => Ok(()),
        }
    }
}

impl<T, R> fmt::Debug for Reduces<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reduces into {:?} of {}", self.range, self.datum.name)
    }
}
