//! The files of a folder of TIFF files, which are opened when their pages are read.

use crate::file_error;
use crate::format::contract::open_regular;
use crate::item::Item;
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use trijet::Result;

/// Maximum number of files that stay open between the reads of their blocks.
const OPEN_MAX: usize = 64;

/// The files of a folder, in the order of the stack.
#[derive(Debug)]
pub(super) struct FolderFiles {
    folder: PathBuf,
    items: Vec<Item>,
    /// The files that were opened last.
    open: Mutex<VecDeque<OpenPage>>,
}

/// An open file with its index in the stack.
#[derive(Debug)]
struct OpenPage {
    index: usize,
    file: Arc<File>,
    path: Arc<PathBuf>,
}

impl FolderFiles {
    /// The files `items` of a folder.
    pub(super) fn new(folder: &Path, items: Vec<Item>) -> Self {
        Self { folder: folder.to_owned(), items, open: Mutex::default() }
    }

    /// Opens the file with this index. Fails if the file has changed.
    pub(super) fn open(&self, index: u64) -> Result<(Arc<File>, Arc<PathBuf>)> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.iter().find(|page| page.index == index) {
            return Ok((Arc::clone(&found.file), Arc::clone(&found.path)));
        }
        let Some(item) = self.items.get(index) else {
            return Err(file_error::damaged("read", &self.folder, "an image is missing"));
        };
        let path = self.folder.join(&item.name);
        let (file, metadata) = open_regular(&path)?;
        if *item != Item::new(item.name.clone(), &metadata) {
            let cause = "the file has changed since the run began";
            return Err(file_error::damaged("read", &path, cause));
        }
        let (file, path) = (Arc::new(file), Arc::new(path));
        open.push_back(OpenPage { index, file: Arc::clone(&file), path: Arc::clone(&path) });
        if open.len() > OPEN_MAX {
            open.pop_front();
        }
        Ok((file, path))
    }
}
