//! The metadata of a stored array, from `zarr.json` (Zarr v3) or `.zarray` (Zarr v2).

use super::elements::StoredType;
use serde_json::{Map, Value};
use trijet_codecs::Codec;

/// The array that the metadata describe.
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) shape: Vec<u64>,
    /// The shape of a stored file.
    pub(super) chunk: Vec<u64>,
    pub(super) elements: StoredType,
    /// The bytes of an element of a chunk that is not stored.
    pub(super) fill: Vec<u8>,
    pub(super) keys: Keys,
    pub(super) storage: Storage,
    pub(super) attributes: Map<String, Value>,
}

/// The form of a stored file.
#[derive(Debug)]
pub(super) enum Storage {
    /// A file is a chunk. The codecs are in the order in which they are undone.
    Chunks(Vec<Codec>),
    /// A file is a shard, which has several chunks and an index.
    Shards(Sharding),
}

impl Storage {
    /// The shape of the blocks that are decoded. `file` is the shape of a stored file.
    pub(super) fn block<'a>(&'a self, file: &'a [u64]) -> &'a [u64] {
        match self {
            Self::Chunks(_) => file,
            Self::Shards(sharding) => &sharding.chunk,
        }
    }
}

/// The form of a shard.
#[derive(Debug)]
pub(super) struct Sharding {
    /// The shape of a chunk in the shard.
    pub(super) chunk: Vec<u64>,
    /// The codecs of a chunk and of the index, in the order in which they are undone.
    pub(super) codecs: Vec<Codec>,
    pub(super) index_codecs: Vec<Codec>,
    pub(super) index_at: IndexAt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexAt {
    Start,
    End,
}

impl IndexAt {
    /// The name in the metadata.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
        }
    }
}

/// The names of the files of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keys {
    /// Whether the names start with `c` and a separator.
    pub(super) has_prefix: bool,
    pub(super) separator: char,
}

impl Keys {
    /// The path of a chunk within the folder of the array.
    pub(super) fn path_of(self, index: &[u64]) -> String {
        let mut path = String::new();
        if self.has_prefix {
            path.push('c');
        }
        for (n, one) in index.iter().enumerate() {
            if self.has_prefix || n > 0 {
                path.push(self.separator);
            }
            path.push_str(&one.to_string());
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_names_of_chunks() {
        let keys = |has_prefix, separator| Keys { has_prefix, separator };
        assert_eq!(keys(true, '/').path_of(&[1, 0, 20]), "c/1/0/20");
        assert_eq!(keys(true, '.').path_of(&[7]), "c.7");
        assert_eq!(keys(false, '.').path_of(&[1, 0, 20]), "1.0.20");
        assert_eq!(keys(false, '/').path_of(&[1, 2]), "1/2");
    }
}
