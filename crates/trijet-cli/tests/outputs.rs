//! Writing: the bytes are right in every format, nothing half-written has the final name, and a
//! stopped run goes on where it was.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

mod common;

use common::{GRAY8, GRAY16, demand, dictionary, npy, png};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, proptest};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trijet::ErrorKind;
use trijet::pipeline::{Sink, Source};
use trijet_cli::format::{self, Array, Dtype, Input, Kind};
use trijet_cli::journal::{Fingerprint, Journal};
use trijet_cli::output::{Output, Start, Target};

/// A folder with an input of four rows, each of two 16-bit elements.
struct Desk {
    folder: TempDir,
    input: Input,
}

const DATA: [u8; 16] = [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0];

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.npy");
        fs::write(&path, npy(&dictionary("<u2", "False", "(4, 2)"), &DATA)).unwrap();
        let input = format::open(&path, None).unwrap();
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

/// One range, for comparison.
fn only(rows: Range<u64>) -> Vec<Range<u64>> {
    vec![rows]
}

#[test]
fn the_final_name_appears_with_the_last_byte() {
    let desk = Desk::new();
    let target = desk.target("out.npy");
    let mut output = desk.begin(&target, "copy", Start::Over).unwrap();
    output.write(2..4, &DATA[8..]).unwrap();
    demand(output.finish(), ErrorKind::Io, "out.npy.partial", &["rows 0 to 2", "never written"]);
    output.write(0..2, &DATA[..8]).unwrap();
    assert_eq!(desk.names(), ["in.npy", "out.npy.journal", "out.npy.partial"]);
    output.finish().unwrap();
    assert_eq!(desk.names(), ["in.npy", "out.npy"]);
    let mut expected = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let text = "{'descr': '<u2', 'fortran_order': False, 'shape': (4, 2), }";
    expected.extend(format!("{text:117}\n").into_bytes());
    assert_eq!(expected.len(), 128);
    expected.extend(DATA);
    assert_eq!(fs::read(desk.path("out.npy")).unwrap(), expected);
}

#[test]
fn every_format_and_dtype_comes_back_as_it_was() {
    let desk = Desk::new();
    let data: Vec<u8> = (0..48).map(|n| n * 5).collect();
    for (dtype, name, kind) in [
        (Dtype::U8, "u8.npy", Kind::Npy),
        (Dtype::U16, "u16.npy", Kind::Npy),
        (Dtype::F32, "f32.npy", Kind::Npy),
        (Dtype::U8, "u8.raw", Kind::Raw),
        (Dtype::U16, "u16.raw", Kind::Raw),
        (Dtype::F32, "f32.bin", Kind::Raw),
        (Dtype::U8, "u8", Kind::Images),
        (Dtype::U16, "u16", Kind::Images),
    ] {
        let array = Array::new(dtype, vec![2, 2, 12 / dtype.bytes()]).unwrap();
        let target = Target::new(&desk.path(name), array.clone(), &desk.input).unwrap();
        assert_eq!(target.kind(), kind, "{name}");
        let mut output = desk.begin(&target, "copy", Start::Over).unwrap();
        output.write(0..2, &data[..24]).unwrap();
        assert!(!target.path().exists(), "{name}");
        output.write(2..4, &data[24..]).unwrap();
        output.finish().unwrap();
        let raw = (kind == Kind::Raw).then(|| array.clone());
        let read = format::open(target.path(), raw).unwrap();
        assert_eq!(read.array(), &array, "{name}");
        let mut bytes = vec![0; 48];
        read.read(0..4, &mut bytes).unwrap();
        assert_eq!(bytes, data, "{name}");
    }
    assert!(desk.path("u16").join("000001.png").is_file());
}

#[test]
fn images_keep_the_names_of_the_input() {
    let desk = Desk::new();
    let folder = desk.path("stack");
    fs::create_dir(&folder).unwrap();
    png(&folder.join("cell 1.png"), [2, 1], GRAY8, &[1, 2]);
    png(&folder.join("cell 2.png"), [2, 1], GRAY8, &[3, 4]);
    let input = format::open(&folder, None).unwrap();
    let target = Target::new(&desk.path("clean"), input.array().clone(), &input).unwrap();
    let run = Fingerprint::new(&input, "copy", &target);
    let mut output = Output::open(&target, &run, Start::Over).unwrap();
    output.write(0..2, &[1, 2, 3, 4]).unwrap();
    output.finish().unwrap();
    assert_eq!(format::open(&desk.path("clean"), None).unwrap().names(), input.names());
}

#[test]
fn an_empty_array_gives_an_empty_output() {
    let desk = Desk::new();
    for (name, shape) in [("a.npy", vec![0]), ("a.raw", vec![3, 0]), ("images", vec![0, 2, 2])] {
        let array = Array::new(Dtype::U16, shape).unwrap();
        let target = Target::new(&desk.path(name), array.clone(), &desk.input).unwrap();
        desk.begin(&target, "copy", Start::Over).unwrap().finish().unwrap();
        assert!(target.path().exists(), "{name}");
    }
    let read = format::open(&desk.path("a.npy"), None).unwrap();
    assert_eq!((read.array().shape(), read.layout().rows), (&[0][..], 0));
}

#[test]
fn an_array_that_is_no_image_is_not_written_as_png() {
    let desk = Desk::new();
    let odd = [
        (Dtype::F32, vec![2, 2], "f32"),
        (Dtype::U8, vec![4], "no stack of images"),
        (Dtype::U8, vec![1, 2, 3, 4], "no stack of images"),
        (Dtype::U8, vec![2, 0], "0x2"),
        (Dtype::U8, vec![1, 1 << 31], "2147483648x1"),
    ];
    for (dtype, shape, words) in odd {
        let array = Array::new(dtype, shape).unwrap();
        let target = Target::new(&desk.path("images"), array, &desk.input);
        demand(target, ErrorKind::InvalidValue, "images", &[words]);
    }
    let target = Target::new(&desk.path("one.png"), desk.input.array().clone(), &desk.input);
    demand(target, ErrorKind::InvalidValue, "one.png", &["folder"]);
}

#[test]
fn nothing_that_exists_is_overwritten() {
    let desk = Desk::new();
    let target = |path: &Path| Target::new(path, desk.input.array().clone(), &desk.input);
    let refused = |name: &str, words: &str| {
        demand(target(&desk.path(name)), ErrorKind::InvalidValue, name, &[words]);
    };
    fs::write(desk.path("old.npy"), "precious").unwrap();
    refused("old.npy", "exists already");
    symlink("nowhere", desk.path("dangling.npy")).unwrap();
    refused("dangling.npy", "exists already");
    refused("in.npy", "destroy the input");
    symlink("in.npy", desk.path("soft.npy")).unwrap();
    refused("soft.npy", "destroy the input");
    fs::hard_link(desk.path("in.npy"), desk.path("hard.npy")).unwrap();
    refused("hard.npy", "destroy the input");
    symlink(desk.folder.path(), desk.path("here")).unwrap();
    refused("here/in.npy", "destroy the input");
    refused("old.npy/out.npy", "not a folder");
    demand(target("..".as_ref()), ErrorKind::InvalidValue, "..", &["names no file"]);
    let missing = target(&desk.path("missing/out.npy"));
    demand(missing, ErrorKind::Io, "out.npy", &["missing: no such file or folder"]);
    assert_eq!(fs::read(desk.path("old.npy")).unwrap(), b"precious");
}

#[test]
fn the_files_beside_the_output_are_not_the_input_either() {
    let desk = Desk::new();
    for (input, out) in [("x.npy.partial", "x.npy"), ("y.npy.journal", "y.npy")] {
        fs::write(desk.path(input), DATA).unwrap();
        let array = Array::new(Dtype::U8, vec![16]).unwrap();
        let opened = format::open(&desk.path(input), Some(array.clone())).unwrap();
        let target = Target::new(&desk.path(out), array, &opened);
        demand(target, ErrorKind::InvalidValue, out, &["destroy the input", input]);
    }
    let folder = desk.path("z.partial");
    fs::create_dir(&folder).unwrap();
    png(&folder.join("a.png"), [1, 1], GRAY16, &[1, 1]);
    let input = format::open(&folder, None).unwrap();
    let inside = Target::new(&folder.join("out.npy"), input.array().clone(), &input);
    demand(inside, ErrorKind::InvalidValue, "out.npy", &["inside the input"]);
    let around = Target::new(&desk.path("z"), input.array().clone(), &input);
    demand(around, ErrorKind::InvalidValue, "z", &["destroy the input"]);
}

#[test]
fn a_name_that_is_taken_during_the_run_is_left_alone() {
    let desk = Desk::new();
    let target = desk.target("out.raw");
    let mut output = desk.begin(&target, "copy", Start::Over).unwrap();
    output.write(0..4, &DATA).unwrap();
    fs::write(desk.path("out.raw"), "precious").unwrap();
    demand(output.finish(), ErrorKind::InvalidValue, "out.raw", &["exists already"]);
    assert_eq!(fs::read(desk.path("out.raw")).unwrap(), b"precious");
    assert_eq!(fs::read(desk.path("out.raw.partial")).unwrap(), DATA);
}

#[test]
fn a_folder_that_is_not_ours_is_not_emptied() {
    let desk = Desk::new();
    let partial = desk.path("images.partial");
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("thesis.tex"), "precious").unwrap();
    let target = desk.target("images");
    let output = desk.begin(&target, "copy", Start::Over);
    demand(output, ErrorKind::InvalidValue, "thesis.tex", &["move it away"]);
    assert_eq!(desk.names(), ["images.partial", "in.npy"], "no journal is left");
}

#[test]
fn a_stopped_run_goes_on_after_its_rows() {
    for name in ["out.npy", "out.raw", "images"] {
        let desk = Desk::new();
        let array = Array::new(Dtype::U16, vec![4, 1, 2]).unwrap();
        let target = Target::new(&desk.path(name), array, &desk.input).unwrap();
        let mut output = desk.begin(&target, "copy", Start::Over).unwrap();
        output.write(0..1, &DATA[..4]).unwrap();
        output.write(2..3, &DATA[8..12]).unwrap();
        drop(output);
        let mut output = desk.resume(&target);
        assert_eq!(output.done().ranges(), [0..1, 2..3], "{name}");
        assert_eq!(output.missing(), [1..2, 3..4], "{name}");
        output.write(1..2, &DATA[4..8]).unwrap();
        drop(output);
        let mut output = desk.resume(&target);
        assert_eq!(output.done().ranges(), only(0..3), "{name}");
        output.write(3..4, &DATA[12..]).unwrap();
        output.finish().unwrap();
        let raw = Array::new(Dtype::U16, vec![4, 2]).unwrap();
        let read = format::open(&desk.path(name), (name == "out.raw").then_some(raw)).unwrap();
        let mut bytes = [0; 16];
        read.read(0..4, &mut bytes).unwrap();
        assert_eq!(bytes, DATA, "{name}");
    }
}

#[test]
fn a_journal_and_a_partial_output_count_only_together() {
    let desk = Desk::new();
    let target = desk.target("out.npy");
    let stop = || {
        let mut output = desk.begin(&target, "copy", Start::Over).unwrap();
        output.write(0..2, &DATA[..8]).unwrap();
    };
    let (partial, journal) = (desk.path("out.npy.partial"), desk.path("out.npy.journal"));
    stop();
    fs::remove_file(&journal).unwrap();
    assert_eq!(desk.resume(&target).missing(), only(0..4), "no journal");
    stop();
    fs::remove_file(&partial).unwrap();
    assert_eq!(desk.resume(&target).missing(), only(0..4), "no partial output");
    stop();
    fs::write(&partial, "short").unwrap();
    assert_eq!(desk.resume(&target).missing(), only(0..4), "a partial output of another size");
    stop();
    assert_eq!(desk.resume(&target).missing(), only(2..4), "both");
    let mut other = fs::read(&partial).unwrap();
    other[9] ^= 1;
    fs::write(&partial, other).unwrap();
    assert_eq!(desk.resume(&target).missing(), only(0..4), "a partial output of another header");
    stop();
    assert_eq!(
        desk.begin(&target, "copy", Start::Over).unwrap().missing(),
        only(0..4),
        "asked for"
    );
}

#[test]
fn a_lost_image_is_not_taken_for_done() {
    let desk = Desk::new();
    let target = Target::new(
        &desk.path("images"),
        Array::new(Dtype::U16, vec![4, 1, 2]).unwrap(),
        &desk.input,
    )
    .unwrap();
    let mut output = desk.begin(&target, "copy", Start::Over).unwrap();
    output.write(0..2, &DATA[..8]).unwrap();
    drop(output);
    fs::remove_file(desk.path("images.partial").join("000001.png")).unwrap();
    assert_eq!(desk.resume(&target).missing(), only(0..4));
}

#[test]
fn rows_that_found_no_space_are_not_noted() {
    let desk = Desk::new();
    let array = Array::new(Dtype::U16, vec![4, 1, 2]).unwrap();
    let target = Target::new(&desk.path("images"), array, &desk.input).unwrap();
    let mut output = desk.begin(&target, "copy", Start::Over).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    // A disk that is full from the third image on.
    symlink("/dev/full", desk.path("images.partial").join("000002.png")).unwrap();
    let full = output.write(1..3, &DATA[4..12]);
    demand(full, ErrorKind::Io, "images.partial/000002.png", &["write", "no space left"]);
    drop(output);
    assert_eq!(desk.resume(&target).missing(), only(1..4));
}

#[test]
fn a_torn_last_line_counts_for_nothing() {
    let desk = Desk::new();
    let target = desk.target("out.npy");
    let mut output = desk.begin(&target, "copy", Start::Over).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    output.write(1..2, &DATA[4..8]).unwrap();
    drop(output);
    let journal = desk.path("out.npy.journal");
    let whole = fs::read(&journal).unwrap();
    let lines: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    assert_eq!(lines.len(), 3);
    for length in 0..=whole.len() {
        fs::write(&journal, &whole[..length]).unwrap();
        fs::write(desk.path("out.npy.partial"), {
            let mut partial = common::npy(
                &format!("{:117}\n", "{'descr': '<u2', 'fortran_order': False, 'shape': (4, 2), }"),
                &DATA,
            );
            partial.truncate(144);
            partial
        })
        .unwrap();
        let mut output = desk.resume(&target);
        let rows = lines.iter().filter(|&&end| end < length).count().saturating_sub(1);
        assert_eq!(output.missing(), only(rows as u64..4), "{length} of {} bytes", whole.len());
        // The next line must not join the torn one.
        output.write(3..4, &DATA[12..]).unwrap();
        drop(output);
        assert_eq!(desk.resume(&target).missing(), only(rows as u64..3));
    }
}

#[test]
fn a_damaged_line_in_the_middle_is_an_error() {
    let desk = Desk::new();
    let target = desk.target("out.npy");
    drop(desk.begin(&target, "copy", Start::Over).unwrap());
    let journal = desk.path("out.npy.journal");
    let header = fs::read_to_string(&journal).unwrap();
    for line in ["garbage", "{\"rows\":[0]}", "{\"rows\":[2,1]}", "{\"rows\":[0,5]}", "{}", ""] {
        fs::write(&journal, format!("{header}{line}\n{{\"rows\":[0,1]}}\n")).unwrap();
        let resumed = desk.begin(&target, "copy", Start::Resume);
        let at = format!("byte {}", header.len());
        demand(resumed, ErrorKind::Io, "out.npy.journal", &["damaged", &at]);
    }
    fs::write(&journal, "no header\n").unwrap();
    let resumed = desk.begin(&target, "copy", Start::Resume);
    demand(resumed, ErrorKind::Io, "out.npy.journal", &["no header"]);
}

#[test]
fn another_run_is_not_resumed() {
    let desk = Desk::new();
    let target = desk.target("out.npy");
    drop(desk.begin(&target, "median 3", Start::Over).unwrap());
    let other = |input: &Input, operation: &str, target: &Target, words: &[&str]| {
        let run = Fingerprint::new(input, operation, target);
        let resumed = Output::open(target, &run, Start::Resume);
        demand(resumed, ErrorKind::InvalidValue, "out.npy.journal", words);
    };
    other(&desk.input, "median 5", &target, &["operation", "median 3", "median 5"]);
    let array = Array::new(Dtype::U16, vec![2, 4]).unwrap();
    let wide = Target::new(&desk.path("out.npy"), array, &desk.input).unwrap();
    other(&desk.input, "median 3", &wide, &["output_form", "[4, 2]", "[2, 4]"]);
    let longer = npy(&dictionary("<u2", "False", "(4, 2) "), &DATA);
    fs::write(desk.path("in.npy"), longer).unwrap();
    let changed = format::open(&desk.path("in.npy"), None).unwrap();
    other(&changed, "median 3", &target, &["input_bytes"]);
}

#[test]
fn two_runs_do_not_write_one_output() {
    let desk = Desk::new();
    let target = desk.target("out.npy");
    let first = desk.begin(&target, "copy", Start::Over).unwrap();
    for start in [Start::Over, Start::Resume] {
        let second = desk.begin(&target, "copy", start);
        demand(second, ErrorKind::InvalidValue, "out.npy.journal", &["another run"]);
    }
    drop(first);
    Journal::lock(&desk.path("out.npy.journal")).unwrap();
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
    fn the_order_of_the_chunks_leaves_no_mark(
        chunks in chunks(),
        stop in 0..8_usize,
        data in prop::collection::vec(any::<u8>(), 66),
        name in prop::sample::select(vec!["out.npy", "out.raw", "images"]),
    ) {
        let desk = Desk::new();
        let shape = if name == "images" { vec![11, 1, 3] } else { vec![11, 3] };
        let array = Array::new(Dtype::U16, shape).unwrap();
        let write = |out: &str, chunks: &[(u64, u64)], stop: usize| {
            let target = Target::new(&desk.path(out), array.clone(), &desk.input).unwrap();
            let mut output = desk.begin(&target, "copy", Start::Over).unwrap();
            for (n, &(start, end)) in chunks.iter().enumerate() {
                if n == stop {
                    drop(output);
                    output = desk.resume(&target);
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
