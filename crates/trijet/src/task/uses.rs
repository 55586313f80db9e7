//! The uses that a task declares: one use of data, or a tuple of uses. The function of the task
//! gets views of the data.
#![forbid(unsafe_code)]

use super::data::{HostPart, Reads, Writes};
use super::declared::AllDeclared;
use super::reduce::Reduces;
use crate::base::error::Result;
use crate::kernels::Reduction;
use crate::memory::{Element, OnHost, ReadGuard, View, ViewMut, WriteGuard};
use crate::stream::Stream;
use std::panic::Location;

mod sealed {
    #[expect(unnameable_types, reason = "only this crate implements it")]
    pub trait Sealed {}
}

/// The uses of a task on a stream: one use, such as the result of [`Data::read`](super::Data::read)
/// or [`Data::update`](super::Data::update), a tuple of up to eight uses, or a vector. Only this
/// crate implements this trait.
pub trait TaskUses: sealed::Sealed + Send + 'static {
    /// The arguments of the body: views of the elements.
    type Views<'t>;
    /// Adds the uses to `all`.
    fn declare(&self, all: &mut AllDeclared);
    /// Sets the number of the device of the task, and makes copies of the data on this device.
    /// Called only if the tasks have several devices.
    ///
    /// # Errors
    /// The errors of an allocation.
    fn put(&mut self, place: usize) -> Result<()>;
    /// Prepares the uses. Called with the stream of the task, before the function of the task.
    ///
    /// # Errors
    /// Errors of the enqueue calls.
    fn begin(&mut self, stream: &Stream) -> Result<()> {
        let _ = stream;
        Ok(())
    }
    /// Returns the views of the elements.
    fn views(&mut self) -> Self::Views<'_>;
    /// Completes the uses. Called with the stream of the task, after the function of the task has
    /// succeeded. `site` is the line of the program that submitted the task.
    ///
    /// # Errors
    /// Errors of the enqueue calls.
    fn end(&mut self, stream: &Stream, site: &'static Location<'static>) -> Result<()> {
        let _ = (stream, site);
        Ok(())
    }
}

/// The uses of a task on a thread of the host. All data are in host memory. Only this crate
/// implements this trait.
pub trait HostUses: TaskUses {
    /// Handles of the memory. The thread of the host keeps the handles while the function runs.
    type Parts;
    /// The arguments of the body: guards of the elements, valid while the body runs.
    type Guards<'t>;
    /// Returns the handles of the memory.
    fn parts(&self) -> Self::Parts;
    /// Waits for the operations that must come before the uses, and returns guards of the elements.
    ///
    /// # Errors
    /// The error of work that failed.
    fn guards(parts: &mut Self::Parts) -> Result<Self::Guards<'_>>;
}

impl<T: Element, S> sealed::Sealed for Reads<T, S> {}
impl<T: Element, S> sealed::Sealed for Writes<T, S> {}

impl<T: Element, S: Send + Sync + 'static> TaskUses for Reads<T, S> {
    type Views<'t> = View<'t, T>;

    fn declare(&self, all: &mut AllDeclared) {
        let one = self.declared(all);
        all.push(one);
    }

    fn put(&mut self, place: usize) -> Result<()> {
        self.put(place)
    }

    fn begin(&mut self, stream: &Stream) -> Result<()> {
        self.keep_before(stream)
    }

    fn views(&mut self) -> View<'_, T> {
        self.view()
    }

    fn end(&mut self, stream: &Stream, site: &'static Location<'static>) -> Result<()> {
        self.compare(stream, site)
    }
}

impl<T: Element, S: Send + Sync + 'static> TaskUses for Writes<T, S> {
    type Views<'t> = ViewMut<'t, T>;

    fn declare(&self, all: &mut AllDeclared) {
        let one = self.declared(all);
        all.push(one);
    }

    fn put(&mut self, place: usize) -> Result<()> {
        self.put(place)
    }

    fn views(&mut self) -> ViewMut<'_, T> {
        self.view()
    }
}

impl<T: Element, R: Reduction<T>> sealed::Sealed for Reduces<T, R> {}

impl<T: Element, R: Reduction<T>> TaskUses for Reduces<T, R> {
    type Views<'t> = ViewMut<'t, T>;

    fn declare(&self, all: &mut AllDeclared) {
        let one = self.declared(all);
        all.push(one);
    }

    fn put(&mut self, place: usize) -> Result<()> {
        self.put(place)
    }

    fn begin(&mut self, stream: &Stream) -> Result<()> {
        self.begin(stream)
    }

    fn views(&mut self) -> ViewMut<'_, T> {
        self.view()
    }

    fn end(&mut self, stream: &Stream, _: &'static Location<'static>) -> Result<()> {
        self.end(stream)
    }
}

impl<T: Element, S: OnHost + Send + Sync + 'static> HostUses for Reads<T, S> {
    type Parts = HostPart<T, S>;
    type Guards<'t> = ReadGuard<'t, T>;

    fn parts(&self) -> HostPart<T, S> {
        self.host_part()
    }

    fn guards(parts: &mut HostPart<T, S>) -> Result<ReadGuard<'_, T>> {
        parts.read()
    }
}

impl<T: Element, S: OnHost + Send + Sync + 'static> HostUses for Writes<T, S> {
    type Parts = HostPart<T, S>;
    type Guards<'t> = WriteGuard<'t, T>;

    fn parts(&self) -> HostPart<T, S> {
        self.host_part()
    }

    fn guards(parts: &mut HostPart<T, S>) -> Result<WriteGuard<'_, T>> {
        parts.write()
    }
}

macro_rules! tuples {
    ($(($($use:ident $at:tt),*))*) => {$(
        impl<$($use: sealed::Sealed),*> sealed::Sealed for ($($use,)*) {}

        impl<$($use: TaskUses),*> TaskUses for ($($use,)*) {
            type Views<'t> = ($($use::Views<'t>,)*);

            fn declare(&self, all: &mut AllDeclared) {
                $(self.$at.declare(all);)*
            }

            fn put(&mut self, place: usize) -> Result<()> {
                $(self.$at.put(place)?;)*
                Ok(())
            }

            fn begin(&mut self, stream: &Stream) -> Result<()> {
                $(self.$at.begin(stream)?;)*
                Ok(())
            }

            fn views(&mut self) -> Self::Views<'_> {
                ($(self.$at.views(),)*)
            }

            fn end(&mut self, stream: &Stream, site: &'static Location<'static>) -> Result<()> {
                $(self.$at.end(stream, site)?;)*
                Ok(())
            }
        }

        impl<$($use: HostUses),*> HostUses for ($($use,)*) {
            type Parts = ($($use::Parts,)*);
            type Guards<'t> = ($($use::Guards<'t>,)*);

            fn parts(&self) -> Self::Parts {
                ($(self.$at.parts(),)*)
            }

            fn guards(parts: &mut Self::Parts) -> Result<Self::Guards<'_>> {
                Ok(($($use::guards(&mut parts.$at)?,)*))
            }
        }
    )*};
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

impl<U: sealed::Sealed> sealed::Sealed for Vec<U> {}

/// Any number of uses.
impl<U: TaskUses> TaskUses for Vec<U> {
    type Views<'t> = Vec<U::Views<'t>>;

    fn declare(&self, all: &mut AllDeclared) {
        self.iter().for_each(|one| one.declare(all));
    }

    fn put(&mut self, place: usize) -> Result<()> {
        self.iter_mut().try_for_each(|one| one.put(place))
    }

    fn begin(&mut self, stream: &Stream) -> Result<()> {
        self.iter_mut().try_for_each(|one| one.begin(stream))
    }

    fn views(&mut self) -> Self::Views<'_> {
        self.iter_mut().map(U::views).collect()
    }

    fn end(&mut self, stream: &Stream, site: &'static Location<'static>) -> Result<()> {
        self.iter_mut().try_for_each(|one| one.end(stream, site))
    }
}

impl<U: HostUses> HostUses for Vec<U> {
    type Parts = Vec<U::Parts>;
    type Guards<'t> = Vec<U::Guards<'t>>;

    fn parts(&self) -> Self::Parts {
        self.iter().map(U::parts).collect()
    }

    fn guards(parts: &mut Self::Parts) -> Result<Self::Guards<'_>> {
        parts.iter_mut().map(U::guards).collect()
    }
}

impl sealed::Sealed for () {}

impl TaskUses for () {
    type Views<'t> = ();

    fn declare(&self, _: &mut AllDeclared) {}

    fn put(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn views(&mut self) {}
}

impl HostUses for () {
    type Parts = ();
    type Guards<'t> = ();

    fn parts(&self) {}

    fn guards((): &mut ()) -> Result<()> {
        Ok(())
    }
}
