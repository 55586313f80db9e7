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
    let mut open = names(path);
    let mut object = Object::read(structure, root)?;
    let mut followed = 0;
    while let Some(name) = open.pop() {
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
                open.extend(names(&target));
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

/// The names of a path, the last one first.
fn names(path: &str) -> Vec<String> {
    let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
    names.rev().map(str::to_owned).collect()
}

/// The end of the link with a name.
fn child(structure: &Structure, group: &Object, name: &str) -> Outcome<Option<LinkEnd>> {
    let links = links_of(structure, group)?;
    Ok(links.into_iter().find(|link: &Link| link.name == name).map(|link| link.end))
}
