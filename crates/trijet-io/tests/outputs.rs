//! Outputs: the bytes are right in every format, the final name means a complete output, and a
//! stopped run can be resumed.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

mod common;

use common::{GRAY8, GRAY16, demand, dictionary, npy, png};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, proptest};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trijet::{ErrorKind, Sink, Source};
use trijet_io::{Array, Dtype, Fingerprint, Input, Journal, Output, Start, Target};

/// A folder with an input of four rows, each of two 16-bit elements.
struct Workdir {
    folder: TempDir,
    input: Input,
}

const DATA: [u8; 16] = [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0];

impl Workdir {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.npy");
        fs::write(&path, npy(&dictionary("<u2", "False", "(4, 2)"), &DATA)).unwrap();
        let input = Input::open(&path, None).unwrap();
        Self { folder, input }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn target(&self, name: &str) -> Target {
        Target::new(&self.path(name), self.input.array().clone(), &self.input).unwrap()
    }

    fn begin(&self, target: &Target, operation: &str, start: Start) -> trijet::Result<Output> {
        Output::open(target, &Fingerprint::new(&self.input, operation, target), start)
    }

    fn resume(&self, target: &Target) -> Output {
        self.begin(target, "copy", Start::Resume).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A list of one range, for comparisons.
fn only(rows: Range<u64>) -> Vec<Range<u64>> {
    vec![rows]
}

#[test]
fn the_final_name_appears_when_the_output_is_complete() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "copy", Start::Over).unwrap();
    output.write(2..4, &DATA[8..]).unwrap();
    demand(output.finish(), ErrorKind::Io, "out.npy.partial", &["rows 0..2", "not written"]);
    output.write(0..2, &DATA[..8]).unwrap();
    assert_eq!(workdir.names(), ["in.npy", "out.npy.journal", "out.npy.partial"]);
    output.finish().unwrap();
    assert_eq!(workdir.names(), ["in.npy", "out.npy"]);
    let mut expected = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let text = "{'descr': '<u2', 'fortran_order': False, 'shape': (4, 2), }";
    expected.extend(format!("{text:117}\n").into_bytes());
    assert_eq!(expected.len(), 128);
    expected.extend(DATA);
    assert_eq!(fs::read(workdir.path("out.npy")).unwrap(), expected);
}

#[test]
fn every_format_and_dtype_comes_back_as_it_was() {
    let workdir = Workdir::new();
    let data: Vec<u8> = (0..48).map(|n| n * 5).collect();
    for (dtype, name, kind) in [
        (Dtype::U8, "u8.npy", "npy"),
        (Dtype::U16, "u16.npy", "npy"),
        (Dtype::F32, "f32.npy", "npy"),
        (Dtype::U8, "u8.raw", "raw"),
        (Dtype::U16, "u16.raw", "raw"),
        (Dtype::F32, "f32.bin", "raw"),
        (Dtype::U8, "u8", "png"),
        (Dtype::U16, "u16", "png"),
    ] {
        let array = Array::new(dtype, vec![2, 2, 12 / dtype.bytes()]).unwrap();
        let target = Target::new(&workdir.path(name), array.clone(), &workdir.input).unwrap();
        assert_eq!(target.format().name(), kind, "{name}");
        let mut output = workdir.begin(&target, "copy", Start::Over).unwrap();
        output.write(0..2, &data[..24]).unwrap();
        assert!(!target.path().exists(), "{name}");
        output.write(2..4, &data[24..]).unwrap();
        output.finish().unwrap();
        let raw = (kind == "raw").then(|| array.clone());
        let read = Input::open(target.path(), raw).unwrap();
        assert_eq!(read.array(), &array, "{name}");
        let mut bytes = vec![0; 48];
        read.read(0..4, &mut bytes).unwrap();
        assert_eq!(bytes, data, "{name}");
    }
    assert!(workdir.path("u16").join("000001.png").is_file());
}

#[test]
fn images_keep_the_names_of_the_input() {
    let workdir = Workdir::new();
    let folder = workdir.path("stack");
    fs::create_dir(&folder).unwrap();
    png(&folder.join("cell 1.png"), [2, 1], GRAY8, &[1, 2]);
    png(&folder.join("cell 2.png"), [2, 1], GRAY8, &[3, 4]);
    let input = Input::open(&folder, None).unwrap();
    let target = Target::new(&workdir.path("clean"), input.array().clone(), &input).unwrap();
    let run = Fingerprint::new(&input, "copy", &target);
    let mut output = Output::open(&target, &run, Start::Over).unwrap();
    output.write(0..2, &[1, 2, 3, 4]).unwrap();
    output.finish().unwrap();
    assert_eq!(Input::open(&workdir.path("clean"), None).unwrap().names(), input.names());
}

#[test]
fn an_empty_array_gives_an_empty_output() {
    let workdir = Workdir::new();
    for (name, shape) in [("a.npy", vec![0]), ("a.raw", vec![3, 0]), ("images", vec![0, 2, 2])] {
        let array = Array::new(Dtype::U16, shape).unwrap();
        let target = Target::new(&workdir.path(name), array.clone(), &workdir.input).unwrap();
        workdir.begin(&target, "copy", Start::Over).unwrap().finish().unwrap();
        assert!(target.path().exists(), "{name}");
    }
    let read = Input::open(&workdir.path("a.npy"), None).unwrap();
    assert_eq!((read.array().shape(), read.layout().rows), (&[0][..], 0));
}

#[test]
fn an_array_that_is_not_an_image_is_not_written_as_png() {
    let workdir = Workdir::new();
    let odd = [
        (Dtype::F32, vec![2, 2], "f32"),
        (Dtype::U8, vec![4], "not an image"),
        (Dtype::U8, vec![1, 2, 3, 4], "not an image"),
        (Dtype::U8, vec![2, 0], "0x2"),
        (Dtype::U8, vec![1, 1 << 31], "2147483648x1"),
    ];
    for (dtype, shape, words) in odd {
        let array = Array::new(dtype, shape).unwrap();
        let target = Target::new(&workdir.path("images"), array, &workdir.input);
        demand(target, ErrorKind::InvalidValue, "images", &[words]);
    }
    let target =
        Target::new(&workdir.path("one.png"), workdir.input.array().clone(), &workdir.input);
    demand(target, ErrorKind::InvalidValue, "one.png", &["folder"]);
}

#[test]
fn nothing_that_exists_is_overwritten() {
    let workdir = Workdir::new();
    let target = |path: &Path| Target::new(path, workdir.input.array().clone(), &workdir.input);
    let refused = |name: &str, words: &str| {
        demand(target(&workdir.path(name)), ErrorKind::InvalidValue, name, &[words]);
    };
    fs::write(workdir.path("old.npy"), "precious").unwrap();
    refused("old.npy", "already exists");
    symlink("nowhere", workdir.path("dangling.npy")).unwrap();
    refused("dangling.npy", "already exists");
    refused("in.npy", "overwrite the input");
    symlink("in.npy", workdir.path("soft.npy")).unwrap();
    refused("soft.npy", "overwrite the input");
    fs::hard_link(workdir.path("in.npy"), workdir.path("hard.npy")).unwrap();
    refused("hard.npy", "overwrite the input");
    symlink(workdir.folder.path(), workdir.path("here")).unwrap();
    refused("here/in.npy", "overwrite the input");
    refused("old.npy/out.npy", "not a folder");
    demand(target("..".as_ref()), ErrorKind::InvalidValue, "..", &["not the name of a file"]);
    let missing = target(&workdir.path("missing/out.npy"));
    demand(missing, ErrorKind::Io, "out.npy", &["missing: no such file or folder"]);
    assert_eq!(fs::read(workdir.path("old.npy")).unwrap(), b"precious");
}

#[test]
fn the_partial_output_and_the_journal_do_not_overwrite_the_input() {
    let workdir = Workdir::new();
    for (input, out) in [("x.npy.partial", "x.npy"), ("y.npy.journal", "y.npy")] {
        fs::write(workdir.path(input), DATA).unwrap();
        let array = Array::new(Dtype::U8, vec![16]).unwrap();
        let opened = Input::open(&workdir.path(input), Some(array.clone())).unwrap();
        let target = Target::new(&workdir.path(out), array, &opened);
        demand(target, ErrorKind::InvalidValue, out, &["overwrite the input", input]);
    }
    let folder = workdir.path("z.partial");
    fs::create_dir(&folder).unwrap();
    png(&folder.join("a.png"), [1, 1], GRAY16, &[1, 1]);
    let input = Input::open(&folder, None).unwrap();
    let inside = Target::new(&folder.join("out.npy"), input.array().clone(), &input);
    demand(inside, ErrorKind::InvalidValue, "out.npy", &["inside the input"]);
    let around = Target::new(&workdir.path("z"), input.array().clone(), &input);
    demand(around, ErrorKind::InvalidValue, "z", &["overwrite the input"]);
}

#[test]
fn a_file_that_appears_under_the_final_name_is_not_overwritten() {
    let workdir = Workdir::new();
    let target = workdir.target("out.raw");
    let mut output = workdir.begin(&target, "copy", Start::Over).unwrap();
    output.write(0..4, &DATA).unwrap();
    fs::write(workdir.path("out.raw"), "precious").unwrap();
    demand(output.finish(), ErrorKind::InvalidValue, "out.raw", &["already exists"]);
    assert_eq!(fs::read(workdir.path("out.raw")).unwrap(), b"precious");
    assert_eq!(fs::read(workdir.path("out.raw.partial")).unwrap(), DATA);
}

#[test]
fn a_folder_with_other_files_is_not_emptied() {
    let workdir = Workdir::new();
    let partial = workdir.path("images.partial");
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("thesis.tex"), "precious").unwrap();
    let target = workdir.target("images");
    let output = workdir.begin(&target, "copy", Start::Over);
    demand(output, ErrorKind::InvalidValue, "thesis.tex", &["move it elsewhere"]);
    assert_eq!(workdir.names(), ["images.partial", "in.npy"], "no journal is left");
}

#[test]
fn a_resumed_run_writes_the_missing_rows_only() {
    for name in ["out.npy", "out.raw", "images"] {
        let workdir = Workdir::new();
        let array = Array::new(Dtype::U16, vec![4, 1, 2]).unwrap();
        let target = Target::new(&workdir.path(name), array, &workdir.input).unwrap();
        let mut output = workdir.begin(&target, "copy", Start::Over).unwrap();
        output.write(0..1, &DATA[..4]).unwrap();
        output.write(2..3, &DATA[8..12]).unwrap();
        drop(output);
        let mut output = workdir.resume(&target);
        assert_eq!(output.done().ranges(), [0..1, 2..3], "{name}");
        assert_eq!(output.missing(), [1..2, 3..4], "{name}");
        output.write(1..2, &DATA[4..8]).unwrap();
        drop(output);
        let mut output = workdir.resume(&target);
        assert_eq!(output.done().ranges(), only(0..3), "{name}");
        output.write(3..4, &DATA[12..]).unwrap();
        output.finish().unwrap();
        let raw = Array::new(Dtype::U16, vec![4, 2]).unwrap();
        let read = Input::open(&workdir.path(name), (name == "out.raw").then_some(raw)).unwrap();
        let mut bytes = [0; 16];
        read.read(0..4, &mut bytes).unwrap();
        assert_eq!(bytes, DATA, "{name}");
    }
}

#[test]
fn a_journal_and_a_partial_output_count_only_together() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let stop = || {
        let mut output = workdir.begin(&target, "copy", Start::Over).unwrap();
        output.write(0..2, &DATA[..8]).unwrap();
    };
    let (partial, journal) = (workdir.path("out.npy.partial"), workdir.path("out.npy.journal"));
    stop();
    fs::remove_file(&journal).unwrap();
    assert_eq!(workdir.resume(&target).missing(), only(0..4), "no journal");
    stop();
    fs::remove_file(&partial).unwrap();
    assert_eq!(workdir.resume(&target).missing(), only(0..4), "no partial output");
    stop();
    fs::write(&partial, "short").unwrap();
    assert_eq!(workdir.resume(&target).missing(), only(0..4), "a partial output of another size");
    stop();
    assert_eq!(workdir.resume(&target).missing(), only(2..4), "both");
    let mut other = fs::read(&partial).unwrap();
    other[9] ^= 1;
    fs::write(&partial, other).unwrap();
    assert_eq!(workdir.resume(&target).missing(), only(0..4), "a partial output of another header");
    stop();
    assert_eq!(
        workdir.begin(&target, "copy", Start::Over).unwrap().missing(),
        only(0..4),
        "asked for"
    );
}

#[test]
fn a_missing_image_of_a_partial_output_starts_the_output_over() {
    let workdir = Workdir::new();
    let target = Target::new(
        &workdir.path("images"),
        Array::new(Dtype::U16, vec![4, 1, 2]).unwrap(),
        &workdir.input,
    )
    .unwrap();
    let mut output = workdir.begin(&target, "copy", Start::Over).unwrap();
    output.write(0..2, &DATA[..8]).unwrap();
    drop(output);
    fs::remove_file(workdir.path("images.partial").join("000001.png")).unwrap();
    assert_eq!(workdir.resume(&target).missing(), only(0..4));
}

#[test]
fn rows_that_could_not_be_written_are_not_in_the_journal() {
    let workdir = Workdir::new();
    let array = Array::new(Dtype::U16, vec![4, 1, 2]).unwrap();
    let target = Target::new(&workdir.path("images"), array, &workdir.input).unwrap();
    let mut output = workdir.begin(&target, "copy", Start::Over).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    // The disk is full from the third image on.
    symlink("/dev/full", workdir.path("images.partial").join("000002.png")).unwrap();
    let full = output.write(1..3, &DATA[4..12]);
    demand(full, ErrorKind::Io, "images.partial/000002.png", &["write", "no space left"]);
    drop(output);
    assert_eq!(workdir.resume(&target).missing(), only(1..4));
}

#[test]
fn an_incomplete_last_line_is_ignored() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "copy", Start::Over).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    output.write(1..2, &DATA[4..8]).unwrap();
    drop(output);
    let journal = workdir.path("out.npy.journal");
    let whole = fs::read(&journal).unwrap();
    let lines: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    assert_eq!(lines.len(), 3);
    for length in 0..=whole.len() {
        fs::write(&journal, &whole[..length]).unwrap();
        fs::write(workdir.path("out.npy.partial"), {
            let mut partial = common::npy(
                &format!("{:117}\n", "{'descr': '<u2', 'fortran_order': False, 'shape': (4, 2), }"),
                &DATA,
            );
            partial.truncate(144);
            partial
        })
        .unwrap();
        let mut output = workdir.resume(&target);
        let rows = lines.iter().filter(|&&end| end < length).count().saturating_sub(1);
        assert_eq!(output.missing(), only(rows as u64..4), "{length} of {} bytes", whole.len());
        // The next line must not be appended to the incomplete one.
        output.write(3..4, &DATA[12..]).unwrap();
        drop(output);
        assert_eq!(workdir.resume(&target).missing(), only(rows as u64..3));
    }
}

#[test]
fn a_damaged_line_in_the_middle_is_an_error() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    drop(workdir.begin(&target, "copy", Start::Over).unwrap());
    let journal = workdir.path("out.npy.journal");
    let header = fs::read_to_string(&journal).unwrap();
    for line in ["garbage", "{\"rows\":[0]}", "{\"rows\":[2,1]}", "{\"rows\":[0,5]}", "{}", ""] {
        fs::write(&journal, format!("{header}{line}\n{{\"rows\":[0,1]}}\n")).unwrap();
        let resumed = workdir.begin(&target, "copy", Start::Resume);
        let at = format!("byte {}", header.len());
        demand(resumed, ErrorKind::Io, "out.npy.journal", &["damaged", &at]);
    }
    fs::write(&journal, "no header\n").unwrap();
    let resumed = workdir.begin(&target, "copy", Start::Resume);
    demand(resumed, ErrorKind::Io, "out.npy.journal", &["not a header"]);
}

#[test]
fn another_run_is_not_resumed() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    drop(workdir.begin(&target, "median 3", Start::Over).unwrap());
    let other = |input: &Input, operation: &str, target: &Target, words: &[&str]| {
        let run = Fingerprint::new(input, operation, target);
        let resumed = Output::open(target, &run, Start::Resume);
        demand(resumed, ErrorKind::InvalidValue, "out.npy.journal", words);
    };
    other(&workdir.input, "median 5", &target, &["operation", "median 3", "median 5"]);
    let array = Array::new(Dtype::U16, vec![2, 4]).unwrap();
    let wide = Target::new(&workdir.path("out.npy"), array, &workdir.input).unwrap();
    other(&workdir.input, "median 3", &wide, &["output_form", "[4, 2]", "[2, 4]"]);
    let longer = npy(&dictionary("<u2", "False", "(4, 2) "), &DATA);
    fs::write(workdir.path("in.npy"), longer).unwrap();
    let changed = Input::open(&workdir.path("in.npy"), None).unwrap();
    other(&changed, "median 3", &target, &["input_bytes"]);
}

#[test]
fn two_runs_do_not_write_one_output() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let first = workdir.begin(&target, "copy", Start::Over).unwrap();
    for start in [Start::Over, Start::Resume] {
        let second = workdir.begin(&target, "copy", start);
        demand(second, ErrorKind::InvalidValue, "out.npy.journal", &["another run"]);
    }
    drop(first);
    Journal::lock(&workdir.path("out.npy.journal")).unwrap();
}

/// Chunks that cover eleven rows, in any order, some of them twice.
fn chunks() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let cuts = prop::collection::btree_set(1..11_u64, 0..6);
    let twice = prop::collection::vec((0..11_u64, 1..4_u64), 0..3);
    (cuts, twice).prop_flat_map(|(cuts, twice)| {
        let edges: Vec<u64> = [0].into_iter().chain(cuts).chain([11]).collect();
        let mut chunks: Vec<(u64, u64)> = edges.windows(2).map(|pair| (pair[0], pair[1])).collect();
        chunks.extend(twice.into_iter().map(|(start, rows)| (start, (start + rows).min(11))));
        Just(chunks).prop_shuffle()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_output_does_not_depend_on_the_order_of_the_chunks(
        chunks in chunks(),
        stop in 0..8_usize,
        data in prop::collection::vec(any::<u8>(), 66),
        name in prop::sample::select(vec!["out.npy", "out.raw", "images"]),
    ) {
        let workdir = Workdir::new();
        let shape = if name == "images" { vec![11, 1, 3] } else { vec![11, 3] };
        let array = Array::new(Dtype::U16, shape).unwrap();
        let write = |out: &str, chunks: &[(u64, u64)], stop: usize| {
            let target = Target::new(&workdir.path(out), array.clone(), &workdir.input).unwrap();
            let mut output = workdir.begin(&target, "copy", Start::Over).unwrap();
            for (n, &(start, end)) in chunks.iter().enumerate() {
                if n == stop {
                    drop(output);
                    output = workdir.resume(&target);
                }
                let at = |row: u64| usize::try_from(row).unwrap() * 6;
                output.write(start..end, &data[at(start)..at(end)]).unwrap();
            }
            output.finish().unwrap();
            files(target.path())
        };
        let other = format!("other{}", name.strip_prefix("out").unwrap_or(""));
        assert_eq!(write(name, &chunks, stop), write(&other, &[(0, 11)], 9));
    }
}

/// The bytes of a file, or of all files of a folder in the order of their names.
fn files(path: &Path) -> Vec<Vec<u8>> {
    if path.is_file() {
        return vec![fs::read(path).unwrap()];
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}
