//! Writes a folder with a PNG file for each image of the stack.

use super::form::Form;
use super::read::decode;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::file_error;
use crate::format::ahead::Ahead;
use crate::format::contract::{
    NOT_PARTIAL, Plan, Writer, has_extension, lost, state_of, sync_folder,
};
use crate::names::random;
use crate::rows::Rows;
use crate::shown::shown;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::iter;
use std::mem;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use trijet::Dtype;
use trijet::{Error, Result};

/// The file names of the images, and the form of all images.
#[derive(Debug, Clone)]
pub(super) struct ImagesPlan {
    names: Arc<[OsString]>,
    form: Form,
    left_out: Vec<String>,
}

impl ImagesPlan {
    /// Plans images with the given `names` if there is one name per image. Otherwise the names are
    /// numbers.
    pub(super) fn new(
        path: &Path,
        array: &Array,
        names: &[OsString],
        annotations: &Annotations,
    ) -> Result<Self> {
        let refused = |cause: String| Err(file_error::refused("create", path, cause));
        let dtype = array.dtype();
        if !matches!(dtype, Dtype::U8 | Dtype::U16) {
            return refused(format!("PNG images cannot hold {array}; use .npy or .tif"));
        }
        let Some((width, height, count)) = array.image() else {
            return refused(format!("{array} is not an image or a stack of images; use .npy"));
        };
        // The specification of PNG limits a side to 2^31 - 1 pixels.
        let side = |side: u64| u32::try_from(side).ok().filter(|side| (1..1 << 31).contains(side));
        let (Some(width), Some(height)) = (side(width), side(height)) else {
            return refused(format!("a PNG image cannot have {width}x{height} pixels; use .npy"));
        };
        let named = png_names(names);
        let names = if named.len() as u64 == count {
            named.into()
        } else {
            let digits = count.saturating_sub(1).to_string().len().max(6);
            (0..count).map(|n| OsString::from(format!("{n:0digits$}.png"))).collect()
        };
        let left_out = annotations.missing_in(&Annotations::default());
        Ok(Self { names, form: Form { width, height, dtype }, left_out })
    }

    /// The indices of the images that have the rows `rows`, which must be whole images.
    fn indices_of(&self, rows: &Range<u64>) -> Range<usize> {
        let whole = [rows.start, rows.end].iter().all(|row| row.is_multiple_of(self.granule()));
        assert!(whole, "the rows of a write must be whole images: see `Target::granule`");
        let index = |row: u64| {
            usize::try_from(row / self.granule())
                .expect("the number of an image is an index of `names`")
        };
        index(rows.start)..index(rows.end)
    }

    /// The names of the images that have the rows `rows`, which must be whole images.
    fn names_of(&self, rows: &Range<u64>) -> &[OsString] {
        &self.names[self.indices_of(rows)]
    }

    /// Checks that nothing is at `path`, or that `path` is a folder with only images of this plan.
    /// Otherwise returns an error with the text `cause`.
    fn check_images(&self, op: &'static str, path: &Path, cause: &'static str) -> Result<()> {
        match state_of(op, path)? {
            None => return Ok(()),
            Some(state) if state.is_dir() => {}
            Some(_) => return Err(file_error::refused(op, path, cause)),
        }
        let writer = self.writer(op, path)?;
        let ours: HashSet<&OsStr> = self.names.iter().map(OsString::as_os_str).collect();
        for name in writer.names(op)? {
            let state = writer.state_of(op, &name)?;
            if !ours.contains(&*name) || state.is_some_and(|state| !is_regular(&state)) {
                return Err(file_error::refused(op, &path.join(name), cause));
            }
        }
        Ok(())
    }

    /// The writer of the folder at `path`, which must not be a symbolic link.
    fn writer(&self, op: &'static str, path: &Path) -> Result<ImagesWriter> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = retry_on_intr(|| openat(CWD, path, flags, Mode::empty()))
            .map_err(|error| file_error::io(op, path, error.into()))?;
        Ok(ImagesWriter {
            folder: folder.into(),
            path: path.to_owned(),
            plan: self.clone(),
            ours: Mutex::new(vec![false; self.names.len()]),
            unsynced: Mutex::new(BTreeMap::new()),
            open_max: open_max(),
            shared: OnceLock::new(),
        })
    }
}

/// The names of the images of an input, as names of PNG files. Empty if two of them are the same.
fn png_names(names: &[OsString]) -> Vec<OsString> {
    let png = |name: &OsString| match has_extension(Path::new(name), "png") {
        true => name.clone(),
        false => Path::new(name).with_extension("png").into_os_string(),
    };
    let named: Vec<OsString> = names.iter().map(png).collect();
    let different: HashSet<&OsString> = named.iter().collect();
    if different.len() == named.len() { named } else { Vec::new() }
}

impl Plan for ImagesPlan {
    fn granule(&self) -> u64 {
        u64::from(self.form.height)
    }

    fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
    }

    fn create(&self, partial: &Path, _ahead: Option<Ahead>) -> Result<Box<dyn Writer>> {
        fs::create_dir(partial).map_err(|error| file_error::io("create", partial, error))?;
        match self.writer("create", partial) {
            Ok(writer) => Ok(Box::new(writer)),
            Err(error) => match fs::remove_dir(partial) {
                Ok(()) => Err(error),
                Err(second) => Err(error.context(second.to_string())),
            },
        }
    }

    fn reopen(&self, partial: &Path, done: &Rows) -> Result<Box<dyn Writer>> {
        match state_of("resume", partial)? {
            None => return Err(lost(partial, "the partial output is missing")),
            Some(state) if state.is_dir() => {}
            Some(_) => return Err(file_error::refused("resume", partial, NOT_PARTIAL)),
        }
        let writer = self.writer("resume", partial)?;
        for name in done.ranges().iter().flat_map(|rows| self.names_of(rows)) {
            match writer.state_of("resume", name)? {
                None => return Err(lost(&partial.join(name), "the image is missing")),
                Some(state) if is_regular(&state) => {}
                Some(_) => {
                    return Err(file_error::refused("resume", &partial.join(name), NOT_PARTIAL));
                }
            }
        }
        writer.find_ours("resume", done.ranges().iter().flat_map(|rows| self.names_of(rows)))?;
        Ok(Box::new(writer))
    }

    fn check_reuse(&self, path: &Path) -> Result<()> {
        let cause = "is not an image of this output; move it elsewhere";
        self.check_images("overwrite", path, cause)
    }

    /// Opens the existing folder and changes nothing. The file of an image is created again when
    /// the rows of the image arrive.
    fn reuse(&self, partial: &Path) -> Result<Box<dyn Writer>> {
        self.check_reuse(partial)?;
        let writer = self.writer("overwrite", partial)?;
        writer.find_ours("overwrite", iter::empty())?;
        Ok(Box::new(writer))
    }

    fn check_discard(&self, partial: &Path) -> Result<()> {
        self.check_images("discard", partial, NOT_PARTIAL)
    }

    fn discard(&self, partial: &Path) -> Result<()> {
        self.check_discard(partial)?;
        if state_of("discard", partial)?.is_none() {
            return Ok(());
        }
        let writer = self.writer("discard", partial)?;
        for name in writer.names("discard")? {
            unlinkat(&writer.folder, &*name, AtFlags::empty())
                .map_err(|error| file_error::io("discard", &partial.join(&name), error.into()))?;
        }
        fs::remove_dir(partial).map_err(|error| file_error::io("discard", partial, error))
    }
}

/// A writer of images to a folder. All calls are relative to the open folder. So they still work on
/// the same folder after it is renamed.
#[derive(Debug)]
struct ImagesWriter {
    folder: File,
    /// The name of the folder when it was opened, for messages.
    path: PathBuf,
    plan: ImagesPlan,
    /// For each image, in the order of the plan: whether this run or an earlier run has created the
    /// image under exactly its name. Only such a file is replaced. Some file systems treat two
    /// names as the same name, for example if they differ only in case. On such a file system, a
    /// file that is found under the second name is the image with the first name.
    ours: Mutex<Vec<bool>>,
    /// The images that may not be on the disk yet, by file name. The value is the open file of the
    /// image, or `None` if the file is closed. Some of these files stay open, because the system
    /// may forget a write error of a closed file.
    unsynced: Mutex<BTreeMap<OsString, Option<File>>>,
    /// Maximum number of open files in `unsynced`.
    open_max: usize,
    /// The start of the names of files that are not complete yet, if other processes write the
    /// folder as well. Each process has its own.
    shared: OnceLock<String>,
}

/// The start of the names of incomplete images of a folder that several processes write.
const INCOMPLETE: &str = ".trijet-";

/// Maximum number of images whose files stay open until they are on the disk.
const OPEN_MAX: usize = 128;

/// The number of images whose files this process keeps open until they are on the disk. The number
/// is at most a quarter of the limit of open files (`ulimit -n`).
fn open_max() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    files.map_or(OPEN_MAX, |files| OPEN_MAX.min(files / 4))
}

impl ImagesWriter {
    fn unsynced(&self) -> MutexGuard<'_, BTreeMap<OsString, Option<File>>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_of(&self, op: &'static str, name: &OsStr) -> Result<Option<Stat>> {
        match statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(state) => Ok(Some(state)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(file_error::io(op, &self.path.join(name), error.into())),
        }
    }

    /// The names in the folder.
    fn names(&self, op: &'static str) -> Result<Vec<OsString>> {
        let io = |error: Errno| file_error::io(op, &self.path, error.into());
        let mut names = Vec::new();
        for entry in retry_on_intr(|| Dir::read_from(&self.folder)).map_err(io)? {
            let entry = entry.map_err(io)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    fn open(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || openat(&self.folder, name, flags, Mode::from_raw_mode(0o666));
        Ok(retry_on_intr(open)?.into())
    }

    fn ours(&self) -> MutexGuard<'_, Vec<bool>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets `ours` for the images that the folder already has. `done` are the names of the images
    /// that an earlier run has written. A file system that changes names may list a written image
    /// under the name of another image. `ours` stays false for that other image.
    fn find_ours<'n>(
        &self,
        op: &'static str,
        done: impl Iterator<Item = &'n OsString>,
    ) -> Result<()> {
        let found: HashSet<OsString> = self.names(op)?.into_iter().collect();
        let renamed = done.filter(|name| !found.contains(*name));
        let renamed: HashSet<_> = renamed.filter_map(|name| self.number(name)).collect();
        let is_other = |name: &OsString| {
            !renamed.is_empty() && self.number(name).is_some_and(|own| renamed.contains(&own))
        };
        let is_ours = |name: &OsString| found.contains(name) && !is_other(name);
        *self.ours() = self.plan.names.iter().map(is_ours).collect();
        Ok(())
    }

    /// The device and inode number of a file, which are the same for all names of the file.
    fn number(&self, name: &OsStr) -> Option<(u64, u64)> {
        let state = self.state_of("write", name).ok().flatten()?;
        Some((state.st_dev, state.st_ino))
    }

    /// Creates the file of the image with this index. If an earlier run has written the image, its
    /// file is deleted and not overwritten, because the file may have a second name as a backup.
    fn create(&self, index: usize) -> Result<File> {
        let name = &self.plan.names[index];
        let io = |error| file_error::io("write", &self.path.join(name), error);
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        match self.open(name, new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !self.ours()[index] {
                    return Err(self.taken(name));
                }
            }
            created => {
                let file = created.map_err(io)?;
                self.ours()[index] = true;
                return Ok(file);
            }
        }
        if self.state_of("write", name)?.is_some_and(|state| !is_regular(&state)) {
            return Err(file_error::refused("write", &self.path.join(name), NOT_PARTIAL));
        }
        unlinkat(&self.folder, name, AtFlags::empty()).map_err(|error| io(error.into()))?;
        self.open(name, new).map_err(io)
    }

    /// The error for an image if another file already has its name.
    fn taken(&self, name: &OsStr) -> Error {
        let own = self.number(name);
        let mut others = self.plan.names.iter().filter(|other| *other != name);
        let cause = match others.find(|other| own.is_some() && self.number(other) == own) {
            Some(other) => format!(
                "the file system treats this name and {} as the same name; rename one of the \
                 images, or write an .npy file",
                shown(other)
            ),
            None => NOT_PARTIAL.to_owned(),
        };
        file_error::refused("write", &self.path.join(name), cause)
    }
}

impl ImagesWriter {
    /// Writes an image under another name, and then gives it its own name, in place of the same
    /// image from another process. So every process sees no image or a whole one.
    fn replace(&self, new: &str, name: &OsStr, bytes: &[u8]) -> Result<File> {
        let path = self.path.join(name);
        let io = |error| file_error::io("write", &path, error);
        if self.state_of("write", name)?.is_some_and(|state| !is_regular(&state)) {
            return Err(file_error::refused("write", &path, NOT_PARTIAL));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let mut file = self.open(OsStr::new(new), flags).map_err(io)?;
        file.write_all(bytes).map_err(io)?;
        renameat(&self.folder, new, &self.folder, name).map_err(|error| io(error.into()))?;
        Ok(file)
    }

    /// Checks that a folder that several processes have written has a file for each image, which it
    /// has not if the file system treats two names as one. Deletes the incomplete files of
    /// processes that have died.
    fn check_shared(&self, found: &[OsString]) -> Result<()> {
        let names: HashSet<&OsStr> = found.iter().map(OsString::as_os_str).collect();
        if let Some(name) = self.plan.names.iter().find(|name| !names.contains(name.as_os_str())) {
            let cause = "the file is missing; if the file system treats two names of images as one, \
                         write an .npy file";
            return Err(file_error::refused("finish", &self.path.join(name), cause));
        }
        for name in names.iter().filter(|name| name.as_bytes().starts_with(INCOMPLETE.as_bytes())) {
            match unlinkat(&self.folder, *name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => {
                    return Err(file_error::io("finish", &self.path.join(name), error.into()));
                }
            }
        }
        Ok(())
    }
}

fn is_regular(state: &Stat) -> bool {
    FileType::from_raw_mode(state.st_mode).is_file()
}

impl Writer for ImagesWriter {
    fn write(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let form = self.plan.form;
        let image_bytes =
            usize::try_from(form.image_bytes()).expect("`bytes` has at least one image");
        let images = bytes.chunks_exact(image_bytes);
        for (index, image) in self.plan.indices_of(&rows).zip(images) {
            let name = &self.plan.names[index];
            let path = || self.path.join(name);
            let bytes =
                form.encode(image).map_err(|error| file_error::damaged("write", &path(), error))?;
            let file = match self.shared.get() {
                Some(start) => self.replace(&format!("{start}{index}"), name, &bytes),
                None => self.create(index).and_then(|mut file| {
                    let written = file.write_all(&bytes);
                    written.map_err(|error| file_error::io("write", &path(), error))?;
                    Ok(file)
                }),
            }?;
            let mut unsynced = self.unsynced();
            let file = (unsynced.len() < self.open_max).then_some(file);
            unsynced.insert(name.clone(), file);
        }
        Ok(())
    }

    fn share(&self) {
        self.shared.get_or_init(|| format!("{INCOMPLETE}{:016x}-", random()));
    }

    /// Deletes those images of `rows` that this run or an earlier run has created.
    fn leave_out(&self, rows: Range<u64>, _zeros: &[u8]) -> Result<()> {
        for index in self.plan.indices_of(&rows) {
            let name = &self.plan.names[index];
            if std::mem::take(&mut self.ours()[index]) {
                unlinkat(&self.folder, name, AtFlags::empty()).map_err(|error| {
                    file_error::io("write", &self.path.join(name), error.into())
                })?;
                self.unsynced().remove(name);
            }
        }
        Ok(())
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let open = |name: &OsStr, path: &Path| {
            // Without `NONBLOCK`, opening a pipe would wait for a program that writes to the pipe.
            let file = self.open(name, OFlags::RDONLY | OFlags::NONBLOCK);
            let file = file.map_err(|error| file_error::io("read", path, error))?;
            match file.metadata() {
                Ok(state) if state.is_file() => Ok(file),
                Ok(_) => Err(file_error::refused("read", path, NOT_PARTIAL)),
                Err(error) => Err(file_error::io("read", path, error)),
            }
        };
        decode(&self.path, self.plan.names_of(&rows), self.plan.form, into, open)
    }

    fn root(&self) -> &File {
        &self.folder
    }

    fn sync(&self) -> Result<()> {
        let unsynced = mem::take(&mut *self.unsynced());
        for (name, file) in unsynced {
            let file = file.map_or_else(|| self.open(&name, OFlags::RDONLY), Ok);
            file.and_then(|file| file.sync_all())
                .map_err(|error| file_error::io("synchronize", &self.path.join(&name), error))?;
        }
        sync_folder(&self.folder).map_err(|error| file_error::io("synchronize", &self.path, error))
    }

    fn close(&self) {
        self.unsynced().clear();
    }

    fn check_complete(&self) -> Result<()> {
        let ours: HashSet<&OsStr> = self.plan.names.iter().map(OsString::as_os_str).collect();
        let found = self.names("finish")?;
        if self.shared.get().is_some() {
            self.check_shared(&found)?;
        }
        for name in found {
            // Some systems store hidden metadata files in a folder.
            if !name.as_bytes().starts_with(b".") && !ours.contains(&*name) {
                let cause = "is not part of this output; move it elsewhere and use --resume";
                return Err(file_error::refused("finish", &self.path.join(name), cause));
            }
        }
        Ok(())
    }
}
