//! Arrays in streams: read once and written once, in order.

use crate::common::{demand, dictionary, npy};
use crate::whole;
use std::fs;
use trijet::testing::Prng;
use trijet::{ErrorKind, Sink, Source};
use trijet_io::{Array, Dtype, Fingerprint, Input, Output, Plain, Start, StreamOutput, Target};

fn array() -> Array {
    Array::new(Dtype::U16, vec![40, 3]).unwrap()
}

fn data() -> Vec<u8> {
    (0..240).collect()
}

fn opened() -> Input {
    Input::from_stream(std::io::Cursor::new(data()), Some(Plain::new(array()))).unwrap()
}

/// The reads of a run: each starts at the start of the read before it or later.
#[test]
fn rows_of_the_last_read_can_be_read_again() {
    for seed in 0..200 {
        let mut draw = Prng::new(seed);
        let input = opened();
        let (mut first, mut next) = (0, 0);
        while next < 40 {
            let start = first + draw.below(next - first + 1);
            let end = (start + 1 + draw.below(12)).min(40);
            let mut rows = vec![0; usize::try_from(end - start).unwrap() * 6];
            input.read(start..end, &mut rows).unwrap();
            let range = usize::try_from(start).unwrap() * 6..usize::try_from(end).unwrap() * 6;
            assert_eq!(rows, data()[range], "seed {seed}: {start}..{end} after {next}");
            (first, next) = (start, next.max(end));
        }
    }
}

#[test]
fn a_stream_is_read_forwards_only() {
    let input = opened();
    assert!(input.is_stream() && !input.is_parallel());
    input.read(4..10, &mut [0; 36]).unwrap();
    input.read(8..9, &mut [0; 6]).unwrap();
    let again = input.read(7..11, &mut [0; 24]);
    demand(again, ErrorKind::InvalidValue, "-", &["rows 7..11", "row 10 is next"]);
    // Rows may be left out.
    input.read(12..40, &mut [0; 168]).unwrap();
    demand(opened().slice(0..1), ErrorKind::InvalidValue, "-", &["a slice", "stream"]);
    demand(opened().swap_first_axes(), ErrorKind::InvalidValue, "-", &["exchanged axes", "stream"]);
}

/// The size in a header is not trusted: no memory is reserved for it.
#[test]
fn a_header_that_promises_too_much_is_an_error_at_the_read() {
    let huge = npy(&dictionary("<f8", "False", "(1099511627776, 2)"), &[7; 100]);
    let input = Input::from_stream(std::io::Cursor::new(huge), None).unwrap();
    input.read(0..6, &mut [0; 96]).unwrap();
    demand(input.read(6..8, &mut [0; 32]), ErrorKind::Io, "-", &["cut off"]);
    let mut long = b"\x93NUMPY\x02\x00".to_vec();
    long.extend(u32::MAX.to_le_bytes());
    let long = Input::from_stream(std::io::Cursor::new(long), None);
    demand(long, ErrorKind::InvalidValue, "-", &["the header has 4294967295 bytes"]);
    for version in [0, 4, 255] {
        let mut file = npy("", &[]);
        file[6] = version;
        let file = Input::from_stream(std::io::Cursor::new(file), None);
        demand(file, ErrorKind::InvalidValue, "-", &[&format!("version {version}.0")]);
    }
}

#[test]
fn a_run_that_reads_a_stream_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.npy");
    let open = |start| {
        let input = opened();
        let target = Target::new(&out, array(), &input).unwrap();
        let run = Fingerprint::new(&input, "copy", &target);
        assert!(!target.is_finished(&run).unwrap());
        (input, Output::open(&target, &run, start))
    };
    let mut first = open(Start::New).1.unwrap();
    first.write(0..1, &[0; 6]).unwrap();
    drop(first);
    for start in [Start::Resume, Start::ResumeUnverified] {
        demand(open(start).1, ErrorKind::InvalidValue, "out.npy", &["stream", "--restart"]);
    }
    let (input, output) = open(Start::Restart);
    let mut output = output.unwrap();
    output.write(0..40, &whole(&input)).unwrap();
    output.finish().unwrap();
    assert!(fs::read(&out).unwrap().ends_with(&data()));
    demand(open(Start::New).1, ErrorKind::InvalidValue, "out.npy", &["already exists"]);
}

#[test]
fn a_stream_is_written_in_order_and_whole() {
    let mut bytes = Vec::new();
    let mut output = StreamOutput::new(&mut bytes, array());
    output.write(0..10, &data()[..60]).unwrap();
    let gap = output.write(11..12, &[0; 6]);
    demand(gap, ErrorKind::InvalidValue, "", &["row 10 before 11"]);
    demand(output.finish(), ErrorKind::InvalidValue, "", &["10 of 40 rows"]);
    output.write(10..40, &data()[60..]).unwrap();
    output.finish().unwrap();
    assert_eq!(bytes, [array().npy_header(), data()].concat());
    let empty = Array::new(Dtype::U8, vec![0, 3]).unwrap();
    let mut bytes = Vec::new();
    StreamOutput::new(&mut bytes, empty.clone()).finish().unwrap();
    assert_eq!(bytes, empty.npy_header());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut output = StreamOutput::new(full, array()).headerless();
    demand(output.write(0..40, &data()), ErrorKind::Io, "-", &["no space left"]);
}
