//! Options of several commands.
#![forbid(unsafe_code)]

use crate::timeline;
use clap::Args;
use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use std::path::{Path, PathBuf};
use trijet_io::{Dtype, Existing};

/// The option that lets a command replace files.
#[derive(Debug, Args)]
pub(crate) struct Overwrite {
    /// Replace existing files that have the names of the outputs, each when the new one is
    /// complete. Without this option such a file is kept, and the command fails. The input is
    /// always kept.
    #[arg(long)]
    overwrite: bool,
}

impl Overwrite {
    /// Returns whether existing files are kept or replaced.
    pub(crate) fn existing(&self) -> Existing {
        existing(self.overwrite)
    }
}

/// Returns whether existing files are kept or replaced.
pub(super) fn existing(is_replaced: bool) -> Existing {
    if is_replaced { Existing::Replaced } else { Existing::Kept }
}

/// Whether the file name of `path` has the extension `wanted`, in upper or lower case.
pub(crate) fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

/// A parser of the name of a timeline file. The parser refuses an extension that no format of
/// timelines has.
pub(super) fn timeline_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| timeline::check_name(&path).map(|()| path))
}

/// A parser of one of the element types `types`, by the name of the type in Rust or in NumPy.
pub(crate) fn dtype_of(types: &[Dtype]) -> impl TypedValueParser<Value = Dtype> {
    let names = types.iter().map(|one| PossibleValue::new(one.name()).alias(one.numpy_name()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Dtype>())
}
