//! The choice of a data set in a file.

use crate::file_error;
use crate::shown::shown;
use hdf5_pure::{AttrValue, DType, Dataset, File, Group, Layout};
use std::path::Path;
use trijet::{Error, Result};

/// Maximum number of groups below one another, and of objects, that a search visits. Groups may
/// contain each other.
const DEPTH_MAX: usize = 16;
const OBJECTS_MAX: usize = 20_000;
/// The number of data sets that a message names.
const NAMES_MAX: usize = 8;
/// The number of axes of the data sets among which the choice is made.
const STACK_AXES: usize = 3;

/// A data set, and its path without a slash at the start.
pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) data_set: Dataset,
}

/// The data set `inner`, or the default of the file.
pub(super) fn choose(path: &Path, tree: &File, inner: Option<&str>) -> Result<Chosen> {
    if let Some(name) = inner {
        return match tree.dataset(name) {
            Ok(data_set) => Ok(Chosen { name: name.to_owned(), data_set }),
            Err(error) => Err(missing(path, tree, name, &error)),
        };
    }
    if let Some(chosen) = default_of_nexus(tree) {
        return Ok(chosen);
    }
    let Search { found, unlisted } = data_sets(path, tree)?;
    let is_stack = |one: &Chosen| one.data_set.shape().is_ok_and(|shape| shape.len() >= STACK_AXES);
    let (stacks, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_stack);
    let candidates = if stacks.is_empty() { others } else { stacks };
    let names: Vec<String> = candidates.iter().map(|one| shown(&one.name).to_string()).collect();
    if let Some(group) = unlisted {
        let cause = format!(
            "has the group /{}, which cannot be listed, for example because of a soft link; name \
             the data set, as in {}::/entry/data (others are {})",
            shown(&group),
            shown(path),
            list(&names)
        );
        return Err(file_error::refused("open", path, cause));
    }
    let mut candidates = candidates.into_iter();
    match (candidates.next(), names.len()) {
        (Some(only), 1) => Ok(only),
        (None, _) => {
            let cause = "has no data set of numbers with axes";
            Err(file_error::refused("open", path, cause))
        }
        (Some(_), count) => {
            let cause = format!(
                "has {count} data sets; name one of them, for example {}::/{} (it has {})",
                shown(path),
                names[0],
                list(&names)
            );
            Err(file_error::refused("open", path, cause))
        }
    }
}

/// The first names, and the number of the others.
fn list(names: &[String]) -> String {
    let first = names.iter().take(NAMES_MAX).map(|name| format!("/{name}"));
    let first = first.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The error for a path at which there is no data set.
fn missing(path: &Path, tree: &File, name: &str, error: &hdf5_pure::Error) -> Error {
    let found = data_sets(path, tree).map(|search| search.found).unwrap_or_default();
    let names: Vec<String> = found.iter().map(|one| shown(&one.name).to_string()).collect();
    let cause = match tree.group(name) {
        Ok(_) => format!("/{} is a group", shown(name)),
        Err(_) => format!(
            "/{} cannot be opened ({error}); soft and external links are not followed: name the \
             data set itself",
            shown(name)
        ),
    };
    let cause = match names.len() {
        0 => cause,
        _ => format!("{cause}; the data sets are {}", list(&names)),
    };
    file_error::refused("open", path, cause)
}

/// The data set that the attributes `default` and `signal` of a NeXus file name.
fn default_of_nexus(tree: &File) -> Option<Chosen> {
    let (mut group, mut name) = (tree.root(), String::new());
    for _ in 0..DEPTH_MAX {
        let attributes = group.attrs().ok()?;
        let text = |key: &str| attributes.get(key).and_then(AttrValue::as_str).map(str::to_owned);
        let below = |name: &str, next: &str| match next.strip_prefix('/') {
            Some(next) => next.to_owned(),
            None if name.is_empty() => next.to_owned(),
            None => format!("{name}/{next}"),
        };
        if let Some(signal) = text("signal") {
            let name = below(&name, &signal);
            let data_set = tree.dataset(&name).ok()?;
            return Some(Chosen { name, data_set });
        }
        name = below(&name, &text("default")?);
        group = tree.group(&name).ok()?;
    }
    None
}

/// The data sets of a file.
struct Search {
    found: Vec<Chosen>,
    /// A group that cannot be listed.
    unlisted: Option<String>,
}

/// All data sets of numbers with axes. A data set that has several names is listed once.
///
/// The crate lists no group in the older form that has a soft link, so such a group is left out.
fn data_sets(path: &Path, tree: &File) -> Result<Search> {
    let mut found: Vec<Chosen> = Vec::new();
    let mut unlisted = None;
    let mut seen = 0;
    let mut open: Vec<(String, Group, usize)> = vec![(String::new(), tree.root(), 0)];
    while let Some((name, group, depth)) = open.pop() {
        let below = |child: &str| match name.as_str() {
            "" => child.to_owned(),
            name => format!("{name}/{child}"),
        };
        let (Ok(data_sets), Ok(groups)) = (group.iter_datasets(), group.iter_groups()) else {
            unlisted = Some(name);
            continue;
        };
        for (child, data_set) in data_sets {
            seen += 1;
            let is_known = found.iter().any(|one| is_same(&one.data_set, &data_set));
            if has_numbers(&data_set) && !is_known {
                found.push(Chosen { name: below(&child), data_set });
            }
        }
        for (child, inner) in groups {
            seen += 1;
            if depth < DEPTH_MAX {
                open.push((below(&child), inner, depth + 1));
            }
        }
        if seen > OBJECTS_MAX {
            let cause = format!(
                "has more than {OBJECTS_MAX} objects; name the data set, for example \
                 {}::/entry/data",
                shown(path)
            );
            return Err(file_error::refused("open", path, cause));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Search { found, unlisted })
}

/// Whether the elements may be numbers, and the data set has axes.
fn has_numbers(data_set: &Dataset) -> bool {
    let is_text = matches!(
        data_set.dtype(),
        Err(_) | Ok(DType::String | DType::VariableLengthString | DType::ObjectReference)
    );
    !is_text && data_set.shape().is_ok_and(|shape| !shape.is_empty())
}

/// Whether two data sets have the same elements at the same place.
fn is_same(one: &Dataset, other: &Dataset) -> bool {
    let layout = |data_set: &Dataset| data_set.layout().ok();
    if one.shape().ok() != other.shape().ok() || layout(one) != layout(other) {
        return false;
    }
    match layout(one) {
        Some(Layout::Contiguous { address, .. }) => address.is_some(),
        Some(Layout::Chunked { .. }) => {
            let chunks = |data_set: &Dataset| data_set.chunks().ok().filter(|all| !all.is_empty());
            chunks(one).is_some() && chunks(one) == chunks(other)
        }
        _ => false,
    }
}
