//! Parses the metadata of an array in both versions of Zarr.

use super::codecs;
use super::elements::StoredType;
use super::json::{attributes, axes, need, separator, text};
use super::metadata::{Keys, Metadata, Storage};
use super::reason::{Checked, damaged, refused};
use serde_json::{Map, Value};

/// The keys of the metadata of an array of Zarr v3.
const KEYS: [&str; 11] = [
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "codecs",
    "fill_value",
    "attributes",
    "storage_transformers",
    "dimension_names",
];

/// Parses `zarr.json`.
pub(super) fn v3(object: &Map<String, Value>) -> Checked<Metadata> {
    if object.get("zarr_format").and_then(Value::as_u64) != Some(3) {
        return refused("the version (`zarr_format`) is not 3");
    }
    let is_optional = |value: &Value| value.get("must_understand") == Some(&Value::Bool(false));
    let unknown =
        object.iter().find(|(key, value)| !KEYS.contains(&key.as_str()) && !is_optional(value));
    if let Some((key, _)) = unknown {
        let key: String = key.chars().take(40).collect();
        return refused(format!("the extension {key} is not supported"));
    }
    if object.get("storage_transformers").and_then(Value::as_array).is_some_and(|t| !t.is_empty()) {
        return refused("storage transformers are not supported");
    }
    let shape = axes(object, "shape")?;
    let data_type = need(object, "data_type")?;
    let name = data_type.as_str().or_else(|| data_type.get("name")?.as_str());
    let Some(name) = name else { return damaged("`data_type` has no name") };
    let elements = StoredType::of_name(name)?;
    let chunk = chunk_grid(need(object, "chunk_grid")?)?;
    check_shapes(&shape, &chunk)?;
    let storage = codecs::of_v3(need(object, "codecs")?, &chunk, elements)?;
    check_waste(&shape, storage.block(&chunk))?;
    Ok(Metadata {
        fill: elements.fill(need(object, "fill_value")?)?,
        keys: keys(need(object, "chunk_key_encoding")?)?,
        attributes: attributes(object.get("attributes")),
        shape,
        chunk,
        elements,
        storage,
    })
}

fn chunk_grid(grid: &Value) -> Checked<Vec<u64>> {
    let name = grid.get("name").and_then(Value::as_str);
    match (name, grid.get("configuration").and_then(Value::as_object)) {
        (Some("regular"), Some(configuration)) => axes(configuration, "chunk_shape"),
        (Some("regular"), None) => damaged("the chunk grid has no configuration"),
        (Some(name), _) => refused(format!("the chunk grid {name} is not supported")),
        (None, _) => damaged("the chunk grid has no name"),
    }
}

fn keys(encoding: &Value) -> Checked<Keys> {
    let name = encoding.as_str().or_else(|| encoding.get("name")?.as_str());
    let value = encoding.get("configuration").and_then(|own| own.get("separator"));
    match name {
        Some("default") => Ok(Keys { has_prefix: true, separator: separator(value, '/')? }),
        Some("v2") => Ok(Keys { has_prefix: false, separator: separator(value, '.')? }),
        Some(name) => refused(format!("the encoding {name} of chunk names is not supported")),
        None => damaged("the encoding of chunk names has no name"),
    }
}

/// Parses `.zarray`. The attributes are in another file.
pub(super) fn v2(object: &Map<String, Value>) -> Checked<Metadata> {
    if object.get("zarr_format").and_then(Value::as_u64) != Some(2) {
        return refused("the version (`zarr_format`) is not 2");
    }
    let shape = axes(object, "shape")?;
    let chunk = axes(object, "chunks")?;
    check_shapes(&shape, &chunk)?;
    check_waste(&shape, &chunk)?;
    if need(object, "dtype")?.is_array() {
        return refused("each element has several fields (a structured dtype)");
    }
    let (elements, is_big) = StoredType::of_code(text(object, "dtype")?)?;
    let separator = separator(object.get("dimension_separator"), '.')?;
    let codecs = codecs::of_v2(object, &chunk, elements, is_big)?;
    Ok(Metadata {
        fill: elements.fill(object.get("fill_value").unwrap_or(&Value::Null))?,
        keys: Keys { has_prefix: false, separator },
        storage: Storage::Chunks(codecs),
        attributes: Map::new(),
        shape,
        chunk,
        elements,
    })
}

/// Maximum size of the elements beyond the array in a chunk, as a multiple of the elements of the
/// array in the chunk, unless the chunk is small.
const WASTE_MAX: u64 = 64;
/// The number of elements of a small chunk.
const SMALL: u64 = 1 << 24;

/// Checks the shape of stored files.
fn check_shapes(shape: &[u64], chunk: &[u64]) -> Checked<()> {
    if shape.len() != chunk.len() || chunk.contains(&0) {
        return damaged(format!("chunks {chunk:?} do not fit to an array {shape:?}"));
    }
    // An array without elements may have axes of any length.
    let elements = shape.iter().try_fold(16_u64, |all, axis| all.checked_mul((*axis).max(1)));
    if elements.is_none() {
        return refused(format!("the size of an array {shape:?} overflows 64 bits"));
    }
    Ok(())
}

/// Refuses chunks that are much larger than the array. A chunk is decoded in memory, so its size
/// must be bounded by the size of the array.
fn check_waste(shape: &[u64], chunk: &[u64]) -> Checked<()> {
    let whole = product(chunk.iter().copied());
    let used = shape.iter().zip(chunk).map(|(&axis, &chunk)| axis.clamp(1, chunk));
    let used = product(used);
    if whole > SMALL && whole / WASTE_MAX > used {
        let cause = format!("chunks {chunk:?} are much larger than the array {shape:?}");
        return refused(cause);
    }
    Ok(())
}

/// The product of the lengths of axes, or the largest number if the product overflows.
fn product(mut axes: impl Iterator<Item = u64>) -> u64 {
    axes.try_fold(1, u64::checked_mul).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::reason::Reason;
    use super::*;
    use serde_json::json;

    fn v3_of(change: impl FnOnce(&mut Map<String, Value>)) -> Checked<Metadata> {
        let mut value = json!({
            "zarr_format": 3, "node_type": "array", "shape": [4, 6, 8], "data_type": "uint16",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 6, 8]}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        });
        let object = value.as_object_mut().expect("an object");
        change(object);
        v3(object)
    }

    #[test]
    fn metadata_of_zarr_v3_are_parsed() {
        let parsed = v3_of(|object| {
            object.insert("dimension_names".to_owned(), json!(["z", null, "x"]));
            object.insert("more".to_owned(), json!({"must_understand": false}));
            object.insert("attributes".to_owned(), json!({"a": 1}));
        });
        let parsed = parsed.expect("sound metadata");
        assert_eq!((&parsed.shape[..], &parsed.chunk[..]), (&[4, 6, 8][..], &[1, 6, 8][..]));
        assert_eq!(parsed.keys, Keys { has_prefix: true, separator: '/' });
        assert_eq!(parsed.attributes.get("a"), Some(&json!(1)));
        assert!(matches!(parsed.storage, Storage::Chunks(codecs) if codecs.is_empty()));
    }

    #[test]
    fn features_that_are_not_supported_are_named() {
        for (key, value, name) in [
            ("data_type", json!("r16"), "r16"),
            ("data_type", json!({"name": "numpy.datetime64"}), "numpy.datetime64"),
            ("chunk_grid", json!({"name": "rectilinear"}), "rectilinear"),
            ("chunk_key_encoding", json!({"name": "fanout"}), "fanout"),
            ("storage_transformers", json!([{}]), "storage transformers"),
            ("compression", json!({}), "compression"),
            ("zarr_format", json!(4), "zarr_format"),
        ] {
            match v3_of(|object| drop(object.insert(key.to_owned(), value))) {
                Err(Reason::Refused(cause)) => assert!(cause.contains(name), "{cause}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn hostile_shapes_are_refused() {
        let chunk =
            |chunk: Value| json!({"name": "regular", "configuration": {"chunk_shape": chunk}});
        for (shape, grid) in [
            (json!([4, 6, 8]), chunk(json!([1, 6]))),
            (json!([4, 6, 8]), chunk(json!([1, 6, 0]))),
            (json!([4, 6, 8]), chunk(json!([1, 6, -1]))),
            (json!([4, 6, 8]), chunk(json!([1, 6, 1.5]))),
            (json!([4, 6, 8]), chunk(json!([4_294_967_296_u64, 4_294_967_296_u64, 1]))),
            (json!([4, 6, 8]), chunk(json!([1, 1 << 20, 1 << 20]))),
            (json!([4, 6, "8"]), chunk(json!([1, 6, 8]))),
            (json!(vec![1; 65]), chunk(json!(vec![1; 65]))),
            (json!(7), chunk(json!([1]))),
        ] {
            let parsed = v3_of(|object| {
                object.insert("shape".to_owned(), shape.clone());
                object.insert("chunk_grid".to_owned(), grid.clone());
            });
            assert!(parsed.is_err(), "{shape} {grid}");
        }
    }
}
