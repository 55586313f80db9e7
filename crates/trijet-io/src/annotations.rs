//! Facts about an array beside its elements, such as the size of its pixels.

use crate::shown::shown;
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

    /// Texts about the facts that are not in `kept`. Each is a part of a sentence for a message.
    pub(crate) fn missing_in(&self, kept: &Self) -> Vec<String> {
        let mut texts = Vec::new();
        if (0..3).any(|axis| self.spacing[axis].is_some() && kept.spacing[axis].is_none()) {
            texts.push("the size of the pixels".to_owned());
        }
        if self.ome_xml.is_some() && kept.ome_xml.is_none() {
            texts.push("the OME-XML".to_owned());
        }
        let names: Vec<String> = self
            .attributes
            .keys()
            .filter(|name| !kept.attributes.contains_key(*name))
            .map(|name| shown(name).to_string())
            .collect();
        match names.len() {
            0 => {}
            1 => texts.push(format!("the attribute {}", names[0])),
            count => texts.push(format!("{count} attributes, the first of them {}", names[0])),
        }
        texts
    }
}
