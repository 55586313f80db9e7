//! The requirements for every format of the table, in one body of tests.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trijet::testing::Prng;
use trijet_io::format::{FORMATS, Format, Found, Opened, Plan};
use trijet_io::{Annotations, Array, Dtype, Plain, Rows};

/// An array that a format can hold, its plan, and a folder for its output.
struct Case {
    format: &'static dyn Format,
    array: Array,
    plan: std::sync::Arc<dyn Plan>,
    folder: TempDir,
}

/// The formats that are read, and not written.
const READ_ONLY: [&str; 2] = ["npz", "nifti"];

/// Every format with every one of these arrays that it can hold.
fn cases() -> Vec<Case> {
    let shapes = [vec![6, 4, 3], vec![5, 1, 7], vec![1, 8, 2], vec![12, 3], vec![9], vec![2; 5]];
    let mut cases = Vec::new();
    for format in FORMATS {
        if READ_ONLY.contains(&format.name()) {
            continue;
        }
        let before = cases.len();
        for dtype in Dtype::ALL {
            for shape in &shapes {
                let folder = tempfile::tempdir().unwrap();
                let array = Array::new(dtype, shape.clone()).unwrap();
                if let Ok(plan) =
                    format.plan(&folder.path().join("out"), &array, &[], &Annotations::default())
                {
                    cases.push(Case { format, array, plan, folder });
                }
            }
        }
        assert!(cases.len() > before, "{} holds none of the arrays", format.name());
    }
    cases
}

impl Case {
    fn partial(&self) -> PathBuf {
        self.folder.path().join("out.partial")
    }

    /// Random bytes for the whole array.
    fn data(&self) -> Vec<u8> {
        let mut draw = Prng::new(self.array.bytes());
        (0..self.array.bytes()).map(|_| draw.next_u64().to_le_bytes()[2]).collect()
    }

    /// Ranges of whole granules that cover all rows, the last ones first, some of them twice.
    fn ranges(&self) -> Vec<Range<u64>> {
        let (rows, granule) = (self.array.layout().rows, self.plan.granule());
        assert!(granule > 0 && rows.is_multiple_of(granule), "{self}");
        let count = rows / granule;
        let one = |n: u64| n * granule..(n + 1) * granule;
        let mut ranges: Vec<_> = (0..count).rev().step_by(2).map(one).collect();
        ranges.extend((0..count).map(one));
        ranges
    }

    /// The part of `data` that holds `rows`.
    fn part<'a>(&self, data: &'a [u8], rows: &Range<u64>) -> &'a [u8] {
        let at = |row: u64| usize::try_from(row * self.array.layout().row_bytes).unwrap();
        &data[at(rows.start)..at(rows.end)]
    }

    /// A name of an output that the format claims.
    fn written_as(&self) -> &'static str {
        let names = ["out.npy", "out", "out.tif", "out.raw", "out.mrc", "out.h5", "out.zarr"];
        names.into_iter().find(|name| self.format.claims_output(Path::new(name))).unwrap()
    }

    /// Opens an output of the format. A description is given where it is needed.
    fn open(&self, path: &Path) -> Opened {
        let opened = self.format.open(path, None);
        opened.or_else(|_| self.format.open(path, Some(&Plain::new(self.array.clone())))).unwrap()
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.format.name(), self.array)
    }
}

#[test]
fn what_is_written_by_rows_in_any_order_reads_back() {
    for case in cases() {
        let data = case.data();
        let writer = case.plan.create(&case.partial(), None).unwrap();
        for rows in case.ranges() {
            writer.write(rows.clone(), case.part(&data, &rows)).unwrap();
        }
        drop(writer);
        let out = case.folder.path().join("finished");
        fs::rename(case.partial(), &out).unwrap();
        let opened = case.open(&out);
        let (dtype, bytes) = (opened.array.dtype(), opened.array.bytes());
        assert_eq!((dtype, bytes), (case.array.dtype(), case.array.bytes()), "{case}");
        let rows = opened.array.layout().rows;
        let mut read = vec![0; data.len()];
        opened.reader.read(0..rows, &mut read).unwrap();
        assert_eq!(read, data, "{case}");
    }
}

#[test]
fn an_input_is_read_in_multiples_of_its_granule() {
    for case in cases() {
        let data = case.data();
        let writer = case.plan.create(&case.partial(), None).unwrap();
        writer.write(0..case.array.layout().rows, &data).unwrap();
        let opened = case.open(&case.partial());
        let (rows, granule) = (opened.array.layout().rows, opened.granule);
        assert!(granule > 0 && rows.is_multiple_of(granule), "{case}");
        assert!(case.plan.granule().is_multiple_of(granule), "{case}");
        assert!(rows.is_multiple_of(opened.items.len() as u64), "{case}: rows of each file");
        for start in (0..rows).step_by(usize::try_from(granule).unwrap()) {
            let rows = start..start + granule;
            let mut read = vec![0; case.part(&data, &rows).len()];
            opened.reader.read(rows.clone(), &mut read).unwrap();
            assert_eq!(read, case.part(&data, &rows), "{case}: {rows:?}");
        }
    }
}

#[test]
fn a_partial_output_is_continued_only_if_it_has_the_rows() {
    for case in cases() {
        let data = case.data();
        let rows = case.array.layout().rows;
        let half = rows / case.plan.granule() / 2 * case.plan.granule();
        let mut done = Rows::default();
        done.insert(0..half);
        let write = |rows: Range<u64>, writer: &dyn trijet_io::format::Writer| {
            writer.write(rows.clone(), case.part(&data, &rows)).unwrap();
        };
        assert!(case.plan.reopen(&case.partial(), &done).is_err(), "{case}: missing");
        write(0..half, &mut *case.plan.create(&case.partial(), None).unwrap());
        let writer = case.plan.reopen(&case.partial(), &done).unwrap();
        write(half..rows, &*writer);
        for rows in case.ranges() {
            let mut read = vec![0; case.part(&data, &rows).len()];
            writer.read(rows.clone(), &mut read).unwrap();
            assert_eq!(read, case.part(&data, &rows), "{case}: {rows:?}");
        }
        let mut read = vec![0; data.len()];
        case.open(&case.partial()).reader.read(0..rows, &mut read).unwrap();
        assert_eq!(read, data, "{case}");
        if half > 0 {
            cut(&case.partial());
            assert!(case.plan.reopen(&case.partial(), &done).is_err(), "{case}: cut");
        }
    }
}

#[test]
fn a_discarded_output_is_gone_and_nothing_else_is_discarded() {
    for case in cases() {
        let partial = case.partial();
        case.plan.discard(&partial).unwrap();
        let writer = case.plan.create(&partial, None).unwrap();
        writer.write(0..case.array.layout().rows, &case.data()).unwrap();
        drop(writer);
        assert!(case.plan.create(&partial, None).is_err(), "{case}: create replaces nothing");
        case.plan.discard(&partial).unwrap();
        assert!(fs::symlink_metadata(&partial).is_err(), "{case}");
        // Another file of the user, in each form that the partial output does not have.
        let mine = case.folder.path().join("mine");
        fs::create_dir(&mine).unwrap();
        fs::write(mine.join("thesis.tex"), "precious").unwrap();
        std::os::unix::fs::symlink(&mine, &partial).unwrap();
        assert!(case.plan.discard(&partial).is_err(), "{case}: a link");
        assert!(case.plan.create(&partial, None).is_err(), "{case}: a link");
        fs::remove_file(&partial).unwrap();
        fs::rename(&mine, &partial).unwrap();
        assert!(case.plan.discard(&partial).is_err(), "{case}: a folder of the user");
        assert_eq!(fs::read(partial.join("thesis.tex")).unwrap(), b"precious", "{case}");
    }
}

#[test]
fn a_synchronized_output_is_the_one_that_was_opened() {
    for case in cases() {
        let partial = case.partial();
        let writer = case.plan.create(&partial, None).unwrap();
        let identity = |state: fs::Metadata| (state.dev(), state.ino());
        writer.sync().unwrap();
        writer.write(0..case.array.layout().rows, &case.data()).unwrap();
        writer.sync().unwrap();
        writer.check_complete().unwrap();
        let moved = case.folder.path().join("moved");
        fs::rename(&partial, &moved).unwrap();
        let root = identity(writer.root().metadata().unwrap());
        assert_eq!(identity(fs::metadata(&moved).unwrap()), root, "{case}");
        writer.write(0..case.array.layout().rows, &case.data()).unwrap();
        writer.sync().unwrap();
        let data = case.data();
        let mut read = vec![0; data.len()];
        case.open(&moved).reader.read(0..case.array.layout().rows, &mut read).unwrap();
        assert_eq!(read, data, "{case}");
        case.plan.check_discard(&moved).unwrap();
    }
}

#[test]
fn no_format_claims_a_file_of_another_one() {
    for case in cases() {
        // A name without a format, and the name that the format writes to.
        for name in ["finished", "finished.dat", case.written_as()] {
            let path = case.folder.path().join(name);
            let writer = case.plan.create(&path, None).unwrap();
            writer.write(0..case.array.layout().rows, &case.data()).unwrap();
            drop(writer);
            let found = Found::at(&path).unwrap();
            let claim = |format: &&&dyn Format| format.claims_input(&found);
            let claims: Vec<&str> = FORMATS.iter().filter(claim).map(|f| f.name()).collect();
            assert_eq!(claims, [case.format.name()], "{case} at {name}");
            case.plan.discard(&path).unwrap();
        }
    }
}

#[test]
fn every_name_of_an_output_has_one_format_or_none() {
    for (name, expected) in [
        ("a.npy", &["npy"][..]),
        ("a.NPY", &["npy"]),
        ("a", &["png"]),
        ("a.raw", &["raw"]),
        ("a.bin", &["raw"]),
        ("a.b.dat", &["raw"]),
        ("a.png", &[]),
        ("a.ome.tif", &["tiff"]),
        ("a.TIFF", &["tiff"]),
        ("a.btf", &["tiff"]),
        ("a.tif/", &["png"]),
        ("a.svs", &[]),
        ("a.mha", &[]),
        ("a.zarr", &["zarr"]),
        ("a.ome.zarr/", &["zarr"]),
        ("a.n5", &[]),
        ("scan_v1.0", &[]),
        ("scan_v1.0/", &["png"]),
        ("a.npy/", &["png"]),
        ("a.raw/", &["png"]),
        ("a.h5", &["hdf5"]),
        ("a.NXS", &["hdf5"]),
        ("a.mrc", &["mrc"]),
        ("a.MRCS", &["mrc"]),
        ("a.rec", &["mrc"]),
        ("a.map", &["mrc"]),
        ("a.eer", &[]),
        ("a.nii", &[]),
        ("a.npz", &[]),
        ("a.nii.gz", &[]),
        ("a.hdr", &[]),
    ] {
        let claim = |format: &&&dyn Format| format.claims_output(Path::new(name));
        let claims: Vec<&str> = FORMATS.iter().filter(claim).map(|f| f.name()).collect();
        assert_eq!(claims, expected, "{name}");
    }
}

/// Takes away the last byte of a file, or the first file in a folder or in its first folder.
fn cut(partial: &Path) {
    if partial.is_dir() {
        let mut names: Vec<_> =
            fs::read_dir(partial).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        if names[0].is_dir() { cut(&names[0]) } else { fs::remove_file(&names[0]).unwrap() }
    } else {
        let file = File::options().write(true).open(partial).unwrap();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    }
}
