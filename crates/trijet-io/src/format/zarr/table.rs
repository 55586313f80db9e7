//! Finds the stored bytes of chunks: a file for each chunk, or a file for each shard.

use super::json::is_missing;
use super::metadata::{IndexAt, Keys, Sharding};
use crate::file_error;
use crate::format::blocks::{BlockTable, StoredBlock};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use trijet::Result;
use trijet_codecs::{Chain, Scratch};

/// Opens the file of a chunk, and returns its size. `None` if there is no file. Opening a pipe does
/// not wait for a program that writes to the pipe.
fn open(path: &Path) -> Result<Option<(File, u64)>> {
    let mut options = File::options();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let opened = options.open(path).and_then(|file| file.metadata().map(|state| (file, state)));
    match opened {
        Ok((file, state)) if state.is_file() => Ok(Some((file, state.len()))),
        Ok(_) => Err(file_error::damaged("read", path, "is not a regular file")),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(file_error::io("read", path, error)),
    }
}

/// A file for each chunk. A chunk without a file has the fill value.
#[derive(Debug)]
pub(super) struct ChunkFiles {
    pub(super) folder: PathBuf,
    pub(super) keys: Keys,
}

impl BlockTable for ChunkFiles {
    fn find(&self, index: &[u64]) -> Result<Option<StoredBlock>> {
        let path = self.folder.join(self.keys.path_of(index));
        let Some((file, bytes)) = open(&path)? else { return Ok(None) };
        let (file, path) = (Arc::new(file), Arc::new(path));
        Ok(Some(StoredBlock { file, path, offset: 0, bytes, mask: 0 }))
    }
}

/// The number that an index has for a chunk that is not stored.
const EMPTY: u64 = u64::MAX;
/// Maximum number of shards that are open at once.
const OPEN_MAX: usize = 32;
/// Maximum total size in bytes of the indices of open shards, unless one index is larger.
const OPEN_BYTES_MAX: usize = 64 << 20;
/// Maximum size in bytes of an index.
const INDEX_BYTES_MAX: u64 = 1 << 30;

/// An open shard, with its index: the offset and the number of bytes of each chunk.
#[derive(Debug)]
struct OpenShard {
    file: Arc<File>,
    path: Arc<PathBuf>,
    places: Vec<(u64, u64)>,
}

/// The open shards. The value has the number of the last use. `None` if a shard is not stored.
#[derive(Debug, Default)]
struct OpenShards {
    shards: BTreeMap<Vec<u64>, (Option<Arc<OpenShard>>, u64)>,
    uses: u64,
}

/// A file for each shard. Each shard has several chunks and an index of them.
#[derive(Debug)]
pub(super) struct Shards {
    folder: PathBuf,
    keys: Keys,
    /// The number of chunks of a shard along each axis.
    chunks: Vec<u64>,
    index_chain: Chain,
    /// The size in bytes of the index, decoded and stored.
    index_bytes: u64,
    stored_bytes: u64,
    index_at: IndexAt,
    open: Mutex<OpenShards>,
}

impl Shards {
    /// The shards of the shape `shard` in `folder`. The error is the reason to refuse them.
    pub(super) fn new(
        folder: PathBuf,
        keys: Keys,
        shard: &[u64],
        sharding: Sharding,
    ) -> std::result::Result<Self, String> {
        let Sharding { chunk, index_codecs, index_at, .. } = sharding;
        let chunks: Vec<u64> = shard.iter().zip(&chunk).map(|(all, one)| all / one).collect();
        let bytes = chunks.iter().try_fold(16_u64, |all, &axis| all.checked_mul(axis));
        let Some(index_bytes) = bytes.filter(|bytes| *bytes <= INDEX_BYTES_MAX) else {
            return Err(format!("{chunks:?} chunks in a shard are too many"));
        };
        let checksums = index_codecs.iter().filter(|codec| **codec == trijet_codecs::Codec::Crc32c);
        let stored_bytes = index_bytes + 4 * checksums.count() as u64;
        let index_chain = Chain::new(index_codecs);
        let open = Mutex::default();
        Ok(Self { folder, keys, chunks, index_chain, index_bytes, stored_bytes, index_at, open })
    }

    /// Opens a shard, and reads its index. `None` if there is no file.
    fn load(&self, shard: &[u64]) -> Result<Option<OpenShard>> {
        let path = self.folder.join(self.keys.path_of(shard));
        let Some((file, bytes)) = open(&path)? else { return Ok(None) };
        let damaged = |cause: String| file_error::damaged("read", &path, cause);
        if bytes < self.stored_bytes {
            let cause = format!("has {bytes} bytes, and its index {}", self.stored_bytes);
            return Err(damaged(cause));
        }
        let offset = match self.index_at {
            IndexAt::Start => 0,
            IndexAt::End => bytes - self.stored_bytes,
        };
        let length = |bytes: u64| usize::try_from(bytes).expect("an index is at most 1 GiB");
        let mut stored = vec![0; length(self.stored_bytes)];
        file.read_exact_at(&mut stored, offset)
            .map_err(|error| file_error::io("read", &path, error))?;
        let mut index = vec![0; length(self.index_bytes)];
        self.index_chain
            .decode(&stored, 0, &mut index, &mut Scratch::default())
            .map_err(|error| damaged(format!("the index is damaged: {error}")))?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(EMPTY, u64::from_le_bytes);
        let places = index.chunks_exact(16);
        let places: Vec<_> = places.map(|two| (number(&two[..8]), number(&two[8..]))).collect();
        let is_outside = |&&(offset, length): &&(u64, u64)| {
            (offset, length) != (EMPTY, EMPTY)
                && offset.checked_add(length).is_none_or(|end| end > bytes)
        };
        if let Some((offset, length)) = places.iter().find(is_outside) {
            let cause = format!(
                "the index has a chunk of {length} bytes at byte {offset}, but the file has \
                 {bytes} bytes"
            );
            return Err(damaged(cause));
        }
        Ok(Some(OpenShard { file: Arc::new(file), path: Arc::new(path), places }))
    }

    /// The shard with this index of the grid of shards. `None` if it is not stored.
    fn shard(&self, index: Vec<u64>) -> Result<Option<Arc<OpenShard>>> {
        let lock = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shard) = lock().used(&index) {
            return Ok(shard);
        }
        // Two threads may load a shard at the same time. The second one replaces an equal shard.
        let shard = self.load(&index)?.map(Arc::new);
        lock().insert(index, shard.clone());
        Ok(shard)
    }
}

impl OpenShards {
    fn used(&mut self, index: &[u64]) -> Option<Option<Arc<OpenShard>>> {
        self.uses += 1;
        let (shard, used) = self.shards.get_mut(index)?;
        *used = self.uses;
        Some(shard.clone())
    }

    /// Adds a shard, and closes those shards that were not used for the longest time, if too many
    /// are open.
    fn insert(&mut self, index: Vec<u64>, shard: Option<Arc<OpenShard>>) {
        self.uses += 1;
        self.shards.insert(index, (shard, self.uses));
        let bytes = |shard: &Option<Arc<OpenShard>>| {
            shard.as_ref().map_or(0, |shard| size_of_val(&shard.places[..]))
        };
        while self.shards.len() > 1 {
            let all: usize = self.shards.values().map(|(shard, _)| bytes(shard)).sum();
            if self.shards.len() <= OPEN_MAX && all <= OPEN_BYTES_MAX {
                return;
            }
            let oldest = self.shards.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(index, _)| index.clone()) else { return };
            self.shards.remove(&oldest);
        }
    }
}

impl BlockTable for Shards {
    fn find(&self, index: &[u64]) -> Result<Option<StoredBlock>> {
        let axes = || index.iter().zip(&self.chunks);
        let shard = axes().map(|(at, chunks)| at / chunks).collect();
        let Some(shard) = self.shard(shard)? else { return Ok(None) };
        let at = axes().fold(0, |all, (at, chunks)| all * chunks + at % chunks);
        let at = usize::try_from(at).expect("the index of the shard is in memory");
        let (offset, bytes) = shard.places[at];
        if offset == EMPTY {
            return Ok(None);
        }
        let (file, path) = (Arc::clone(&shard.file), Arc::clone(&shard.path));
        Ok(Some(StoredBlock { file, path, offset, bytes, mask: 0 }))
    }
}
