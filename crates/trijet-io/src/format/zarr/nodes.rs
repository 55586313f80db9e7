//! Finds the array of an input in a tree of groups.

use super::json::{attributes, read_json};
use super::metadata::Metadata;
use super::ome::Pyramid;
use super::reason::Checked;
use super::versions;
use crate::file_error;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use trijet::{Error, Result};

/// The name of the metadata of Zarr v3, and of arrays and groups of Zarr v2.
pub(super) const V3: &str = "zarr.json";
const ARRAY_V2: &str = ".zarray";
const GROUP_V2: &str = ".zgroup";
const ATTRIBUTES_V2: &str = ".zattrs";

/// Maximum depth of groups, and maximum number of arrays and groups, of a search.
const DEPTH_MAX: usize = 16;
const NODES_MAX: usize = 10_000;
/// Maximum number of arrays that a message names.
const NAMES_MAX: usize = 5;

/// Whether a folder has the metadata of an array or a group.
pub(super) fn is_node(folder: &Path) -> bool {
    [V3, ARRAY_V2, GROUP_V2].iter().any(|name| folder.join(name).is_file())
}

/// An array or a group, before its metadata are parsed.
enum Node {
    Array { file: PathBuf, object: Map<String, Value>, is_v3: bool },
    Group { attributes: Map<String, Value> },
}

/// The array of an input.
#[derive(Debug)]
pub(super) struct FoundArray {
    pub(super) metadata: Metadata,
    /// The folder of the array, and its path within the input. The path of the root is empty.
    pub(super) folder: PathBuf,
    pub(super) inner: String,
    pub(super) spacing: [Option<f64>; 3],
    /// The number of smaller levels of the pyramid of the array.
    pub(super) smaller_levels: usize,
}

/// Finds the array at the path `inner` in the input `root`. A path of a group means the array of
/// this group.
pub(super) fn find(root: &Path, inner: &str) -> Result<FoundArray> {
    check_inner(root, inner)?;
    let folder = root.join(inner);
    let parent = inner.rsplit_once('/').map(|(parent, name)| (parent.to_owned(), name));
    let parent = parent.or_else(|| (!inner.is_empty()).then(|| (String::new(), inner)));
    match node(&folder)? {
        Some(array @ Node::Array { .. }) => {
            let spacing = match parent {
                Some((parent, name)) => pyramid_of(&root.join(parent))?
                    .map_or([None; 3], |pyramid| pyramid.spacing_of(name)),
                None => [None; 3],
            };
            found(root, inner, array, spacing, 0)
        }
        Some(Node::Group { attributes }) => find_in_group(root, inner, &attributes),
        None => {
            let cause = "no array or group of Zarr: there is no zarr.json, .zarray or .zgroup";
            Err(file_error::damaged("open", &folder, cause))
        }
    }
}

/// Refuses a path that leads out of the input.
fn check_inner(root: &Path, inner: &str) -> Result<()> {
    let is_outside = inner.split('/').any(|part| part == ".." || part == ".");
    if is_outside || inner.contains("//") {
        let cause = format!("/{inner} is not the path of an array");
        return Err(file_error::refused("open", root, cause));
    }
    Ok(())
}

/// Finds the array of a group: level 0 of the group's pyramid, or the only array.
fn find_in_group(root: &Path, inner: &str, attributes: &Map<String, Value>) -> Result<FoundArray> {
    let join =
        |path: &str| if inner.is_empty() { path.to_owned() } else { format!("{inner}/{path}") };
    if let Some(pyramid) = Pyramid::of(attributes) {
        let path = join(&pyramid.levels[0]);
        check_inner(root, &path)?;
        let folder = root.join(&path);
        return match node(&folder)? {
            Some(array @ Node::Array { .. }) => {
                let spacing = pyramid.spacing_of(&pyramid.levels[0]);
                found(root, &path, array, spacing, pyramid.levels.len() - 1)
            }
            _ => Err(file_error::damaged("open", &folder, "level 0 of the pyramid is missing")),
        };
    }
    let mut arrays = Vec::new();
    search(root, inner, &mut 0, 0, &mut arrays)?;
    let has_images = arrays.iter().any(|(_, axes)| *axes > 2);
    arrays.retain(|(_, axes)| *axes > 2 || !has_images);
    arrays.sort();
    match &arrays[..] {
        [(path, _)] => find(root, path),
        [] => Err(file_error::refused("open", &root.join(inner), "the group has no array")),
        several => Err(several_arrays(root, several)),
    }
}

/// The error for a group with several arrays.
fn several_arrays(root: &Path, several: &[(String, usize)]) -> Error {
    let names = several.iter().take(NAMES_MAX).map(|(path, _)| format!("::/{path}"));
    let names = names.collect::<Vec<_>>().join(", ");
    let more = match several.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let cause = format!(
        "the group has several arrays; add one of these paths to the name of the input: \
         {names}{more}"
    );
    file_error::refused("open", root, cause)
}

/// Adds the arrays in a group to `arrays`, each with its number of axes. Of a pyramid, adds only
/// level 0.
fn search(
    root: &Path,
    inner: &str,
    nodes: &mut usize,
    depth: usize,
    arrays: &mut Vec<(String, usize)>,
) -> Result<()> {
    let folder = root.join(inner);
    let io = |error| file_error::io("open", &folder, error);
    for entry in fs::read_dir(&folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let path = if inner.is_empty() { name.to_owned() } else { format!("{inner}/{name}") };
        let Some(node) = node(&root.join(&path))? else { continue };
        *nodes += 1;
        if *nodes > NODES_MAX || depth > DEPTH_MAX {
            let cause = "has too many groups; add ::/ and the path of an array to the name";
            return Err(file_error::refused("open", root, cause));
        }
        match node {
            Node::Array { object, .. } => {
                let axes = object.get("shape").and_then(Value::as_array).map_or(0, Vec::len);
                arrays.push((path, axes));
            }
            Node::Group { attributes } => match Pyramid::of(&attributes) {
                Some(_) => arrays.push((path, 3)),
                None => search(root, &path, nodes, depth + 1, arrays)?,
            },
        }
    }
    Ok(())
}

/// The pyramid of the group in `folder`, if it has one.
fn pyramid_of(folder: &Path) -> Result<Option<Pyramid>> {
    Ok(match node(folder)? {
        Some(Node::Group { attributes }) => Pyramid::of(&attributes),
        _ => None,
    })
}

/// The array or group in `folder`. `None` if there is neither.
fn node(folder: &Path) -> Result<Option<Node>> {
    let file = folder.join(V3);
    if let Some(object) = read_json(&file)? {
        return match object.get("node_type").and_then(Value::as_str) {
            Some("array") => Ok(Some(Node::Array { file, object, is_v3: true })),
            Some("group") => {
                Ok(Some(Node::Group { attributes: attributes(object.get("attributes")) }))
            }
            _ => Err(file_error::damaged("open", &file, "`node_type` is not array or group")),
        };
    }
    let file = folder.join(ARRAY_V2);
    if let Some(object) = read_json(&file)? {
        return Ok(Some(Node::Array { file, object, is_v3: false }));
    }
    if read_json(&folder.join(GROUP_V2))?.is_some() {
        let attributes = read_json(&folder.join(ATTRIBUTES_V2))?.unwrap_or_default();
        return Ok(Some(Node::Group { attributes }));
    }
    Ok(None)
}

/// Parses the metadata of an array.
fn found(
    root: &Path,
    inner: &str,
    node: Node,
    spacing: [Option<f64>; 3],
    smaller_levels: usize,
) -> Result<FoundArray> {
    let folder = root.join(inner);
    let Node::Array { file, object, is_v3 } = node else {
        return Err(file_error::damaged("open", &folder, "is not an array"));
    };
    let parsed: Checked<Metadata> =
        if is_v3 { versions::v3(&object) } else { versions::v2(&object) };
    let mut metadata = parsed.map_err(|reason| reason.error(&file, root, inner))?;
    if !is_v3 {
        metadata.attributes = read_json(&folder.join(ATTRIBUTES_V2))?.unwrap_or_default();
    }
    let inner = inner.to_owned();
    Ok(FoundArray { metadata, folder, inner, spacing, smaller_levels })
}
