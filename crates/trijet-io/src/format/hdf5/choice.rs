//! The choice of a data set in a file.

use super::place::DataSetFile;
use super::structure::{DataSet, Datatype, Fault, LinkEnd, Object, ObjectTree, Outcome};
use crate::file_error;
use crate::shown::shown;
use std::collections::BTreeSet;
use trijet::{Error, Result};

/// Maximum number of groups below one another, and of objects, that a search visits.
const DEPTH_MAX: usize = 16;
const OBJECTS_MAX: usize = 20_000;
/// The number of data sets that a message names.
const NAMES_MAX: usize = 8;
/// The number of axes of the data sets among which the choice is made.
const STACK_AXES: usize = 3;

/// A data set, and its path without a slash at the start.
pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) data_set: DataSet,
}

/// The data set `inner`, or the default of the file.
pub(super) fn choose(
    place: &DataSetFile<'_>,
    tree: &ObjectTree,
    inner: Option<&str>,
) -> Result<Chosen> {
    if let Some(name) = inner {
        return named(place, tree, name);
    }
    if let Some(chosen) = default_of_nexus(tree) {
        return Ok(chosen);
    }
    let Search { found, unread, away } = data_sets(place, tree)?;
    let is_stack = |one: &Chosen| one.data_set.space.shape.len() >= STACK_AXES;
    let (stacks, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_stack);
    let candidates = if stacks.is_empty() { others } else { stacks };
    let names: Vec<String> = candidates.iter().map(|one| shown(&one.name).to_string()).collect();
    let refused = |cause: String| Err(file_error::refused("open", place.path, cause));
    if let Some(unread) = unread {
        return refused(format!(
            "has /{}, which cannot be read ({}); name the data set, as in {}::/entry/data (others \
             are {})",
            shown(&unread.name),
            unread.fault,
            shown(place.path),
            list(&names)
        ));
    }
    let mut candidates = candidates.into_iter();
    match (candidates.next(), names.len()) {
        (Some(only), 1) => Ok(only),
        (None, _) => refused(match away {
            Some(away) => format!(
                "has no data set of numbers with axes; {away}, and external links are not \
                 followed: open that file"
            ),
            None => "has no data set of numbers with axes".to_owned(),
        }),
        (Some(_), count) => refused(format!(
            "has {count} data sets; name one of them, for example {}::/{} (it has {})",
            shown(place.path),
            names[0],
            list(&names)
        )),
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

/// The data set at a path.
fn named(place: &DataSetFile<'_>, tree: &ObjectTree, name: &str) -> Result<Chosen> {
    let object = match tree.find(name) {
        Ok(object) => object,
        Err(Fault::Missing(cause)) => {
            let cause = format!("/{} cannot be opened ({cause})", shown(name));
            return Err(missing(place, tree, &cause));
        }
        Err(Fault::Unsupported(cause)) => return Err(place.unreached(&cause)),
        Err(fault) => return Err(place.fault(fault)),
    };
    if object.is_group() {
        return Err(missing(place, tree, &format!("/{} is a group", shown(name))));
    }
    if !object.is_data_set() {
        return Err(missing(place, tree, &format!("/{} is no data set", shown(name))));
    }
    let data_set = tree.data_set(object).map_err(|fault| place.fault(fault))?;
    Ok(Chosen { name: name.to_owned(), data_set })
}

/// The error for a path at which there is no data set.
fn missing(place: &DataSetFile<'_>, tree: &ObjectTree, cause: &str) -> Error {
    let found = data_sets(place, tree).map(|search| search.found).unwrap_or_default();
    let names: Vec<String> = found.iter().map(|one| shown(&one.name).to_string()).collect();
    let cause = match names.len() {
        0 => cause.to_owned(),
        _ => format!("{cause}; the data sets are {}", list(&names)),
    };
    file_error::refused("open", place.path, cause)
}

/// The data set that the attributes `default` and `signal` of a NeXus file name.
fn default_of_nexus(tree: &ObjectTree) -> Option<Chosen> {
    let (mut group, mut name) = (tree.root().ok()?, String::new());
    for _ in 0..DEPTH_MAX {
        let below = |name: &str, next: &str| match next.strip_prefix('/') {
            Some(next) => next.to_owned(),
            None if name.is_empty() => next.to_owned(),
            None => format!("{name}/{next}"),
        };
        if let Some(signal) = text(tree, &group, "signal") {
            let name = below(&name, &signal);
            let object = tree.find(&name).ok().filter(Object::is_data_set)?;
            return Some(Chosen { name, data_set: tree.data_set(object).ok()? });
        }
        name = below(&name, &text(tree, &group, "default")?);
        group = tree.find(&name).ok()?;
    }
    None
}

/// The text of an attribute.
fn text(tree: &ObjectTree, object: &Object, name: &str) -> Option<String> {
    let mut all = tree.attributes(object);
    all.retain(|attribute| attribute.name == name);
    tree.texts(&all, 1).pop()??.pop()
}

/// The data sets of a file.
#[derive(Default)]
struct Search {
    found: Vec<Chosen>,
    /// An object that cannot be read.
    unread: Option<Unread>,
    /// A statement about an external link.
    away: Option<String>,
}

/// An object that cannot be read.
struct Unread {
    name: String,
    fault: Fault,
}

/// A group that is not visited yet.
struct OpenGroup {
    name: String,
    object: Object,
    depth: usize,
}

impl OpenGroup {
    /// The path of a child.
    fn below(&self, child: &str) -> String {
        match self.name.as_str() {
            "" => child.to_owned(),
            name => format!("{name}/{child}"),
        }
    }
}

/// All data sets of numbers with axes. A data set that has several names is listed once.
///
/// Soft links are not followed. Whatever they lead to also has a hard link.
fn data_sets(place: &DataSetFile<'_>, tree: &ObjectTree) -> Result<Search> {
    let mut search = Search::default();
    let root = tree.root().map_err(|fault| place.fault(fault))?;
    let mut seen = BTreeSet::from([root.address]);
    let mut open = vec![OpenGroup { name: String::new(), object: root, depth: 0 }];
    while let Some(group) = open.pop() {
        match search.visit(tree, &group, &mut seen) {
            Ok(groups) => open.extend(groups),
            Err(fault) => search.unread = Some(Unread { name: group.name, fault }),
        }
        if seen.len() > OBJECTS_MAX {
            let cause = format!(
                "has more than {OBJECTS_MAX} objects; name the data set, for example \
                 {}::/entry/data",
                shown(place.path)
            );
            return Err(file_error::refused("open", place.path, cause));
        }
    }
    search.found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(search)
}

impl Search {
    /// Adds the data sets of a group. Returns the groups in it.
    fn visit(
        &mut self,
        tree: &ObjectTree,
        group: &OpenGroup,
        seen: &mut BTreeSet<u64>,
    ) -> Outcome<Vec<OpenGroup>> {
        let mut groups = Vec::new();
        for link in tree.links(&group.object)? {
            let name = group.below(&link.name);
            let address = match link.end {
                LinkEnd::Hard(address) => address,
                LinkEnd::External { file, path } => {
                    let (name, path, file) = (shown(&name), shown(&path), shown(&file));
                    self.away = Some(format!("/{name} is a link to {path} in the file {file}"));
                    continue;
                }
                LinkEnd::Soft(_) | LinkEnd::Foreign(_) => continue,
            };
            // Groups may contain each other.
            if !seen.insert(address) || seen.len() > OBJECTS_MAX {
                continue;
            }
            match tree.object(address) {
                Ok(object) if object.is_group() => {
                    if group.depth < DEPTH_MAX {
                        groups.push(OpenGroup { name, object, depth: group.depth + 1 });
                    }
                }
                Ok(object) => self.add(tree, name, object),
                Err(fault) => self.unread = Some(Unread { name, fault }),
            }
        }
        Ok(groups)
    }

    /// Adds an object if it is a data set of numbers with axes.
    fn add(&mut self, tree: &ObjectTree, name: String, object: Object) {
        if !object.is_data_set() {
            return;
        }
        match tree.data_set(object) {
            Ok(data_set) if has_numbers(&data_set) => self.found.push(Chosen { name, data_set }),
            Ok(_) => {}
            Err(fault) => self.unread = Some(Unread { name, fault }),
        }
    }
}

/// Whether the elements may be numbers, and the data set has axes.
fn has_numbers(data_set: &DataSet) -> bool {
    let is_text = matches!(
        data_set.datatype,
        Datatype::Text { .. } | Datatype::TextOfAnyLength | Datatype::References
    );
    !is_text && !data_set.space.shape.is_empty()
}
