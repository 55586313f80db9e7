//! Element types as values, for comparisons at run time.
#![forbid(unsafe_code)]

use super::buffer::Element;
use std::any::{TypeId, type_name};
use std::fmt;

/// An element type. Its `Display` writes the name of the type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElementKind {
    id: TypeId,
    name: &'static str,
    /// The size of an element in bytes.
    pub(crate) bytes: u64,
}

impl ElementKind {
    pub(crate) fn of<T: Element>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>(), bytes: size_of::<T>() as u64 }
    }

    /// Whether elements of this type may be used as elements of `other`. The types must be equal,
    /// or one of the two must be `u8`, which means plain bytes.
    pub(crate) fn fits(self, other: Self) -> bool {
        let bytes = TypeId::of::<u8>();
        self == other || self.id == bytes || other.id == bytes
    }
}

impl PartialEq for ElementKind {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for ElementKind {}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
