//! Dataspaces: the lengths of the axes of a data set or an attribute.

use super::cursor::FieldCursor;
use super::fault::{Fault, Outcome};

/// Maximum number of axes (`H5S_MAX_RANK`).
const AXES_MAX: u8 = 32;

/// The lengths of the axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::format::hdf5) struct Dataspace {
    /// Empty for one element.
    pub(in crate::format::hdf5) shape: Vec<u64>,
    /// The lengths to which the axes can grow. `None` for an axis without a limit.
    pub(super) limits: Vec<Option<u64>>,
    /// Whether there is no element at all, and no axis.
    pub(in crate::format::hdf5) is_null: bool,
}

impl Dataspace {
    pub(super) fn parse(fields: FieldCursor<'_>) -> Outcome<Self> {
        dataspace(fields).map_err(|fault| fault.within("the dataspace"))
    }

    /// The number of elements.
    pub(super) fn elements(&self) -> Option<u64> {
        if self.is_null {
            return Some(0);
        }
        self.shape.iter().try_fold(1_u64, |all, axis| all.checked_mul(*axis))
    }
}

fn dataspace(mut fields: FieldCursor<'_>) -> Outcome<Dataspace> {
    let (version, axes, flags) = (fields.u8()?, fields.u8()?, fields.u8()?);
    let kind = fields.u8()?;
    match version {
        1 => fields.skip(4)?,
        2 => {}
        _ => return Err(Fault::damaged(format!("it has the version {version}"))),
    }
    if axes > AXES_MAX {
        return Err(Fault::damaged(format!("it has {axes} axes")));
    }
    let shape = (0..axes).map(|_| fields.length()).collect::<Outcome<Vec<u64>>>()?;
    let limits = match flags & 1 {
        0 => shape.iter().copied().map(Some).collect(),
        _ => (0..axes).map(|_| fields.limit()).collect::<Outcome<_>>()?,
    };
    Ok(Dataspace { shape, limits, is_null: version == 2 && kind == 2 })
}
