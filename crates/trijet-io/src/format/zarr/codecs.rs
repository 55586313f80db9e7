//! The codecs of an array, as a chain that undoes them.

use super::elements::StoredType;
use super::json::axes;
use super::metadata::{IndexAt, Sharding, Storage};
use super::reason::{Checked, Reason, damaged, refused};
use serde_json::{Map, Value};
use trijet_codecs::Codec;

/// Maximum size of a chunk that is encoded, which is also the limit of Blosc.
const CHUNK_BYTES_MAX: u64 = i32::MAX as u64;
/// Maximum size of an element of the shuffle filter, as in Blosc.
const SHUFFLE_MAX: u64 = 255;
/// Maximum number of codecs of an array.
const CODECS_MAX: usize = 16;

/// A codec of Zarr v3: its name and its configuration.
struct Named<'v> {
    name: &'v str,
    configuration: Option<&'v Map<String, Value>>,
}

impl<'v> Named<'v> {
    fn of(value: &'v Value) -> Checked<Self> {
        let configuration = value.get("configuration").and_then(Value::as_object);
        match value.as_str().or_else(|| value.get("name")?.as_str()) {
            Some(name) => Ok(Self { name, configuration }),
            None => damaged("a codec has no name"),
        }
    }

    fn get(&self, key: &str) -> Option<&'v Value> {
        self.configuration?.get(key)
    }
}

/// Whether the elements of a block are stored in big-endian order.
fn is_big(codec: &Named<'_>, part_bytes: usize) -> Checked<bool> {
    match codec.get("endian") {
        Some(Value::String(text)) if text == "big" => Ok(part_bytes > 1),
        Some(Value::String(text)) if text == "little" => Ok(false),
        None | Some(Value::Null) if part_bytes == 1 => Ok(false),
        _ => damaged("the codec bytes has no byte order (`endian`)"),
    }
}

/// The storage of chunks of the shape `chunk`, from the `codecs` of Zarr v3.
pub(super) fn of_v3(codecs: &Value, chunk: &[u64], elements: StoredType) -> Checked<Storage> {
    let list = list_of(codecs)?;
    let first = list.first().map(Named::of).transpose()?;
    if let Some(first) = first.filter(|first| first.name == "sharding_indexed") {
        if let Some(after) = list.get(1) {
            let name = Named::of(after)?.name;
            return refused(format!("the codec {name} of whole shards is not supported"));
        }
        return sharding(&first, chunk, elements).map(Storage::Shards);
    }
    chain(list, chunk, elements).map(Storage::Chunks)
}

fn list_of(codecs: &Value) -> Checked<&[Value]> {
    match codecs.as_array() {
        Some(list) if list.len() > CODECS_MAX => {
            refused(format!("{} codecs; at most {CODECS_MAX} are supported", list.len()))
        }
        Some(list) => Ok(list),
        None => damaged("`codecs` is not a list"),
    }
}

/// The codecs of a block of the shape `block`, in the order in which they are undone.
fn chain(list: &[Value], block: &[u64], elements: StoredType) -> Checked<Vec<Codec>> {
    let mut encoding = Vec::new();
    let mut shape = block.to_vec();
    let mut has_bytes = false;
    for value in list {
        let codec = Named::of(value)?;
        match codec.name {
            "transpose" if !has_bytes => {
                let order = order_of(&codec, shape.len())?;
                let next = order.iter().map(|&axis| shape[axis]).collect();
                encoding.push(transpose(&shape, order, elements)?);
                shape = next;
            }
            "bytes" if !has_bytes => {
                has_bytes = true;
                if is_big(&codec, elements.part_bytes)? {
                    encoding.push(Codec::Swap { element: elements.part_bytes });
                }
            }
            "sharding_indexed" => {
                return refused("sharding_indexed after a codec is not supported");
            }
            name if has_bytes => encoding.push(of_bytes(name, &codec)?),
            name => return refused(format!("the codec {name} is not supported")),
        }
    }
    if !has_bytes {
        return damaged("the codec bytes is missing");
    }
    check_size(block, elements, encoding.is_empty())?;
    encoding.reverse();
    Ok(encoding)
}

/// Refuses a chunk that is too large to be decoded in memory.
fn check_size(block: &[u64], elements: StoredType, is_plain: bool) -> Checked<()> {
    let bytes = block.iter().try_fold(elements.dtype.bytes(), |all, &axis| all.checked_mul(axis));
    match bytes {
        Some(bytes) if is_plain || bytes <= CHUNK_BYTES_MAX => Ok(()),
        _ => refused(format!(
            "the chunks have the shape {block:?}; a chunk that is encoded has at most \
             {CHUNK_BYTES_MAX} bytes"
        )),
    }
}

/// A codec of bytes to bytes of Zarr v3. The package numcodecs registers the codecs of Zarr v2 with
/// the prefix `numcodecs.`
fn of_bytes(name: &str, codec: &Named<'_>) -> Checked<Codec> {
    Ok(match name {
        "crc32c" => Codec::Crc32c,
        "zstd" | "numcodecs.zstd" => Codec::Zstd,
        "gzip" | "numcodecs.gzip" => Codec::Gzip,
        "zlib" | "numcodecs.zlib" => Codec::Deflate,
        "lz4" | "numcodecs.lz4" => Codec::Lz4,
        "blosc" | "numcodecs.blosc" => Codec::Blosc,
        "shuffle" | "numcodecs.shuffle" => shuffle(codec.get("elementsize"))?,
        _ => return refused(format!("the codec {name} is not supported")),
    })
}

/// The shuffle filter. The default size of an element is 4 bytes, as in numcodecs.
fn shuffle(element: Option<&Value>) -> Checked<Codec> {
    let element = element.map_or(Some(4), Value::as_u64);
    match element.filter(|element| (1..=SHUFFLE_MAX).contains(element)) {
        Some(element) => Ok(Codec::Shuffle { element: usize::try_from(element).unwrap_or(1) }),
        None => damaged(format!("elements of 1 to {SHUFFLE_MAX} bytes can be shuffled")),
    }
}

/// The order of axes of a transposition.
fn order_of(codec: &Named<'_>, axes: usize) -> Checked<Vec<usize>> {
    let wrong = || Reason::Damaged("the order of axes of transpose is no permutation".to_owned());
    let list = codec.get("order").and_then(Value::as_array).ok_or_else(wrong)?;
    let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
    let order: Vec<usize> = list.iter().map(number).collect::<Option<_>>().ok_or_else(wrong)?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    let is_permutation = sorted.into_iter().eq(0..axes);
    if is_permutation { Ok(order) } else { Err(wrong()) }
}

fn transpose(shape: &[u64], order: Vec<usize>, elements: StoredType) -> Checked<Codec> {
    let too_large = || Reason::Refused("a chunk does not fit into memory".to_owned());
    let axes = shape.iter().map(|&axis| usize::try_from(axis));
    let shape = axes.collect::<Result<_, _>>().map_err(|_| too_large())?;
    let element = usize::try_from(elements.dtype.bytes()).map_err(|_| too_large())?;
    Ok(Codec::Transpose { element, shape, order })
}

/// The form of a shard of the shape `shard`.
fn sharding(codec: &Named<'_>, shard: &[u64], elements: StoredType) -> Checked<Sharding> {
    let Some(configuration) = codec.configuration else {
        return damaged("the codec sharding_indexed has no configuration");
    };
    let need = |key: &str| {
        let missing = || Reason::Damaged(format!("`{key}` of sharding_indexed is missing"));
        configuration.get(key).ok_or_else(missing)
    };
    let chunk = axes(configuration, "chunk_shape")?;
    let divides = |(shard, chunk): (&u64, &u64)| *chunk > 0 && shard.is_multiple_of(*chunk);
    if chunk.len() != shard.len() || !shard.iter().zip(&chunk).all(divides) {
        return damaged(format!("chunks {chunk:?} do not divide shards {shard:?}"));
    }
    let inner = list_of(need("codecs")?)?;
    if let Some(first) = inner.first()
        && Named::of(first)?.name == "sharding_indexed"
    {
        return refused("shards in shards are not supported");
    }
    // The index is an array of numbers of 8 bytes.
    let numbers = StoredType::of_number();
    let index_codecs = chain(list_of(need("index_codecs")?)?, &[1], numbers)?;
    let is_fixed = |codec: &Codec| matches!(codec, Codec::Crc32c | Codec::Swap { .. });
    if !index_codecs.iter().all(is_fixed) {
        return refused("an index of shards that is not encoded by bytes and crc32c");
    }
    let index_at = match configuration.get("index_location").map(Value::as_str) {
        None | Some(Some("end")) => IndexAt::End,
        Some(Some("start")) => IndexAt::Start,
        Some(_) => return damaged("the index of a shard is neither at its start nor at its end"),
    };
    Ok(Sharding { codecs: chain(inner, &chunk, elements)?, chunk, index_codecs, index_at })
}

/// The codecs of Zarr v2, from the metadata `.zarray`, in the order in which they are undone.
pub(super) fn of_v2(
    metadata: &Map<String, Value>,
    chunk: &[u64],
    elements: StoredType,
    is_big: bool,
) -> Checked<Vec<Codec>> {
    let mut encoding = Vec::new();
    match metadata.get("order").map_or(Some("C"), Value::as_str) {
        Some("C") => {}
        Some("F") => {
            encoding.push(transpose(chunk, (0..chunk.len()).rev().collect(), elements)?);
        }
        _ => return damaged("`order` is neither C nor F"),
    }
    if is_big && elements.part_bytes > 1 {
        encoding.push(Codec::Swap { element: elements.part_bytes });
    }
    let id = |value: &Value| value.get("id")?.as_str().map(str::to_owned);
    let filters = match metadata.get("filters") {
        None | Some(Value::Null) => &[],
        Some(filters) => list_of(filters)?,
    };
    for filter in filters {
        match id(filter).as_deref() {
            Some("shuffle") => encoding.push(shuffle(filter.get("elementsize"))?),
            Some(name) => return refused(format!("the filter {name} is not supported")),
            None => return damaged("a filter has no id"),
        }
    }
    match metadata.get("compressor") {
        None | Some(Value::Null) => {}
        Some(compressor) => encoding.push(match id(compressor).as_deref() {
            Some("zstd") => Codec::Zstd,
            Some("gzip") => Codec::Gzip,
            Some("zlib") => Codec::Deflate,
            Some("lz4") => Codec::Lz4,
            Some("blosc") => Codec::Blosc,
            Some(name) => return refused(format!("the compressor {name} is not supported")),
            None => return damaged("the compressor has no id"),
        }),
    }
    check_size(chunk, elements, encoding.is_empty())?;
    encoding.reverse();
    Ok(encoding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn v3(codecs: Value) -> Checked<Vec<Codec>> {
        let elements = StoredType::of_name("uint16").expect("a type of files");
        match of_v3(&codecs, &[2, 3, 4], elements)? {
            Storage::Chunks(codecs) => Ok(codecs),
            Storage::Shards(_) => damaged("shards"),
        }
    }

    #[test]
    fn codecs_are_undone_in_the_opposite_order() {
        let codecs = v3(json!([
            {"name": "transpose", "configuration": {"order": [2, 0, 1]}},
            {"name": "bytes", "configuration": {"endian": "big"}},
            {"name": "zstd", "configuration": {"level": 0, "checksum": false}},
            "crc32c"
        ]));
        let transpose = Codec::Transpose { element: 2, shape: vec![2, 3, 4], order: vec![2, 0, 1] };
        let undone = [Codec::Crc32c, Codec::Zstd, Codec::Swap { element: 2 }, transpose];
        assert_eq!(codecs, Ok(undone.to_vec()));
    }

    #[test]
    fn codecs_that_are_not_supported_are_named() {
        let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
        for (codecs, name) in [
            (json!([bytes, {"name": "numcodecs.bz2"}]), "numcodecs.bz2"),
            (json!([{"name": "vlen-utf8"}]), "vlen-utf8"),
            (json!([{"name": "numcodecs.delta"}, bytes]), "numcodecs.delta"),
            (json!([{"name": "sharding_indexed", "configuration": {}}, "gzip"]), "gzip"),
        ] {
            match v3(codecs) {
                Err(Reason::Refused(cause)) => assert!(cause.contains(name), "{cause}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_chain_of_codecs_that_makes_no_sense_is_damaged() {
        let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
        for codecs in [
            json!([]),
            json!({}),
            json!([{}]),
            json!([{"name": "bytes"}]),
            json!([{"name": "transpose", "configuration": {"order": [0, 1]}}, bytes]),
            json!([{"name": "transpose", "configuration": {"order": [0, 1, 1]}}, bytes]),
            json!([{"name": "transpose", "configuration": {"order": "C"}}, bytes]),
            json!([bytes, {"name": "shuffle", "configuration": {"elementsize": 0}}]),
            json!([{"name": "sharding_indexed"}]),
        ] {
            assert!(matches!(v3(codecs.clone()), Err(Reason::Damaged(_))), "{codecs}");
        }
    }
}
