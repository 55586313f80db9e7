//! The filters of chunks.

use super::place::DataSetFile;
use super::structure::Filter;
use trijet::{Dtype, Result};
use trijet_codecs::Codec;

/// Maximum number of filters: the mask of a chunk has 32 bits, and the byte order takes one.
const FILTERS_MAX: usize = 31;

/// The codecs of a pipeline of filters, in the order of encoding, as the pipeline has them.
///
/// # Errors
/// `InvalidValue` for a filter that is not supported.
pub(super) fn codecs_of(
    place: &DataSetFile<'_>,
    filters: &[Filter],
    dtype: Dtype,
) -> Result<Vec<Codec>> {
    if filters.len() > FILTERS_MAX {
        return Err(place.damaged(format!("the chunks have {} filters", filters.len())));
    }
    let element = usize::try_from(dtype.bytes()).expect("an element has at most 16 bytes");
    filters
        .iter()
        .map(|filter| codec(filter, element).map_err(|cause| place.refused(&cause)))
        .collect()
}

/// The codec of a filter, or the reason why there is none.
fn codec(filter: &Filter, element: usize) -> std::result::Result<Codec, String> {
    let value = |index: usize| filter.values.get(index).copied();
    let size = |index: usize, default: usize| match value(index) {
        Some(number) => usize::try_from(number).unwrap_or(usize::MAX),
        None => default,
    };
    Ok(match filter.id {
        1 => Codec::Deflate,
        2 => Codec::Shuffle { element: size(0, element) },
        3 => Codec::Fletcher32,
        32_001 => Codec::Blosc,
        32_004 => Codec::Lz4Hdf5,
        32_015 => Codec::Zstd,
        // The values of bitshuffle: two numbers of its version, the bytes of an element, the
        // elements of a block, the compression and its level.
        32_008 => {
            let (element, block) = (size(2, element), size(3, 0));
            match value(4) {
                None | Some(0) => Codec::Bitshuffle { element, block },
                Some(2) => Codec::BitshuffleLz4 { element, block },
                Some(3) => Codec::BitshuffleZstd { element, block },
                Some(other) => {
                    return Err(format!("the chunks have the compression {other} of bitshuffle"));
                }
            }
        }
        id => {
            let known = NAMES.iter().find(|(own, _)| *own == id).map(|(_, name)| *name);
            let name = match (known, &filter.name) {
                (Some(name), _) => name.to_owned(),
                (None, Some(name)) => crate::shown::shown(name).to_string(),
                (None, None) => "unknown".to_owned(),
            };
            return Err(format!(
                "the chunks have the filter {name} ({id}), which is not supported"
            ));
        }
    })
}

/// The names of filters that are not supported.
const NAMES: [(u16, &str); 10] = [
    (4, "szip"),
    (5, "nbit"),
    (6, "scale-offset"),
    (307, "bzip2"),
    (32_000, "LZF"),
    (32_013, "ZFP"),
    (32_017, "SZ"),
    (32_023, "SPERR"),
    (32_026, "blosc2"),
    (32_028, "FCIDECOMP"),
];
