//! Fill values: the bytes of an element that was never written.

use super::fault::{Fault, Outcome};
use super::header::{FILL_VALUE, OLD_FILL_VALUE};
use super::object::Object;
use super::storage::Structure;

/// The fill value of a data set, in the form of its elements. `None` if the elements are zeros.
pub(super) fn fill_value(structure: &Structure, object: &Object) -> Outcome<Option<Vec<u8>>> {
    if let Some(body) = object.body(structure, FILL_VALUE)? {
        return new(structure, &body).map_err(|fault| fault.within("the fill value"));
    }
    let Some(body) = object.body(structure, OLD_FILL_VALUE)? else { return Ok(None) };
    sized(structure, &body).map_err(|fault| fault.within("the fill value"))
}

fn new(structure: &Structure, body: &[u8]) -> Outcome<Option<Vec<u8>>> {
    let mut fields = structure.cursor(body);
    let version = fields.u8()?;
    let is_defined = match version {
        1 | 2 => {
            fields.skip(2)?;
            fields.u8()? == 1
        }
        3 => fields.u8()? & 0x20 != 0,
        _ => return Err(Fault::damaged(format!("it has the version {version}"))),
    };
    if is_defined { sized(structure, fields.rest()) } else { Ok(None) }
}

/// A value after its size. The size 0 is the default value.
fn sized(structure: &Structure, bytes: &[u8]) -> Outcome<Option<Vec<u8>>> {
    let mut fields = structure.cursor(bytes);
    let size = fields.count(4)?;
    Ok(Some(fields.take(size)?.to_vec()).filter(|value| !value.is_empty()))
}
