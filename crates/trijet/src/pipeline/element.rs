//! The type of the elements in a row.
#![forbid(unsafe_code)]

use crate::memory::Element;
use std::any::{TypeId, type_name};
use std::fmt;

/// A type of elements. Its `Display` is the name of the type.
#[derive(Debug, Clone, Copy)]
pub(super) struct StageElement {
    id: TypeId,
    name: &'static str,
    /// The bytes of an element.
    pub(super) bytes: u64,
}

impl StageElement {
    pub(super) fn of<T: Element>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>(), bytes: size_of::<T>() as u64 }
    }

    /// Whether elements of this type may be taken for elements of `other`: both are the same, or
    /// one is `u8`, which stands for plain bytes.
    pub(super) fn fits(self, other: Self) -> bool {
        let bytes = TypeId::of::<u8>();
        self == other || self.id == bytes || other.id == bytes
    }
}

impl PartialEq for StageElement {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for StageElement {}

impl fmt::Display for StageElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
