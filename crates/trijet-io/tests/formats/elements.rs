//! Element types, byte orders and orders of elements: every caller reads little-endian rows in C
//! order.

use crate::common::{demand, dictionary, npy};
use crate::whole;
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trijet::testing::Prng;
use trijet::{ErrorKind, Sink, Source};
use trijet_io::{Array, ByteOrder, Dtype, Fingerprint, Input, Output, Plain, Start, Target};

/// A file that numpy has written, as `golden/npy.py` describes it.
struct Golden {
    type_name: &'static str,
    version: [u8; 2],
    text: String,
    data: Vec<u8>,
    plain: Vec<u8>,
}

fn of_hex(text: &str) -> Vec<u8> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty(), "{text}");
    let digits = |pair: &[u8; 2]| std::str::from_utf8(pair).unwrap().to_owned();
    pairs.iter().map(|pair| u8::from_str_radix(&digits(pair), 16).unwrap()).collect()
}

impl Golden {
    fn all() -> Vec<Self> {
        include_str!("golden/npy.txt").lines().map(Self::of).collect()
    }

    fn of(line: &'static str) -> Self {
        let columns: Vec<&'static str> = line.split('\t').collect();
        let [type_name, version, length, text, data, plain] = columns[..] else {
            panic!("six columns: {line}")
        };
        let (major, minor) = version.split_once('.').unwrap();
        let width = length.parse::<usize>().unwrap() - 1;
        Self {
            type_name,
            version: [major.parse().unwrap(), minor.parse().unwrap()],
            text: format!("{text:width$}\n"),
            data: of_hex(data),
            plain: of_hex(plain),
        }
    }

    fn file(&self) -> Vec<u8> {
        let mut file = b"\x93NUMPY".to_vec();
        file.extend(self.version);
        match self.version[0] {
            1 => file.extend(u16::try_from(self.text.len()).unwrap().to_le_bytes()),
            _ => file.extend(u32::try_from(self.text.len()).unwrap().to_le_bytes()),
        }
        file.extend(self.text.as_bytes());
        file.extend(&self.data);
        file
    }

    /// The type that the elements have when they are read.
    fn dtype(&self) -> Dtype {
        if self.type_name == "bool" { Dtype::U8 } else { self.type_name.parse().unwrap() }
    }

    fn is(&self, word: &str) -> bool {
        self.text.contains(word)
    }
}

fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn the_files_of_numpy_have_every_type_order_and_version() {
    let all = Golden::all();
    for dtype in Dtype::ALL {
        for order in ["'<", "'>"].into_iter().filter(|_| dtype.bytes() > 1) {
            for fortran in ["False", "True"] {
                for version in 1..=3 {
                    let found = all.iter().any(|one| {
                        let is_type = one.type_name == dtype.numpy_name();
                        is_type && one.is(order) && one.is(fortran) && one.version == [version, 0]
                    });
                    assert!(found, "{dtype} {order} {fortran} {version}");
                }
            }
        }
    }
}

#[test]
fn every_file_of_numpy_is_read_as_little_endian_rows_in_c_order() {
    let folder = tempfile::tempdir().unwrap();
    for golden in Golden::all() {
        let path = write(&folder, "a.npy", &golden.file());
        let input = Input::open(&path, None).unwrap();
        let array = Array::new(golden.dtype(), vec![2, 3]).unwrap();
        let name = format!("{} {:?} {}", golden.type_name, golden.version, golden.text);
        assert_eq!((input.array(), input.format().name()), (&array, "npy"), "{name}");
        assert_eq!(whole(&input), golden.plain, "{name}");
        if golden.is("False") {
            let stream = Input::from_stream(std::io::Cursor::new(golden.file()), None).unwrap();
            assert_eq!((stream.array(), stream.format().name()), (&array, "npy"), "{name}");
            assert_eq!(whole(&stream), golden.plain, "{name}");
        }
        let is_big = golden.is("'>");
        assert_eq!(input.byte_order() == ByteOrder::Big, is_big, "{name}");
        let input = input.as_stored();
        assert_eq!(input.byte_order() == ByteOrder::Big, is_big, "{name}");
        if golden.is("False") {
            assert_eq!(whole(&input), golden.data, "{name}");
        }
    }
}

#[test]
fn an_output_is_the_file_that_numpy_writes() {
    let folder = tempfile::tempdir().unwrap();
    let mut types = 0;
    for golden in Golden::all() {
        let is_written = golden.version == [1, 0] && golden.is("False") && !golden.is("'>");
        if !is_written || golden.type_name == "bool" {
            continue;
        }
        types += 1;
        let path = write(&folder, "in.npy", &golden.file());
        let input = Input::open(&path, None).unwrap();
        let out = folder.path().join("out.npy");
        copy(&input, &out);
        assert_eq!(fs::read(&out).unwrap(), golden.file(), "{}", golden.type_name);
        fs::remove_file(&out).unwrap();
    }
    // A type of one byte has the same file for both byte orders.
    assert_eq!(types, Dtype::ALL.len() + 2);
}

/// Writes the rows of `input` to a new output.
fn copy(input: &Input, out: &Path) {
    let target = Target::new(out, input.array().clone(), input).unwrap();
    let run = Fingerprint::new(input, "copy", &target);
    let mut output = Output::open(&target, &run, Start::New).unwrap();
    output.write(0..input.layout().rows, &whole(input)).unwrap();
    output.finish().unwrap();
}

#[test]
fn types_that_numpy_has_and_files_do_not_are_refused_with_a_line_of_python() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.npy");
    for (descr, line) in [
        ("<f16", "numpy.load('"),
        (">f16", ".astype('<f8'))"),
        ("<c32", ".astype('<c16'))"),
        ("longdouble", ".astype('<f8'))"),
    ] {
        for fortran in ["False", "True"] {
            fs::write(&path, npy(&dictionary(descr, fortran, "(2, 2)"), &[0; 128])).unwrap();
            let words = [descr, "float64", "complex128", line];
            demand(Input::open(&path, None), ErrorKind::InvalidValue, "odd.npy", &words);
        }
    }
    for (descr, words) in
        [("|V2", "'|V2'"), ("<V4", "'<V4'"), ("|O", "Python objects"), ("<U2", "'<U2'")]
    {
        fs::write(&path, npy(&dictionary(descr, "False", "(2, 2)"), &[0; 128])).unwrap();
        demand(Input::open(&path, None), ErrorKind::InvalidValue, "odd.npy", &[words]);
    }
    let fields = "{'descr': [('x', '<f4'), ('y', '<i8')], 'fortran_order': True, 'shape': (2,)}";
    fs::write(&path, npy(fields, &[0; 24])).unwrap();
    let words = ["several fields", "numpy.load('", "['FIELD']"];
    demand(Input::open(&path, None), ErrorKind::InvalidValue, "odd.npy", &words);
}

#[test]
fn raw_files_have_both_byte_orders_of_every_type() {
    let folder = tempfile::tempdir().unwrap();
    for golden in Golden::all() {
        if golden.is("True") || golden.version != [1, 0] {
            continue;
        }
        let array = Array::new(golden.dtype(), vec![2, 3]).unwrap();
        let plain = Plain::new(array).header(5);
        let plain = if golden.is("'>") { plain.big_endian() } else { plain };
        let path = write(&folder, "a.raw", &[&[9; 5], &golden.data[..]].concat());
        let input = Input::plain(&path, plain).unwrap();
        assert_eq!(whole(&input), golden.plain, "{}", golden.text);
        assert_eq!(whole(&input.as_stored()), golden.data, "{}", golden.text);
    }
}

#[test]
fn exchanged_axes_keep_the_byte_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "a.raw", &[0, 1, 0, 2, 0, 3, 0, 4]);
    let plain = Plain::new(Array::new(Dtype::U16, vec![2, 2, 1]).unwrap()).big_endian();
    let input = Input::plain(&path, plain).unwrap().swap_first_axes().unwrap();
    assert_eq!(whole(&input), [1, 0, 3, 0, 2, 0, 4, 0]);
    assert_eq!(input.byte_order(), ByteOrder::Big);
    assert_eq!(whole(&input.as_stored()), [0, 1, 0, 3, 0, 2, 0, 4]);
}

/// Otherwise a resumed run could mix rows of both orders.
#[test]
fn a_run_of_the_other_byte_order_is_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "a.raw", &[1, 2, 3, 4]);
    let plain = || Plain::new(Array::new(Dtype::U16, vec![2, 1]).unwrap());
    let output = |plain: Plain, start| {
        let input = Input::plain(&path, plain).unwrap();
        let out = folder.path().join("out.npy");
        let target = Target::new(&out, input.array().clone(), &input).unwrap();
        let run = Fingerprint::new(&input, "copy", &target);
        Output::open(&target, &run, start)
    };
    let mut first = output(plain(), Start::New).unwrap();
    first.write(0..1, &[1, 2]).unwrap();
    drop(first);
    let other = output(plain().big_endian(), Start::Resume);
    demand(other, ErrorKind::InvalidValue, "out.npy", &["input_form", "big-endian"]);
    assert_eq!(output(plain(), Start::Resume).unwrap().done().count(), 1);
}

/// The elements of a C-ordered array in Fortran order.
fn in_fortran_order(shape: &[u64], element: usize, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; data.len()];
    for (number, bytes) in data.chunks_exact(element).enumerate() {
        let (mut left, mut place, mut stride) = (number as u64, 0, 1);
        let mut indices = Vec::new();
        for axis in shape.iter().rev() {
            indices.push(left % axis);
            left /= axis;
        }
        for (axis, at) in shape.iter().zip(indices.into_iter().rev()) {
            place += at * stride;
            stride *= axis;
        }
        let place = usize::try_from(place).unwrap() * element;
        out[place..place + element].copy_from_slice(bytes);
    }
    out
}

/// Opens an array of random bytes in Fortran order. Returns its rows, too.
fn transposed(folder: &TempDir, dtype: Dtype, shape: &[u64], seed: u64) -> (Input, Vec<u8>) {
    let element = usize::try_from(dtype.bytes()).unwrap();
    let elements = usize::try_from(shape.iter().product::<u64>()).unwrap();
    let mut draw = Prng::new(seed);
    let plain: Vec<u8> =
        (0..elements * element).map(|_| draw.next_u64().to_le_bytes()[3]).collect();
    let axes: String = shape.iter().map(|axis| format!("{axis},")).collect();
    let descr = format!("<{}", dtype.numpy_code());
    let header = dictionary(&descr, "True", &format!("({axes})"));
    let path = write(folder, "f.npy", &npy(&header, &in_fortran_order(shape, element, &plain)));
    (Input::open(&path, None).unwrap(), plain)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn fortran_order_of_any_shape_is_read_in_chunks_of_any_size(
        shape in prop::collection::vec(1..9_u64, 1..6),
        dtype in 0..Dtype::ALL.len(),
        cuts in prop::collection::vec(any::<u64>(), 0..5),
        seed in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (input, plain) = transposed(&folder, Dtype::ALL[dtype], &shape, seed);
        let layout = input.layout();
        let mut cuts: Vec<u64> = cuts.into_iter().map(|cut| cut % (layout.rows + 1)).collect();
        cuts.extend([0, layout.rows]);
        cuts.sort_unstable();
        let mut read = Vec::new();
        for pair in cuts.windows(2) {
            let mut part = vec![0; usize::try_from((pair[1] - pair[0]) * layout.row_bytes).unwrap()];
            input.read(pair[0]..pair[1], &mut part).unwrap();
            read.extend(part);
        }
        assert_eq!(read, plain, "{shape:?}");
    }
}

/// Each shape needs another way to divide a read into pieces: long and short first axes, wide gaps,
/// and rows that are longer than a tile.
#[test]
fn fortran_order_of_long_axes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (dtype, shape)) in [
        (Dtype::U8, &[70_000, 3][..]),
        (Dtype::U16, &[3, 70_000]),
        (Dtype::C128, &[1500, 100]),
        (Dtype::U16, &[40, 50, 60]),
        (Dtype::U8, &[5000, 7, 9]),
        (Dtype::F64, &[2, 3, 5, 7, 90]),
        (Dtype::F32, &[1, 300, 1, 200]),
        (Dtype::I16, &[300, 200, 1]),
    ]
    .into_iter()
    .enumerate()
    {
        let (input, plain) = transposed(&folder, dtype, shape, number as u64);
        assert!(whole(&input) == plain, "{dtype} {shape:?}");
        let layout = input.layout();
        let row_bytes = usize::try_from(layout.row_bytes).unwrap();
        for rows in [0..1, layout.rows / 3..layout.rows / 2, layout.rows - 1..layout.rows] {
            let range = usize::try_from(rows.start).unwrap() * row_bytes
                ..usize::try_from(rows.end).unwrap() * row_bytes;
            let mut part = vec![0; range.len()];
            input.read(rows.clone(), &mut part).unwrap();
            assert!(part == plain[range], "{dtype} {shape:?} {rows:?}");
        }
    }
}

#[test]
fn a_file_in_fortran_order_that_shrinks_is_an_error_at_the_read() {
    let folder = tempfile::tempdir().unwrap();
    let (input, plain) = transposed(&folder, Dtype::U16, &[30, 40], 1);
    let length = fs::metadata(input.path()).unwrap().len();
    fs::File::options().write(true).open(input.path()).unwrap().set_len(length - 1).unwrap();
    let read = input.read(0..30, &mut vec![0; plain.len()]);
    demand(read, ErrorKind::Io, "f.npy", &["read", "ends early"]);
    input.read(0..0, &mut []).unwrap();
}
