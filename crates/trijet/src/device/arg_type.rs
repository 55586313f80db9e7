//! The type of an argument, as the program that launches a kernel declares it.
#![forbid(unsafe_code)]

use std::any::{TypeId, type_name};
use std::fmt;

/// The type of a scalar, or of the elements of a span.
#[derive(Clone, Copy)]
pub(crate) struct ArgType(fn() -> (TypeId, &'static str));

/// Marks an argument that is the length of the span before it.
pub(super) struct Length;

impl ArgType {
    /// The length of a span, which is a u64.
    pub(crate) const LENGTH: Self = Self::of::<Length>();

    pub(crate) const fn of<T: 'static>() -> Self {
        Self(|| (TypeId::of::<T>(), type_name::<T>()))
    }

    pub(super) fn is<T: 'static>(self) -> bool {
        (self.0)().0 == TypeId::of::<T>()
    }

    pub(super) fn name(self) -> &'static str {
        (self.0)().1
    }
}

impl fmt::Debug for ArgType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
