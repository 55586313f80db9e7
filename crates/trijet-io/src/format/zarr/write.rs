//! Writes an array as one shard without compression.
//!
//! The index of the shard is at its start, and does not depend on the rows. So the shard is a file
//! with a header, as an `.npy` file is: rows are written in place, in any order. If the spacing of
//! the elements is known, the output is an image of OME-Zarr: a group with the array `0`.

use super::metadata::{IndexAt, Keys};
use super::ome;
use super::shape::ShardShape;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::file_error;
use crate::format::ahead::Ahead;
use crate::format::contract::{NOT_PARTIAL, Plan, Writer, lost, state_of, sync_folder};
use crate::format::flat::FlatPlan;
use crate::rows::Rows;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat, unlinkat};
use rustix::io::retry_on_intr;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trijet::Result;
use trijet_codecs::{Chain, Codec, Scratch};

/// The rows start at a multiple of this number of bytes, which is the size of a page.
const ALIGN_BYTES: usize = 4096;
/// The path of the array in the group of an image of OME-Zarr.
const LEVEL: &str = "0";
/// The name of metadata.
const METADATA: &str = super::nodes::V3;

/// The files of an output. All paths are relative to the folder of the output.
#[derive(Debug)]
struct Files {
    /// The metadata of the array, and of the group of an image of OME-Zarr.
    metadata: Vec<(PathBuf, Vec<u8>)>,
    /// The folders, each after the folder that contains it.
    folders: Vec<PathBuf>,
    shard: PathBuf,
}

impl Files {
    fn has(&self, path: &Path, state: &Stat) -> bool {
        let kind = FileType::from_raw_mode(state.st_mode);
        let is_file = self.shard == path || self.metadata.iter().any(|(own, _)| own == path);
        let is_folder = self.folders.iter().any(|own| own == path);
        (is_file && kind.is_file()) || (is_folder && kind.is_dir())
    }

    /// The paths and states of everything in the folder `root`. Only own folders are entered.
    fn found(&self, root: &File) -> io::Result<Vec<(PathBuf, Stat)>> {
        let mut found = Vec::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(path) = folders.pop() {
            let folder = open_folder(root, &path)?;
            for entry in retry_on_intr(|| Dir::read_from(&folder))? {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let state = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                let path = path.join(OsStr::from_bytes(name.to_bytes()));
                if self.has(&path, &state) && FileType::from_raw_mode(state.st_mode).is_dir() {
                    folders.push(path.clone());
                }
                found.push((path, state));
            }
        }
        Ok(found)
    }

    /// Writes the metadata that are missing or differ. A file that differs is replaced. Returns the
    /// open files, because the system may forget a write error of a file that is closed.
    fn write_metadata(&self, root: &File) -> io::Result<Vec<File>> {
        let mut files = Vec::new();
        for (path, bytes) in &self.metadata {
            if let Ok(Some(file)) = Self::sound_metadata(root, path, bytes) {
                files.push(file);
                continue;
            }
            let (folder, name) = parts(root, path)?;
            match unlinkat(&folder, name, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = openat(&folder, name, flags, Mode::from_raw_mode(0o666))?;
            let mut file = File::from(file);
            file.write_all(bytes)?;
            files.push(file);
        }
        Ok(files)
    }

    /// Opens the file of metadata at `path`, if it has the bytes `wanted`.
    fn sound_metadata(root: &File, path: &Path, wanted: &[u8]) -> io::Result<Option<File>> {
        let (folder, name) = parts(root, path)?;
        // Without `NONBLOCK`, opening a pipe would wait for a program that writes to the pipe.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(retry_on_intr(|| openat(&folder, name, flags, Mode::empty()))?);
        let state = file.metadata()?;
        if !state.is_file() || state.len() != wanted.len() as u64 {
            return Ok(None);
        }
        let mut found = vec![0; wanted.len()];
        file.read_exact_at(&mut found, 0)?;
        Ok((found == wanted).then_some(file))
    }
}

/// Opens a folder below `root`, through no link.
fn open_folder(root: &File, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = root.try_clone()?;
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    for part in parts {
        let open = || openat(&folder, part.as_os_str(), flags, Mode::empty());
        folder = retry_on_intr(open)?.into();
    }
    // A second reading of one open folder would start where the first one ended.
    let again = || openat(&folder, ".", flags, Mode::empty());
    Ok(retry_on_intr(again)?.into())
}

/// The folder of a file, and its name.
fn parts<'p>(root: &File, path: &'p Path) -> io::Result<(File, &'p OsStr)> {
    let folder = open_folder(root, path.parent().unwrap_or(Path::new("")))?;
    Ok((folder, path.file_name().unwrap_or_default()))
}

/// The plan of an output.
#[derive(Debug)]
pub(super) struct ZarrPlan {
    files: Arc<Files>,
    flat: FlatPlan,
    left_out: Vec<String>,
}

impl ZarrPlan {
    /// Plans an output of `array` at `path`, with `annotations` as attributes.
    pub(super) fn new(path: &Path, array: &Array, annotations: &Annotations) -> Result<Self> {
        let shape = ShardShape::of(array).ok_or_else(|| {
            file_error::refused("create", path, format!("{array} does not fit in one shard"))
        })?;
        let has_spacing = annotations.spacing.iter().any(Option::is_some);
        let axes = ome::axes_of(array.shape().len()).filter(|_| has_spacing);
        let mut left_out = Vec::new();
        if has_spacing && axes.is_none() {
            left_out.push("the pixel size".to_owned());
        }
        if annotations.ome_xml.is_some() {
            left_out.push("the OME-XML text".to_owned());
        }
        let level = Path::new(if axes.is_some() { LEVEL } else { "" });
        let keys = Keys { has_prefix: true, separator: '/' };
        let shard = level.join(keys.path_of(&vec![0; array.shape().len()]));
        let text = |value: &Value| format!("{value:#}\n").into_bytes();
        let own = text(&metadata(array, &shape, annotations, axes));
        let mut files = vec![(level.join(METADATA), own)];
        if let Some(axes) = axes {
            let attributes = ome::attributes(LEVEL, axes, annotations.spacing);
            let group = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
            files.insert(0, (PathBuf::from(METADATA), text(&group)));
        }
        let mut folders: Vec<PathBuf> = shard.ancestors().skip(1).map(Path::to_owned).collect();
        folders.retain(|folder| *folder != Path::new(""));
        folders.reverse();
        let flat = FlatPlan::padded(index(&shape, path)?, array, shape.bytes());
        Ok(Self { files: Arc::new(Files { metadata: files, folders, shard }), flat, left_out })
    }

    /// Creates everything in the new folder `partial`.
    fn fill(&self, partial: &Path, ahead: Option<Ahead>) -> Result<Box<dyn Writer>> {
        let io = |error| file_error::io("create", partial, error);
        for folder in &self.files.folders {
            fs::create_dir(partial.join(folder)).map_err(io)?;
        }
        let root = open_root("create", partial)?;
        let metadata = self.files.write_metadata(&root).map_err(io)?;
        let flat = self.flat.create(&partial.join(&self.files.shard), ahead)?;
        Ok(self.writer(root, partial, metadata, flat))
    }

    fn writer(
        &self,
        root: File,
        path: &Path,
        metadata: Vec<File>,
        flat: Box<dyn Writer>,
    ) -> Box<dyn Writer> {
        let (path, files) = (path.to_owned(), Arc::clone(&self.files));
        Box::new(ZarrWriter { root, path, files, flat, unsynced: Mutex::new(Some(metadata)) })
    }

    /// Checks that nothing is at `path`, or a folder with only files of this output. Otherwise
    /// returns an error with the text `cause`. Returns whether there is a folder.
    fn check_files(&self, op: &'static str, path: &Path, cause: &str) -> Result<bool> {
        match state_of(op, path)? {
            None => return Ok(false),
            Some(state) if state.is_dir() => {}
            Some(_) => return Err(file_error::refused(op, path, cause)),
        }
        let root = open_root(op, path)?;
        let found = self.files.found(&root).map_err(|error| file_error::io(op, path, error))?;
        match found.iter().find(|(own, state)| !self.files.has(own, state)) {
            Some((other, _)) => Err(file_error::refused(op, &path.join(other), cause)),
            None => Ok(true),
        }
    }
}

/// The metadata of the array. `axes` are the names of the axes, if the array has a pyramid.
fn metadata(
    array: &Array,
    shape: &ShardShape,
    annotations: &Annotations,
    axes: Option<&[&str]>,
) -> Value {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let sharding = json!({
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": shape.chunk,
            "codecs": [bytes],
            "index_codecs": [bytes, {"name": "crc32c"}],
            "index_location": IndexAt::Start.name(),
        },
    });
    let mut attributes = annotations.attributes.clone();
    attributes.retain(|key, _| !ome::KEYS.contains(&key.as_str()));
    let name = array.dtype().numpy_name();
    let fill = match name {
        name if name.starts_with("complex") => json!([0.0, 0.0]),
        name if name.contains("float") => json!(0.0),
        _ => json!(0),
    };
    let mut metadata = json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": array.shape(),
        "data_type": name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape.shard}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": [sharding],
        "attributes": attributes,
    });
    if let Some(axes) = axes {
        metadata["dimension_names"] = json!(axes);
    }
    metadata
}

/// The index of the shard, and zeros up to the first row.
fn index(shape: &ShardShape, path: &Path) -> Result<Vec<u8>> {
    let chunks = usize::try_from(shape.chunks).unwrap_or(usize::MAX);
    let entries = chunks.checked_mul(16).filter(|bytes| *bytes < 1 << 32);
    let Some(entries) = entries else {
        let cause = format!("{chunks} chunks are too many for one shard");
        return Err(file_error::refused("create", path, cause));
    };
    let length = (entries + 4).next_multiple_of(ALIGN_BYTES);
    let mut places = Vec::with_capacity(length);
    for chunk in 0..shape.chunks {
        places.extend((length as u64 + chunk * shape.chunk_bytes).to_le_bytes());
        places.extend(shape.chunk_bytes.to_le_bytes());
    }
    let chain = Chain::new(vec![Codec::Crc32c]);
    let mut index = chain
        .encode(&places, &mut Scratch::default())
        .map_err(|error| file_error::refused("create", path, error))?;
    index.resize(length, 0);
    Ok(index)
}

/// Opens the folder of an output, which must not be a symbolic link.
fn open_root(op: &'static str, path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry_on_intr(|| openat(CWD, path, flags, Mode::empty()))
        .map(File::from)
        .map_err(|error| file_error::io(op, path, error.into()))
}

impl Plan for ZarrPlan {
    fn granule(&self) -> u64 {
        1
    }

    fn bytes(&self) -> Option<u64> {
        let metadata: usize = self.files.metadata.iter().map(|(_, bytes)| bytes.len()).sum();
        self.flat.bytes().map(|bytes| bytes + metadata as u64)
    }

    fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
    }

    fn begin_ahead(&self, folder: &Path, waits_for_disk: bool) -> Option<Ahead> {
        self.flat.begin_ahead(folder, waits_for_disk)
    }

    fn create(&self, partial: &Path, ahead: Option<Ahead>) -> Result<Box<dyn Writer>> {
        fs::create_dir(partial).map_err(|error| file_error::io("create", partial, error))?;
        self.fill(partial, ahead).map_err(|error| match self.discard(partial) {
            Ok(()) => error,
            Err(second) => error.context(second.to_string()),
        })
    }

    fn check_reuse(&self, path: &Path) -> Result<()> {
        let cause = "is not a file of this output; move it elsewhere";
        if self.check_files("overwrite", path, cause)? {
            self.flat.check_reuse(&path.join(&self.files.shard))?;
        }
        Ok(())
    }

    fn reuse(&self, partial: &Path) -> Result<Box<dyn Writer>> {
        self.check_reuse(partial)?;
        let root = open_root("overwrite", partial)?;
        let flat = self.flat.reuse(&partial.join(&self.files.shard))?;
        // `reset` opens the metadata.
        Ok(self.writer(root, partial, Vec::new(), flat))
    }

    fn reopen(&self, partial: &Path, done: &Rows) -> Result<Box<dyn Writer>> {
        match state_of("resume", partial)? {
            None => return Err(lost(partial, "the partial output is missing")),
            Some(state) if state.is_dir() => {}
            Some(_) => return Err(file_error::refused("resume", partial, NOT_PARTIAL)),
        }
        let root = open_root("resume", partial)?;
        let mut metadata = Vec::new();
        for (path, bytes) in &self.files.metadata {
            match Files::sound_metadata(&root, path, bytes) {
                Ok(Some(file)) => metadata.push(file),
                _ => return Err(lost(&partial.join(path), "the metadata are damaged")),
            }
        }
        // The shard must not be reached through a link.
        if let Some(error) = parts(&root, &self.files.shard).err() {
            return Err(lost(&partial.join(&self.files.shard), error));
        }
        let flat = self.flat.reopen(&partial.join(&self.files.shard), done)?;
        Ok(self.writer(root, partial, metadata, flat))
    }

    fn check_discard(&self, partial: &Path) -> Result<()> {
        self.check_files("discard", partial, NOT_PARTIAL).map(drop)
    }

    fn discard(&self, partial: &Path) -> Result<()> {
        if !self.check_files("discard", partial, NOT_PARTIAL)? {
            return Ok(());
        }
        let io = |error| file_error::io("discard", partial, error);
        let root = open_root("discard", partial)?;
        let mut found = self.files.found(&root).map_err(io)?;
        // A folder is deleted after everything in it.
        found.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
        for (path, state) in found {
            let is_folder = FileType::from_raw_mode(state.st_mode).is_dir();
            let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            let (folder, name) = parts(&root, &path).map_err(io)?;
            unlinkat(&folder, name, flags)
                .map_err(|error| file_error::io("discard", &partial.join(&path), error.into()))?;
        }
        fs::remove_dir(partial).map_err(io)
    }
}

/// Writes the rows of an output. All calls are relative to the open folder and the open shard. So
/// they still work after the folder is renamed.
#[derive(Debug)]
struct ZarrWriter {
    root: File,
    /// The name of the folder when it was opened, for messages.
    path: PathBuf,
    files: Arc<Files>,
    flat: Box<dyn Writer>,
    /// The open files of the metadata. `None` if the metadata and the names of all files are on the
    /// disk.
    unsynced: Mutex<Option<Vec<File>>>,
}

impl ZarrWriter {
    fn unsynced(&self) -> MutexGuard<'_, Option<Vec<File>>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the metadata and the names of all files are on the disk.
    fn sync_names(&self, metadata: &[File]) -> io::Result<()> {
        metadata.iter().try_for_each(File::sync_all)?;
        for folder in self.files.folders.iter().rev() {
            sync_folder(&open_folder(&self.root, folder)?)?;
        }
        sync_folder(&self.root)
    }
}

impl Writer for ZarrWriter {
    fn write(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.flat.write(rows, bytes)
    }

    fn limit_memory(&self, bytes: u64) {
        self.flat.limit_memory(bytes);
    }

    fn share(&self) {
        self.flat.share();
    }

    fn reset(&self) -> Result<()> {
        let written = self.files.write_metadata(&self.root);
        let written = written.map_err(|error| file_error::io("create", &self.path, error))?;
        *self.unsynced() = Some(written);
        self.flat.reset()
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.flat.read(rows, into)
    }

    fn root(&self) -> &File {
        &self.root
    }

    fn sync(&self) -> Result<()> {
        self.flat.sync()?;
        let mut unsynced = self.unsynced();
        if let Some(metadata) = &*unsynced {
            let io = |error| file_error::io("synchronize", &self.path, error);
            self.sync_names(metadata).map_err(io)?;
            *unsynced = None;
        }
        Ok(())
    }

    fn close(&self) {
        self.flat.close();
    }

    fn check_complete(&self) -> Result<()> {
        self.flat.check_complete()?;
        let io = |error| file_error::io("finish", &self.path, error);
        for (path, state) in self.files.found(&self.root).map_err(io)? {
            let name = path.file_name().unwrap_or_default();
            // Some systems store hidden metadata files in a folder.
            if !name.as_bytes().starts_with(b".") && !self.files.has(&path, &state) {
                let cause = "is not part of this output; move it elsewhere and use --resume";
                return Err(file_error::refused("finish", &self.path.join(path), cause));
            }
        }
        Ok(())
    }
}
