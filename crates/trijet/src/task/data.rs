//! Data: the buffers of tasks, and the uses of their elements that a task declares.
#![forbid(unsafe_code)]

use super::core::Core;
use super::declared::{AllDeclared, AnyDatum, DatumName, DeclaredUse, StreamBody};
use super::task_state::WrongRead;
use crate::base::error::Result;
use crate::base::ledger::Mode;
use crate::base::units::Bytes;
use crate::memory::{
    Buffer, Element, OnDevice, OnHost, PinnedBuffer, ReadGuard, View, ViewMut, WriteGuard, within,
};
use crate::stream::Stream;
use std::fmt;
use std::ops::{Range, RangeBounds};
use std::panic::Location;
use std::sync::{Arc, OnceLock};

/// A buffer that belongs to tasks; see [`Tasks::data`](super::Tasks::data). A clone is a handle of
/// the same buffer.
pub struct Data<T, S = OnDevice>(pub(super) Arc<Datum<T, S>>);

/// A buffer, its number among the data of its tasks, and the tasks that it belongs to.
pub(super) struct Datum<T, S> {
    pub(super) buffer: Buffer<T, S>,
    /// The number of the device of the buffer among the devices of the tasks; `None` for host
    /// memory.
    home: Option<usize>,
    /// The copies on other devices. The index in this list is the number of the device. A copy is
    /// made when a task first needs the copy. The list is empty for host memory, and if the tasks
    /// have one device.
    copies: Box<[OnceLock<Buffer<T>>]>,
    pub(super) number: u32,
    pub(super) name: DatumName,
    pub(super) core: Arc<Core>,
}

/// Elements that a task reads.
pub struct Reads<T, S = OnDevice> {
    datum: Arc<Datum<T, S>>,
    range: Range<usize>,
    /// The number of the device of the task.
    place: usize,
    /// The values of the elements before the task; `None` if reads are not checked.
    before: Option<PinnedBuffer<T>>,
}

/// Elements that a task writes.
pub struct Writes<T, S = OnDevice> {
    datum: Arc<Datum<T, S>>,
    range: Range<usize>,
    /// Whether the task also reads the elements.
    updates: bool,
    /// The number of the device of the task.
    place: usize,
}

impl<T, S> Data<T, S> {
    pub(super) fn new(
        core: &Arc<Core>,
        buffer: Buffer<T, S>,
        name: DatumName,
        home: Option<usize>,
    ) -> Self {
        let copies = if home.is_some() && core.devices.len() > 1 { core.devices.len() } else { 0 };
        let copies = (0..copies).map(|_| OnceLock::new()).collect();
        let (number, core) = (name.number, Arc::clone(core));
        Self(Arc::new(Datum { buffer, home, copies, number, name, core }))
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.buffer.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements, to read.
    #[must_use]
    pub fn read(&self) -> Reads<T, S> {
        self.read_range(..)
    }

    /// The elements `range`, to read.
    ///
    /// # Panics
    /// If the range does not lie within the data, as for a slice.
    #[must_use]
    pub fn read_range(&self, range: impl RangeBounds<usize>) -> Reads<T, S> {
        Reads {
            datum: Arc::clone(&self.0),
            range: within(range, self.len()),
            place: 0,
            before: None,
        }
    }

    /// All elements, to write. The values that the elements had before are lost, even the values of
    /// elements that the task does not write.
    #[must_use]
    pub fn write(&self) -> Writes<T, S> {
        self.write_range(..)
    }

    /// The elements `range`, to write as [`Data::write`] does.
    ///
    /// # Panics
    /// If the range does not lie within the data, as for a slice.
    #[must_use]
    pub fn write_range(&self, range: impl RangeBounds<usize>) -> Writes<T, S> {
        let range = within(range, self.len());
        Writes { datum: Arc::clone(&self.0), range, updates: false, place: 0 }
    }

    /// All elements, to read and to write.
    #[must_use]
    pub fn update(&self) -> Writes<T, S> {
        self.update_range(..)
    }

    /// The elements `range`, to read and to write.
    ///
    /// # Panics
    /// If the range does not lie within the data, as for a slice.
    #[must_use]
    pub fn update_range(&self, range: impl RangeBounds<usize>) -> Writes<T, S> {
        Writes { updates: true, ..self.write_range(range) }
    }
}

impl<T: Element, S: Send + Sync + 'static> Datum<T, S> {
    pub(super) fn declared(
        self: &Arc<Self>,
        range: &Range<usize>,
        mode: Mode,
        all: &AllDeclared,
    ) -> DeclaredUse {
        let bytes = |index: usize| (index * size_of::<T>()) as u64;
        DeclaredUse {
            number: self.number,
            name: self.name.clone(),
            range: bytes(range.start)..bytes(range.end),
            mode,
            reduces: false,
            core: self.core.id,
            home: self.home,
            datum: if all.keeps_data() { Some(self.any()) } else { self.replicated() },
        }
    }

    /// The datum as a trait object, if it may have copies on other devices; otherwise `None`.
    pub(super) fn replicated(self: &Arc<Self>) -> Option<Arc<dyn AnyDatum>> {
        (!self.copies.is_empty()).then(|| self.any())
    }

    fn any(self: &Arc<Self>) -> Arc<dyn AnyDatum> {
        Arc::<Self>::clone(self)
    }

    /// Makes a copy of the datum on a device, if there is none. The values of the copy are
    /// arbitrary.
    pub(super) fn demand_on(&self, place: usize) -> Result<()> {
        if self.copies.is_empty() || self.home == Some(place) || self.copies[place].get().is_some()
        {
            return Ok(());
        }
        let copy = self.core.any_stream(place)?.alloc::<T>(self.buffer.len)?;
        copy.forget_lanes();
        let copy = match &self.name.given {
            Some(name) => copy.named(name),
            None => copy,
        };
        // If another thread has made a copy in the meantime, the new copy is dropped.
        let _made = self.copies[place].set(copy);
        Ok(())
    }

    /// The copy on a device; `None` for the device of the buffer itself. The copy was made when the
    /// task was submitted.
    fn copy_on(&self, place: usize) -> Option<&Buffer<T>> {
        if self.home == Some(place) { None } else { self.copies.get(place)?.get() }
    }

    pub(super) fn view_on(&self, place: usize, range: Range<usize>) -> View<'_, T> {
        match self.copy_on(place) {
            Some(copy) => copy.slice(range),
            None => self.buffer.slice(range),
        }
    }

    pub(super) fn view_mut_on(&self, place: usize, range: Range<usize>) -> ViewMut<'_, T> {
        match self.copy_on(place) {
            Some(copy) => copy.shared_view_mut(range),
            None => self.buffer.shared_view_mut(range),
        }
    }
}

impl<T: Element, S: Send + Sync + 'static> AnyDatum for Datum<T, S> {
    fn read_all(&self, place: usize) -> View<'_, u8> {
        self.view_on(place, 0..self.buffer.len).as_bytes()
    }

    fn write_all(&self, place: usize) -> ViewMut<'_, u8> {
        self.view_mut_on(place, 0..self.buffer.len).into_bytes()
    }

    fn transfer(self: Arc<Self>, from: usize, to: usize, bytes: Range<u64>) -> StreamBody {
        let index = |byte: u64| Bytes(byte).to_usize() / size_of::<T>();
        let range = index(bytes.start)..index(bytes.end);
        Box::new(move |stream| {
            let source = self.view_on(from, range.clone());
            stream.copy(&source, &mut self.view_mut_on(to, range))
        })
    }
}

impl<T, S> Datum<T, S> {
    /// The elements `range` as a buffer that shares the memory.
    fn part(&self, range: &Range<usize>) -> Buffer<T, S> {
        self.buffer.part(range.clone())
    }
}

impl<T: Element, S: Send + Sync + 'static> Reads<T, S> {
    pub(super) fn declared(&self, all: &AllDeclared) -> DeclaredUse {
        self.datum.declared(&self.range, Mode::Read, all)
    }

    pub(super) fn is_on_host(&self) -> bool {
        self.datum.buffer.is_on_host()
    }

    /// Sets the device of the task.
    pub(super) fn put(&mut self, place: usize) -> Result<()> {
        self.place = place;
        self.datum.demand_on(place)
    }

    pub(super) fn view(&self) -> View<'_, T> {
        self.datum.view_on(self.place, self.range.clone())
    }
}

/// The check that tasks do not write bytes that they declare to read.
impl<T: Element, S: Send + Sync + 'static> Reads<T, S> {
    /// Copies the elements to the host before the function of the task runs, if reads are checked.
    pub(super) fn keep_before(&mut self, stream: &Stream) -> Result<()> {
        let is_checked = self.datum.core.wrong_reads.is_some();
        if is_checked && !self.is_on_host() && !self.range.is_empty() {
            let mut before = self.datum.core.devices[self.place].pinned(self.range.len())?;
            stream.copy(&self.view(), &mut before)?;
            self.before = Some(before);
        }
        Ok(())
    }

    /// Compares the values of the elements after the function of the task with the values before
    /// the function. Adds a difference to the wrong reads of the tasks.
    pub(super) fn compare(
        &mut self,
        stream: &Stream,
        site: &'static Location<'static>,
    ) -> Result<()> {
        let wrong = self.datum.core.wrong_reads.as_ref();
        let (Some(before), Some(wrong)) = (self.before.take(), wrong) else { return Ok(()) };
        let mut after = self.datum.core.devices[self.place].pinned(self.range.len())?;
        stream.copy(&self.view(), &mut after)?;
        let (wrong, datum) = (Arc::clone(wrong), self.datum.name.clone());
        let first = self.range.start * size_of::<T>();
        stream.host_fn_with((&before, &after), move |(before, after)| {
            let [before, after] = [before, after].map(bytemuck::cast_slice::<T, u8>);
            let differs = |at: &usize| before[*at] != after[*at];
            let Some(begin) = (0..before.len()).find(differs) else { return };
            let end = (begin..before.len()).rfind(differs).unwrap_or(begin) + 1;
            let bytes = first + begin..first + end;
            let found = WrongRead { site, datum, bytes };
            wrong.lock().expect("no thread panicked while it held this lock").push(found);
        })
    }
}

impl<T: Element, S: Send + Sync + 'static> Writes<T, S> {
    pub(super) fn declared(&self, all: &AllDeclared) -> DeclaredUse {
        let mode = if self.updates { Mode::Update } else { Mode::Write };
        self.datum.declared(&self.range, mode, all)
    }

    pub(super) fn is_on_host(&self) -> bool {
        self.datum.buffer.is_on_host()
    }

    /// Sets the device of the task.
    pub(super) fn put(&mut self, place: usize) -> Result<()> {
        self.place = place;
        self.datum.demand_on(place)
    }

    pub(super) fn view(&mut self) -> ViewMut<'_, T> {
        self.datum.view_mut_on(self.place, self.range.clone())
    }
}

/// The part of host memory that the function of a host task uses.
#[derive(Debug)]
pub struct HostPart<T, S>(Buffer<T, S>);

impl<T: Element, S: OnHost> Reads<T, S> {
    pub(super) fn host_part(&self) -> HostPart<T, S> {
        HostPart(self.datum.part(&self.range))
    }
}

impl<T: Element, S: OnHost> Writes<T, S> {
    pub(super) fn host_part(&self) -> HostPart<T, S> {
        HostPart(self.datum.part(&self.range))
    }
}

impl<T: Element, S: OnHost> HostPart<T, S> {
    pub(super) fn read(&self) -> Result<ReadGuard<'_, T>> {
        self.0.read()
    }

    pub(super) fn write(&mut self) -> Result<WriteGuard<'_, T>> {
        self.0.write()
    }
}

impl<T, S> Drop for Datum<T, S> {
    fn drop(&mut self) {
        self.core.forget_datum(self.number);
    }
}

impl<T, S> Clone for Data<T, S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, S> fmt::Debug for Data<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.0.name, self.0.buffer)
    }
}

impl<T, S> fmt::Debug for Reads<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reads {:?} of {}", self.range, self.datum.name)
    }
}

impl<T, S> fmt::Debug for Writes<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.updates { "updates" } else { "writes" };
        write!(f, "{verb} {:?} of {}", self.range, self.datum.name)
    }
}
