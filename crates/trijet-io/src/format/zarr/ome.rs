//! The metadata of OME-Zarr: the levels of a pyramid of images, and the size of pixels.
//!
//! The metadata are the attribute `ome` of a group of Zarr v3 (OME-Zarr 0.5), or the attribute
//! `multiscales` of a group of Zarr v2 (OME-Zarr 0.4 and before).

use serde_json::{Map, Value, json};

/// The keys of attributes that describe a pyramid. They belong to a group, not to an array.
pub(super) const KEYS: [&str; 4] = ["ome", "multiscales", "omero", "image-label"];

/// The first pyramid of a group.
#[derive(Debug, PartialEq)]
pub(super) struct Pyramid {
    /// The paths of the arrays within the group, from the largest array to the smallest.
    pub(super) levels: Vec<String>,
    /// For each level: the distance in metres between neighbouring elements along the last three
    /// axes.
    spacing: Vec<[Option<f64>; 3]>,
}

impl Pyramid {
    /// The first pyramid in the attributes of a group. `None` if there is none.
    pub(super) fn of(attributes: &Map<String, Value>) -> Option<Self> {
        let own = attributes.get("ome").and_then(|ome| ome.get("multiscales"));
        let first = own.or_else(|| attributes.get("multiscales"))?.get(0)?;
        let datasets = first.get("datasets")?.as_array()?;
        let path = |level: &Value| Some(level.get("path")?.as_str()?.trim_matches('/').to_owned());
        let levels = datasets.iter().map(path).collect::<Option<Vec<_>>>()?;
        let spacing = datasets.iter().map(|level| spacing(first, level)).collect();
        (!levels.is_empty()).then_some(Self { levels, spacing })
    }

    /// The spacing of the level with this path. Nothing is known about another path.
    pub(super) fn spacing_of(&self, path: &str) -> [Option<f64>; 3] {
        let level = self.levels.iter().position(|level| level == path);
        level.map_or([None; 3], |level| self.spacing[level])
    }
}

/// The spacing of a level of a pyramid.
fn spacing(pyramid: &Value, level: &Value) -> [Option<f64>; 3] {
    let mut found = [None; 3];
    let Some(axes) = pyramid.get("axes").and_then(Value::as_array) else { return found };
    let whole = scale(pyramid);
    let Some(own) = scale(level) else { return found };
    for (from_end, axis) in axes.iter().rev().take(3).enumerate() {
        let at = axes.len() - 1 - from_end;
        let factor = |scale: &Option<&Vec<Value>>| match scale {
            Some(scale) => scale.get(at)?.as_f64(),
            None => Some(1.0),
        };
        let unit = axis.get("unit").and_then(Value::as_str).and_then(metres);
        let is_space = axis.get("type").and_then(Value::as_str) == Some("space");
        let product = || Some(factor(&Some(own))? * factor(&whole)? * unit?);
        let metres = product().filter(|metres| is_space && is_length(*metres));
        found[2 - from_end] = metres;
    }
    found
}

/// The factors of the scale of a pyramid or of a level.
fn scale(of: &Value) -> Option<&Vec<Value>> {
    let transformations = of.get("coordinateTransformations")?.as_array()?;
    let is_scale = |one: &&Value| one.get("type").and_then(Value::as_str) == Some("scale");
    transformations.iter().find(is_scale)?.get("scale")?.as_array()
}

fn is_length(metres: f64) -> bool {
    metres.is_finite() && metres > 0.0
}

/// The length in metres of a unit of OME-Zarr.
fn metres(unit: &str) -> Option<f64> {
    Some(match unit {
        "meter" => 1.0,
        "centimeter" => 1e-2,
        "millimeter" => 1e-3,
        "micrometer" => 1e-6,
        "nanometer" => 1e-9,
        "angstrom" => 1e-10,
        "picometer" => 1e-12,
        _ => return None,
    })
}

/// The names of the axes of an array in a pyramid. `None` unless the array has two to five axes.
pub(super) fn axes_of(count: usize) -> Option<&'static [&'static str]> {
    const NAMES: [&str; 5] = ["t", "c", "z", "y", "x"];
    (2..=5).contains(&count).then(|| &NAMES[5 - count..])
}

/// The attributes of a group with a pyramid of one level at the path `level`. The array has the
/// axes `axes`. Unknown spacing has the scale 1 and no unit.
pub(super) fn attributes(level: &str, axes: &[&str], spacing: [Option<f64>; 3]) -> Value {
    let (mut descriptions, mut scale) = (Vec::new(), Vec::new());
    for (at, name) in axes.iter().enumerate() {
        let own = (at + 3).checked_sub(axes.len()).and_then(|own| spacing[own]);
        let own = own.filter(|metres| is_length(*metres));
        let kind = match *name {
            "t" => "time",
            "c" => "channel",
            _ => "space",
        };
        descriptions.push(match own {
            Some(_) => json!({"name": name, "type": kind, "unit": "micrometer"}),
            None => json!({"name": name, "type": kind}),
        });
        scale.push(json!(own.map_or(1.0, micrometres)));
    }
    let transformation = json!({"type": "scale", "scale": scale});
    let dataset = json!({"path": level, "coordinateTransformations": [transformation]});
    let pyramid = json!({"axes": descriptions, "datasets": [dataset]});
    json!({"ome": {"version": "0.5", "multiscales": [pyramid]}})
}

/// A length in micrometres, without the digits that the multiplication adds.
fn micrometres(metres: f64) -> f64 {
    let exact = metres * 1e6;
    format!("{exact:.11e}").parse().unwrap_or(exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn the_spacing_of_a_level_is_the_product_of_both_scales() {
        let scale = |scale: [f64; 4]| json!([{"type": "scale", "scale": scale}]);
        let pyramid = json!({
            "axes": [
                {"name": "c", "type": "channel"},
                {"name": "z", "type": "space", "unit": "nanometer"},
                {"name": "y", "type": "space", "unit": "micrometer"},
                {"name": "x", "type": "space", "unit": "parsec"},
            ],
            "coordinateTransformations": scale([1.0, 2.0, 1.0, 1.0]),
            "datasets": [
                {"path": "0", "coordinateTransformations": scale([1.0, 500.0, 0.5, 0.5])},
                {"path": "/1/", "coordinateTransformations": scale([1.0, 500.0, 2.0, 1.0])},
            ],
        });
        for attributes in
            [json!({"multiscales": [pyramid]}), json!({"ome": {"multiscales": [pyramid]}})]
        {
            let found = Pyramid::of(&object(attributes)).unwrap();
            assert_eq!(found.levels, ["0", "1"]);
            assert_eq!(found.spacing_of("0"), [Some(500.0 * 2.0 * 1e-9), Some(0.5e-6), None]);
            assert_eq!(found.spacing_of("1")[1], Some(2e-6));
            assert_eq!(found.spacing_of("labels"), [None; 3]);
        }
    }

    #[test]
    fn attributes_that_are_written_are_read_again() {
        let spacing = [None, Some(6.5e-7), Some(1.1e-9)];
        let attributes = attributes("0", axes_of(3).unwrap(), spacing);
        let text = attributes.to_string();
        assert!(text.contains("[1.0,0.65,0.0011]"), "{text}");
        let found = Pyramid::of(&object(attributes)).unwrap().spacing_of("0");
        assert_eq!(found[0], None);
        assert!((found[1].unwrap() / 6.5e-7 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn hostile_attributes_are_no_pyramid() {
        for attributes in [
            json!({}),
            json!({"multiscales": 7}),
            json!({"multiscales": []}),
            json!({"multiscales": [{"datasets": []}]}),
            json!({"multiscales": [{"datasets": [{"path": 1}]}]}),
            json!({"ome": {"multiscales": {"0": 1}}}),
        ] {
            assert_eq!(Pyramid::of(&object(attributes.clone())), None, "{attributes}");
        }
        let scales = json!({"multiscales": [{
            "axes": [{"type": "space", "unit": "meter"}, 7],
            "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale",
                "scale": [-1.0]}]}],
        }]});
        assert_eq!(Pyramid::of(&object(scales)).unwrap().spacing_of("0"), [None; 3]);
    }
}
