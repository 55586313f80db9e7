//! Facts about an array beside its elements, such as the size of its pixels.

use crate::array::Array;
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
    /// Whether the last axis has the colour samples of a pixel, so that a row of the array is one
    /// pixel.
    pub has_colours: bool,
    /// Named values: the attributes of an HDF5 data set or a Zarr array.
    pub attributes: Map<String, Value>,
}

impl Annotations {
    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The annotations that still hold for the results `output` of the array `input`. The distance
    /// along an axis holds if the axis has kept its length. OME-XML holds for the same array only.
    pub(crate) fn of_results(&self, input: &Array, output: &Array) -> Self {
        let (x, y) = (input.shape(), output.shape());
        let mut kept = self.clone();
        let is_same = |from_end: usize| {
            let length = |shape: &[u64]| shape.len().checked_sub(from_end).map(|at| shape[at]);
            x.len() == y.len() && length(x) == length(y)
        };
        for (axis, spacing) in kept.spacing.iter_mut().enumerate() {
            *spacing = spacing.filter(|_| is_same(3 - axis));
        }
        if input != output {
            kept.ome_xml = None;
        }
        kept
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

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::Dtype;

    #[test]
    fn annotations_hold_for_axes_that_keep_their_lengths() {
        let annotations = Annotations {
            spacing: [Some(3.0), Some(2.0), Some(1.0)],
            ome_xml: Some("<OME/>".to_owned()),
            has_colours: false,
            attributes: Map::from_iter([("exposure".to_owned(), Value::from(5))]),
        };
        let array = |dtype, shape: &[u64]| Array::new(dtype, shape.to_vec()).unwrap();
        let input = array(Dtype::U16, &[4, 6, 8]);
        let of = |output: &Array| annotations.of_results(&input, output);
        assert_eq!(of(&input), annotations);
        let other_type = of(&array(Dtype::F32, &[4, 6, 8]));
        assert_eq!(other_type, Annotations { ome_xml: None, ..annotations.clone() });
        let binned = of(&array(Dtype::U16, &[4, 3, 4]));
        assert_eq!((binned.spacing, binned.ome_xml), ([Some(3.0), None, None], None));
        assert_eq!(binned.attributes, annotations.attributes);
        assert_eq!(of(&array(Dtype::U16, &[6, 8])).spacing, [None; 3]);
        let lost = annotations.missing_in(&of(&array(Dtype::U16, &[4, 3, 4])));
        assert_eq!(lost, ["the size of the pixels", "the OME-XML"]);
    }
}
