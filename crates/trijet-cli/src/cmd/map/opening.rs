//! Opens the input of a job of `trijet map`, and reads the settings of the job.
#![forbid(unsafe_code)]

use crate::args::{Axis, Endian, MapOptions, is_stream};
use crate::cmd::print_stderr;
use crate::ranks::{self, OwnRank, ShardChoice};
use crate::values::MapReport;
use std::fmt::Display;
use std::io::{IsTerminal, stdin};
use std::path::Path;
use trijet::{Error, ErrorKind, Result};
use trijet_io::{Array, Input, Plain, file_error, is_damaged_image};
use trijet_map::Settings;

/// Opens the input of a job.
pub(super) fn open_input(options: &MapOptions) -> Result<Input> {
    let is_stream = is_stream(&options.input);
    let input = match (&options.shape, options.dtype) {
        _ if options.skip_bad => {
            Input::skipping_damaged(&options.input).map_err(|error| error.context("--skip-bad"))
        }
        (Some(shape), Some(dtype)) => {
            let array = Array::new(dtype, shape.0.clone())?;
            let plain = Plain::new(array).header(options.header.map_or(0, |bytes| bytes.0));
            let is_big = options.endian == Some(Endian::Big);
            let plain = if is_big { plain.big_endian() } else { plain };
            let plain = if options.raw { plain.any_name() } else { plain };
            if is_stream {
                standard_input(Some(plain))
            } else {
                Input::plain(&options.input, plain)
            }
        }
        _ if is_stream => standard_input(None),
        _ => Input::open(&options.input, None).map_err(|error| with_way(error, options)),
    }?;
    let input = if options.axis == Axis::Second { input.swap_first_axes()? } else { input };
    match options.slice {
        Some(slice) => {
            let length = input.array().shape()[0];
            input.slice(slice.of(length))
        }
        None => Ok(input),
    }
}

/// The settings of the pipelines of a job.
pub(super) fn settings(options: &MapOptions, input: &Input) -> Settings {
    let MapOptions { chunk, depth, memory, .. } = *options;
    Settings { chunk, depth, memory, keeps_rows: input.is_stream() }
}

/// Adds the advice to use `--skip-bad` to the error of a damaged image.
pub(super) fn with_way(error: Error, options: &MapOptions) -> Error {
    if options.skip_bad || !is_damaged_image(&error) {
        return error;
    }
    let cause = format!("{error}; use --skip-bad to continue without damaged images");
    Error::new(error.kind(), "map", cause)
}

/// The rank of this process, if several processes do the job.
pub(super) fn rank_of(options: &MapOptions) -> Result<Option<OwnRank>> {
    match &options.shard {
        Some(ShardChoice::Own(shard)) => Ok(Some(shard.clone())),
        Some(ShardChoice::Auto) => ranks::of_any().map(Some),
        None => {
            let rank = ranks::of_environment()?;
            // A user who starts an array to share one job learns of it.
            if rank.is_none() && options.report != MapReport::None {
                ranks::whole_of_array()?.into_iter().for_each(print_stderr);
            }
            Ok(rank)
        }
    }
}

/// The error for a job of several processes or devices that reads or writes a stream.
pub(super) fn needs_one(what: &str, found: impl Display) -> Error {
    let cause = format!(
        "standard input and standard output are read and written in order, by one {what}, but \
         {found}"
    );
    Error::new(ErrorKind::InvalidValue, "map", cause)
}

/// Opens the standard input.
fn standard_input(plain: Option<Plain>) -> Result<Input> {
    if stdin().is_terminal() {
        let cause = "standard input is a terminal; use the name of a file, or a pipe";
        return Err(file_error::refused("open", Path::new("-"), cause));
    }
    Input::from_stream(stdin(), plain)
}
