//! A temporary folder with arrays of Zarr.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trijet::Source;
use trijet_io::Input;

pub(crate) struct Workdir(pub(crate) TempDir);

impl Workdir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and the folders that it needs.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes an array of Zarr v3 of 2 x 4 x 3 bytes, in chunks of an image, which are not encoded.
    /// `change` changes the metadata.
    pub(crate) fn array(&self, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
        let mut metadata = metadata();
        change(&mut metadata);
        self.file(&format!("{name}/zarr.json"), metadata.to_string());
        for image in 0..2_u8 {
            let bytes: Vec<u8> = (0..12).map(|n| image * 12 + n).collect();
            self.file(&format!("{name}/c/{image}/0/0"), bytes);
        }
        self.path(name)
    }
}

/// The metadata of the array of [`Workdir::array`].
pub(crate) fn metadata() -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": [2, 4, 3], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 4, 3]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 9,
        "codecs": [{"name": "bytes"}],
    })
}

/// The codec of shards with chunks of this shape, which are not encoded.
pub(crate) fn sharding(chunk: &[u64]) -> Value {
    json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": chunk,
        "codecs": [{"name": "bytes"}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }})
}

pub(crate) fn whole(input: &Input) -> Vec<u8> {
    read(input).unwrap()
}

pub(crate) fn read(input: &Input) -> trijet::Result<Vec<u8>> {
    let layout = input.layout();
    let mut bytes = vec![0; usize::try_from(layout.bytes().unwrap()).unwrap()];
    input.read(0..layout.rows, &mut bytes)?;
    Ok(bytes)
}

/// The path of an array inside an input.
pub(crate) fn inside(root: &Path, inner: &str) -> PathBuf {
    let mut path = root.as_os_str().to_owned();
    path.push(format!("::/{inner}"));
    path.into()
}
