//! Paths: the object that the names of a path lead to, along hard and soft links.

use super::fault::{Fault, Outcome};
use super::group::links_of;
use super::links::{Link, LinkEnd};
use super::object::Object;
use super::storage::Structure;
use crate::shown::shown;

/// Maximum number of soft links on a way, as in the library of HDF5.
const SOFT_LINKS_MAX: usize = 16;

/// The object at a path from the root.
pub(super) fn resolve(structure: &Structure, root: u64, path: &str) -> Outcome<Object> {
    // The paths that are not at their ends: soft links, within one another.
    let mut open = vec![OpenPath::new(path.to_owned())];
    let mut object = Object::read(structure, root)?;
    let mut followed = 0;
    while let Some(path) = open.last_mut() {
        let Some(name) = path.next_name().map(str::to_owned) else {
            open.pop();
            continue;
        };
        let end = match object.is_group() {
            true => child(structure, &object, &name)?,
            false => None,
        };
        match end.ok_or_else(|| Fault::Missing(format!("there is no {}", shown(&name))))? {
            LinkEnd::Hard(address) => object = Object::read(structure, address)?,
            LinkEnd::Soft(target) => {
                followed += 1;
                if followed > SOFT_LINKS_MAX {
                    let cause = format!("more than {SOFT_LINKS_MAX} soft links lead to each other");
                    return Err(Fault::Missing(cause));
                }
                if target.starts_with('/') {
                    object = Object::read(structure, root)?;
                }
                open.push(OpenPath::new(target));
            }
            LinkEnd::External { file, path } => {
                let cause = format!(
                    "{} is an external link to {} in the file {}, and external links are not \
                     followed",
                    shown(&name),
                    shown(&path),
                    shown(&file)
                );
                return Err(Fault::Unsupported(cause));
            }
            LinkEnd::Foreign(kind) => {
                let cause = format!("{} is a link of the unknown kind {kind}", shown(&name));
                return Err(Fault::Unsupported(cause));
            }
        }
    }
    Ok(object)
}

/// A path, and the start of the names that are not taken. A soft link may have millions of names,
/// so they are not copied.
#[derive(Debug)]
struct OpenPath {
    path: String,
    at: usize,
}

impl OpenPath {
    fn new(path: String) -> Self {
        Self { path, at: 0 }
    }

    /// The next name.
    fn next_name(&mut self) -> Option<&str> {
        let Self { path, at } = self;
        while let Some(rest) = path.get(*at..).filter(|rest| !rest.is_empty()) {
            let name = rest.split('/').next().unwrap_or_default();
            *at += name.len() + 1;
            if !matches!(name, "" | ".") {
                return Some(name);
            }
        }
        None
    }
}

/// The end of the link with a name.
fn child(structure: &Structure, group: &Object, name: &str) -> Outcome<Option<LinkEnd>> {
    let links = links_of(structure, group)?;
    Ok(links.into_iter().find(|link: &Link| link.name == name).map(|link| link.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_path_come_one_after_another() {
        let mut path = OpenPath::new("//a/./b c//.d/".to_owned());
        let mut found = Vec::new();
        while let Some(name) = path.next_name() {
            found.push(name.to_owned());
        }
        assert_eq!(found, ["a", "b c", ".d"]);
        assert!(OpenPath::new("/./".to_owned()).next_name().is_none());
    }
}
