//! Facts about an array beside its elements, such as the size of its pixels.

use serde_json::{Map, Value};

/// Facts about an array that an output keeps if its format has a place for them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Annotations {
    /// The distance between neighbouring elements along the last three axes, in metres, slowest
    /// axis first. `None` where it is not known.
    pub spacing: [Option<f64>; 3],
    /// The OME-XML text of an OME-TIFF file.
    pub ome_xml: Option<String>,
    /// Named values: the attributes of an HDF5 data set or a Zarr array.
    pub attributes: Map<String, Value>,
}

impl Annotations {
    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
