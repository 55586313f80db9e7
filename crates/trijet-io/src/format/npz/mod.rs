//! An `.npz` file: a ZIP archive whose members are `.npy` files. Such files are read, and not
//! written.
//!
//! `numpy.savez` stores its members without compression, so the rows of a member are one run of
//! bytes in the archive. Members that `numpy.savez_compressed` has written can only be decoded from
//! their start, so they are refused. `scan.npz::name` means the member `name.npy`.

mod directory;

use super::contract::{Format, Found, Opened, Plan, open_regular, refuse_description};
use super::npy::open_part;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::file_error;
use crate::plain::Plain;
use crate::python::{literal, refused_with_line};
use crate::shown::shown;
use directory::{Member, members};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use trijet::Result;

/// The extension of the members that have arrays.
const ARRAY: &str = ".npy";
/// The number of members that a message names.
const NAMES_MAX: usize = 8;
/// The methods of compression of ZIP archives for members that are only stored, and for members
/// that numpy compresses.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

#[derive(Debug)]
pub(super) struct Npz;

impl Format for Npz {
    fn name(&self) -> &'static str {
        "npz"
    }

    fn claims_input(&self, found: &Found<'_>) -> bool {
        !found.is_folder && found.has_extension("npz")
    }

    fn claims_output(&self, _path: &Path) -> bool {
        false
    }

    fn open(&self, path: &Path, plain: Option<&Plain>) -> Result<Opened> {
        open(path, None, plain)
    }

    fn open_inner(&self, path: &Path, inner: &str, plain: Option<&Plain>) -> Result<Opened> {
        open(path, Some(inner), plain)
    }

    fn plan(
        &self,
        path: &Path,
        _array: &Array,
        _names: &[OsString],
        _annotations: &Annotations,
    ) -> Result<Arc<dyn Plan>> {
        Err(file_error::refused("create", path, "npz files are read, but not written; use .npy"))
    }
}

/// Opens the array `name` of an archive. If `name` is `None`, the archive has only one array.
fn open(path: &Path, name: Option<&str>, plain: Option<&Plain>) -> Result<Opened> {
    refuse_description(path, plain)?;
    let (file, metadata) = open_regular(path)?;
    let mut arrays = members(&file, path, metadata.len())?;
    arrays.retain(|member| member.name.ends_with(ARRAY));
    let member = chosen(path, &arrays, name)?;
    let key = &member.name[..member.name.len() - ARRAY.len()];
    let python = format!("numpy.load({{}})[{}]", literal(Path::new(key)));
    if member.is_encrypted {
        let cause = format!("the member {} is encrypted", shown(&member.name));
        return Err(file_error::refused("open", path, cause));
    }
    match member.method {
        STORED => open_part(
            file.try_clone().map_err(|error| file_error::io("open", path, error))?,
            path,
            member.place(&file, path, metadata.len())?,
            &python,
            &metadata,
        ),
        DEFLATED => {
            let cause = format!(
                "the member {} is compressed (numpy.savez_compressed), so its rows cannot be read \
                 in any order",
                shown(&member.name)
            );
            Err(refused_with_line("open", path, &cause, "", &python))
        }
        method => {
            let name = shown(&member.name);
            let cause = format!("the member {name} is compressed by the method {method} of ZIP");
            Err(file_error::refused("open", path, cause))
        }
    }
}

/// The member that the user means.
fn chosen<'a>(path: &Path, arrays: &'a [Member], name: Option<&str>) -> Result<&'a Member> {
    let refused = |cause: String| Err(file_error::refused("open", path, cause));
    let Some(name) = name else {
        return match arrays {
            [only] => Ok(only),
            [] => refused("the archive has no .npy file".to_owned()),
            several => refused(format!(
                "the archive has {} arrays; name one of them, for example {}::{} (it has {})",
                several.len(),
                shown(path),
                key(&several[0]),
                names(several)
            )),
        };
    };
    let is_named = |member: &&Member| member.name == name || key(member) == name;
    match arrays.iter().find(is_named) {
        Some(member) => Ok(member),
        None => refused(format!("has no array {}; it has {}", shown(name), names(arrays))),
    }
}

/// The name of an array in Python.
fn key(member: &Member) -> String {
    shown(member.name.strip_suffix(ARRAY).unwrap_or(&member.name)).to_string()
}

/// The names of the arrays, for a message.
fn names(arrays: &[Member]) -> String {
    let more = arrays.len().saturating_sub(NAMES_MAX);
    let first = arrays.iter().take(NAMES_MAX).map(key).collect::<Vec<_>>().join(", ");
    match (arrays.len(), more) {
        (0, _) => "no array".to_owned(),
        (_, 0) => first,
        _ => format!("{first} and {more} more"),
    }
}
