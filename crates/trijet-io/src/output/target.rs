//! The description of an output: its path, its array and its format.

use super::place::Place;
use super::shard::Shard;
use crate::array::Array;
use crate::file_error;
use crate::format::promise::by_name;
use crate::format::{Format, HEADERLESS, Plan, of_output};
use crate::input::Input;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use trijet::pipeline::Layout;
use trijet::{ErrorKind, Result};

/// A description of an output, before anything is written.
#[derive(Debug, Clone)]
pub struct Target {
    pub(super) place: Place,
    array: Array,
    format: &'static dyn Format,
    pub(super) plan: Arc<dyn Plan>,
    shard: Option<Shard>,
    pub(super) overwrites: bool,
}

impl Target {
    /// Describes an output of `array` at `path`. The name determines the format: `.npy`, a folder
    /// of images for a name without an extension, and a raw file for any other name. Images have
    /// the names of the input's images.
    ///
    /// # Errors
    /// `InvalidValue` when the name promises a format that cannot be written, when `path` is the input
    /// or lies inside of it, and when the array cannot be written in that format. `Io` when the folder
    /// of `path` is missing or cannot be read.
    pub fn new(path: &Path, array: Array, input: &Input) -> Result<Self> {
        match (of_output(path), by_name(path)) {
            (Some(format), _) => Self::of_format(format, path, array, input),
            (None, Some("PNG")) => {
                let cause = "images are written to a folder; use a name without .png";
                Err(file_error::refused("create", path, cause))
            }
            (None, name) => {
                let name = name.unwrap_or("unknown");
                let cause = format!(
                    "the name promises a file of {name}, which cannot be written; use .npy, a name \
                     without extension for a folder of images, or --raw for plain bytes"
                );
                Err(file_error::refused("create", path, cause))
            }
        }
    }

    /// As [`new`](Self::new), but a name that promises a format without support gives a raw file.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn or_headerless(path: &Path, array: Array, input: &Input) -> Result<Self> {
        Self::of_format(of_output(path).unwrap_or(HEADERLESS), path, array, input)
    }

    fn of_format(
        format: &'static dyn Format,
        path: &Path,
        array: Array,
        input: &Input,
    ) -> Result<Self> {
        let place = Place::new(path)?;
        place.check(input)?;
        let plan = format.plan(path, &array, input.names())?;
        Ok(Self { place, array, format, plan, shard: None, overwrites: false })
    }

    /// Refuses an output that exists, or one that cannot be written over.
    /// [`crate::Output::open`] refuses it, too; this is for a program with much to do before.
    ///
    /// # Errors
    /// `InvalidValue` when something exists at the final path. `Io` when that is not known.
    pub fn check_free(&self) -> Result<()> {
        if self.overwrites {
            // The second name is that of the partial output, which the run discards.
            return match self.place.has_both_names() {
                true => Ok(()),
                false => self.plan.check_reuse(&self.place.out),
            };
        }
        let is_free = self.place.check_free();
        match self.shard {
            Some(_) => is_free,
            None => is_free.map_err(|error| match error.kind() {
                ErrorKind::InvalidValue => {
                    let cause = "already exists; use --overwrite to write over it";
                    file_error::refused("create", &self.place.out, cause)
                }
                _ => error,
            }),
        }
    }

    /// Writes over an output of the same format that exists at the final path: over its pages, which
    /// is faster than to make new ones. The first row takes its name away, and the name comes back with
    /// the last one. A run that is interrupted in between can be resumed, and the old rows are lost.
    ///
    /// # Panics
    /// When the target describes a part of an output.
    #[must_use]
    pub fn overwrite(mut self) -> Self {
        assert!(self.shard.is_none(), "an output of several processes is not written over");
        self.overwrites = true;
        self
    }

    /// Describes the part of the output that one of several processes writes. The last one that has
    /// written its part gives the output its final name.
    ///
    /// # Panics
    /// When the target describes a part already, or is written over.
    #[must_use]
    pub fn of_shard(mut self, shard: Shard) -> Self {
        assert!(self.shard.is_none(), "a shard has no shards");
        assert!(!self.overwrites, "an output of several processes is not written over");
        self.place = self.place.of_shard(shard);
        self.shard = Some(shard);
        self
    }

    /// The part of the output that is written, if several processes write it.
    #[must_use]
    pub fn shard(&self) -> Option<Shard> {
        self.shard
    }

    /// The rows that are written.
    #[must_use]
    pub fn rows(&self) -> Range<u64> {
        let layout = self.layout();
        self.shard.map_or(0..layout.rows, |shard| shard.rows(layout))
    }

    /// The final path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place.out
    }

    /// The array that is written.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> &'static dyn Format {
        self.format
    }

    /// The rows of the output.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.array.layout().granule(self.granule())
    }

    /// The number of rows of which chunks must hold a multiple: the height of an image for images,
    /// otherwise 1.
    #[must_use]
    pub fn granule(&self) -> u64 {
        self.plan.granule()
    }
}
