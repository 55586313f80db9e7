//! A temporary folder with an input, for tests of outputs.

use crate::common::{dictionary, npy};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use tempfile::TempDir;
use trijet_io::{Array, Dtype, Fingerprint, Input, Output, Start, Target};

/// A folder with an input of four rows, each of two 16-bit elements.
pub(crate) struct Workdir {
    pub(crate) folder: TempDir,
    pub(crate) input: Input,
}

pub(crate) const DATA: [u8; 16] = [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0];

impl Workdir {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.npy");
        fs::write(&path, npy(&dictionary("<u2", "False", "(4, 2)"), &DATA)).unwrap();
        let input = Input::open(&path, None).unwrap();
        Self { folder, input }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn target(&self, name: &str) -> Target {
        Target::new(&self.path(name), self.input.array().clone(), &self.input).unwrap()
    }

    /// An output of the same rows as images of one row, if `name` names a folder.
    pub(crate) fn stack(&self, name: &str) -> Target {
        let array = Array::new(Dtype::U16, vec![4, 1, 2]).unwrap();
        Target::new(&self.path(name), array, &self.input).unwrap()
    }

    pub(crate) fn begin(
        &self,
        target: &Target,
        operation: &str,
        start: Start,
    ) -> trijet::Result<Output> {
        Output::open(target, &Fingerprint::new(&self.input, operation, target), start)
    }

    pub(crate) fn resume(&self, target: &Target) -> Output {
        self.begin(target, "copy", Start::Resume).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A list of one range, for comparisons.
pub(crate) fn only(rows: Range<u64>) -> Vec<Range<u64>> {
    vec![rows]
}

/// Everything in the folder of a test: the bytes of files, and the targets of links.
pub(crate) fn everything(workdir: &Workdir) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![workdir.folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.push((path, target.into_os_string().into_encoded_bytes()));
            } else if metadata.is_dir() {
                folders.push(path);
            } else {
                found.push((path.clone(), fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

pub(crate) const STARTS: [Start; 3] = [Start::New, Start::Resume, Start::Restart];
