//! The reasons why a part of the structure is not read.

use std::fmt::{self, Display};
use std::io;

/// The result of reading a part of the structure.
pub(in crate::format::hdf5) type Outcome<T> = std::result::Result<T, Fault>;

/// The reason why a part of the structure is not read.
#[derive(Debug)]
pub(in crate::format::hdf5) enum Fault {
    /// The bytes do not conform to the format.
    Damaged(String),
    /// The file is intact, but this reader does not have what it needs.
    Unsupported(String),
    /// There is no object at a path.
    Missing(String),
    /// The file cannot be read.
    Io(io::Error),
}

impl Fault {
    pub(in crate::format::hdf5) fn damaged(cause: impl Into<String>) -> Self {
        Self::Damaged(cause.into())
    }

    /// The same fault, with the part that has the damage.
    pub(super) fn within(self, part: &str) -> Self {
        match self {
            Self::Damaged(cause) => Self::Damaged(format!("{part}: {cause}")),
            other => other,
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(cause) | Self::Unsupported(cause) | Self::Missing(cause) => {
                f.write_str(cause)
            }
            Self::Io(error) => error.fmt(f),
        }
    }
}
