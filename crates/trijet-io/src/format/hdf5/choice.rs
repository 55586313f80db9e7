//! The choice of a data set in a file.

use super::place::DataSetFile;
use super::structure::{
    Attributes, DataSet, Datatype, Fault, LinkEnd, Object, ObjectTree, Outcome,
};
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
    if let Some(chosen) = default_of_nexus(place, tree)? {
        return Ok(chosen);
    }
    only_one(place, data_sets(place, tree)?)
}

/// The data set of a search that is the default.
fn only_one(place: &DataSetFile<'_>, search: Search) -> Result<Chosen> {
    let Search { found, unread, away } = search;
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
        (Some(only), 1) => match away {
            None => Ok(only),
            Some(away) => refused(format!(
                "has /{}, but {away}; open that file, or name the data set, as in {}::/{}",
                names[0],
                shown(place.path),
                names[0]
            )),
        },
        (None, _) => refused(match away {
            Some(away) => {
                format!("has no data set of numbers with axes; {away}: open that file")
            }
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
    let found = tree.find(name).map_err(|fault| unreached(place, tree, name, "", fault))?;
    data_set_of(place, tree, name.to_owned(), found, "")
}

/// The error for a path at which no object can be read. `by` is an attribute that names the path,
/// for the message.
fn unreached(
    place: &DataSetFile<'_>,
    tree: &ObjectTree,
    name: &str,
    by: &str,
    fault: Fault,
) -> Error {
    match fault {
        Fault::Missing(cause) => {
            let cause = format!("/{}{by} cannot be opened ({cause})", shown(name));
            missing(place, tree, &cause)
        }
        Fault::Unsupported(cause) => place.unreached(name, by, &cause),
        fault => place.fault_at(name, fault),
    }
}

/// The data set with a name, if the object at its path is one.
fn data_set_of(
    place: &DataSetFile<'_>,
    tree: &ObjectTree,
    name: String,
    object: Object,
    by: &str,
) -> Result<Chosen> {
    if object.is_group() {
        return Err(missing(place, tree, &format!("/{}{by} is a group", shown(&name))));
    }
    if !object.is_data_set() {
        return Err(missing(place, tree, &format!("/{}{by} is no data set", shown(&name))));
    }
    let data_set = tree.data_set(object).map_err(|fault| place.fault_at(&name, fault))?;
    Ok(Chosen { name, data_set })
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
///
/// # Errors
/// There is such an attribute, and it leads to no data set. Another one would be the wrong one.
fn default_of_nexus(place: &DataSetFile<'_>, tree: &ObjectTree) -> Result<Option<Chosen>> {
    let mut group = tree.root().map_err(|fault| place.fault(fault))?;
    let mut name = String::new();
    for _ in 0..DEPTH_MAX {
        let [signal, default] = texts(place, tree, &group, &name)?;
        let is_last = signal.is_some();
        let Some(next) = signal.or(default) else { return Ok(None) };
        let attribute = if is_last { "signal" } else { "default" };
        let by = format!(" (by the attribute {attribute} of /{})", shown(&name));
        name = match next.strip_prefix('/') {
            Some(next) => next.to_owned(),
            None if name.is_empty() => next,
            None => format!("{name}/{next}"),
        };
        let object = tree.find(&name);
        let object = object.map_err(|fault| unreached(place, tree, &name, &by, fault))?;
        if is_last || object.is_data_set() {
            return data_set_of(place, tree, name, object, &by).map(Some);
        }
        group = object;
    }
    let cause = format!("more than {DEPTH_MAX} attributes default lead to each other");
    Err(missing(place, tree, &cause))
}

/// The texts of the attributes `signal` and `default` of a group. Other attributes may have these
/// names, such as numbers. An attribute without a value, or with the group itself, counts as none.
fn texts(
    place: &DataSetFile<'_>,
    tree: &ObjectTree,
    group: &Object,
    name: &str,
) -> Result<[Option<String>; 2]> {
    let Attributes { found, unread } = tree.attributes(group);
    let text = |wanted: &str| {
        let Some(own) = found.iter().find(|one| one.name == wanted) else {
            return match &unread {
                Some(fault) => Err(format!("an attribute of it cannot be read ({fault})")),
                None => Ok(None),
            };
        };
        if own.space.is_null || !own.is_text() {
            return Ok(None);
        }
        match tree.texts(std::slice::from_ref(own), 1).pop().flatten() {
            Some(mut texts) => Ok(texts.pop().filter(|text| !matches!(&**text, "" | "."))),
            None => Err(format!("the attribute {wanted} of it is not one text")),
        }
    };
    let both = text("signal").and_then(|signal| Ok([signal, text("default")?]));
    both.map_err(|cause| {
        let cause = format!(
            "has /{}, and {cause}; name the data set, as in {}::/entry/data",
            shown(name),
            shown(place.path)
        );
        file_error::refused("open", place.path, cause)
    })
}

/// The data sets of a file.
#[derive(Default)]
struct Search {
    found: Vec<Chosen>,
    /// An object that cannot be read.
    unread: Option<Unread>,
    /// A statement about a link that is not followed.
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
                    self.away = Some(format!(
                        "/{name} is a link to {path} in the file {file}, and external links are \
                         not followed"
                    ));
                    continue;
                }
                LinkEnd::Foreign(kind) => {
                    let fault = Fault::Unsupported(format!("a link of the unknown kind {kind}"));
                    self.unread = Some(Unread { name, fault });
                    continue;
                }
                LinkEnd::Soft(_) => continue,
            };
            // Groups may contain each other.
            if !seen.insert(address) || seen.len() > OBJECTS_MAX {
                continue;
            }
            match tree.object(address) {
                Ok(object) if object.is_group() && group.depth < DEPTH_MAX => {
                    groups.push(OpenGroup { name, object, depth: group.depth + 1 });
                }
                Ok(object) if object.is_group() => {
                    let fault = Fault::Unsupported(format!("below {DEPTH_MAX} other groups"));
                    self.unread = Some(Unread { name, fault });
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
