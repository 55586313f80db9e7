//! Inputs: every format is read byte by byte, and every bad input is refused with a message.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

#[path = "../common/mod.rs"]
mod common;
mod elements;
mod streams;

use common::{GRAY8, GRAY16, demand, dictionary, npy, png};
use png::{BitDepth, ColorType};
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use trijet::{ErrorKind, Source};
use trijet_io::{Array, Dtype, Input, Plain};

struct Workdir(TempDir);

impl Workdir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn folder(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    }
}

fn whole(input: &Input) -> Vec<u8> {
    let layout = input.layout();
    let mut bytes = vec![0; usize::try_from(layout.bytes().unwrap()).unwrap()];
    input.read(0..layout.rows, &mut bytes).unwrap();
    bytes
}

#[test]
fn npy_of_every_dtype_and_version_is_read() {
    let workdir = Workdir::new();
    let data: Vec<u8> = (0..24).collect();
    for (descr, dtype, shape, image) in [
        ("|u1", Dtype::U8, "(2, 3, 4)", Some((4, 3, 2))),
        ("<u2", Dtype::U16, "(3, 4)", Some((4, 3, 1))),
        ("<f4", Dtype::F32, "(6,)", None),
        ("<f4", Dtype::F32, "(3L, 1L, 2L, 1L)", None),
    ] {
        let input = Input::open(
            &workdir.file("a.npy", &npy(&dictionary(descr, "False", shape), &data)),
            None,
        )
        .unwrap();
        assert_eq!((input.array().dtype(), input.format().name()), (dtype, "npy"));
        assert_eq!(input.array().image(), image);
        assert_eq!(input.layout().bytes().unwrap(), 24);
        assert_eq!(whole(&input), data, "{descr} {shape}");
    }
    for version in [2, 3] {
        // Keys in another order, double quotes, and a length of 32 bits.
        let text = "{\"shape\":(24,),\"descr\":\"|u1\",\"fortran_order\":False}";
        let mut file = b"\x93NUMPY".to_vec();
        file.extend([version, 0]);
        file.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        file.extend(text.as_bytes());
        file.extend(&data);
        assert_eq!(whole(&Input::open(&workdir.file("b.NPY", &file), None).unwrap()), data);
    }
}

/// Once, only the names that numpy itself writes were read, and the message called '=u2'
/// unsupported and u16 supported.
#[test]
fn every_name_that_numpy_has_for_a_type_is_read() {
    let workdir = Workdir::new();
    let data: Vec<u8> = (0..24).collect();
    for (descr, dtype) in [
        ("=u2", Dtype::U16),
        ("|u2", Dtype::U16),
        ("u2", Dtype::U16),
        ("H", Dtype::U16),
        ("uint16", Dtype::U16),
        ("=f4", Dtype::F32),
        ("float32", Dtype::F32),
        ("uint8", Dtype::U8),
        ("=u1", Dtype::U8),
    ] {
        let shape = format!("({},)", 24 / dtype.bytes());
        let file = npy(&dictionary(descr, "False", &shape), &data);
        let input = Input::open(&workdir.file("a.npy", &file), None).unwrap();
        assert_eq!((input.array().dtype(), whole(&input)), (dtype, data.clone()), "{descr}");
    }
}

#[test]
fn fortran_order_of_one_axis_is_c_order() {
    let workdir = Workdir::new();
    let data: Vec<u8> = (0..24).collect();
    for shape in ["(24,)", "(1, 24)", "(1, 24, 1)"] {
        let file = npy(&dictionary("|u1", "True", shape), &data);
        let input = Input::open(&workdir.file("a.npy", &file), None).unwrap();
        assert_eq!(whole(&input), data, "{shape}");
    }
    let empty = npy(&dictionary("|u1", "True", "(4, 0, 6)"), &[]);
    assert!(whole(&Input::open(&workdir.file("a.npy", &empty), None).unwrap()).is_empty());
}

#[test]
fn a_stack_has_the_rows_of_all_its_images() {
    let workdir = Workdir::new();
    let header = dictionary("<u2", "False", "(2, 3, 4)");
    let input = Input::open(&workdir.file("a.npy", &npy(&header, &[7; 48])), None).unwrap();
    let layout = input.layout();
    assert_eq!((layout.rows, layout.row_bytes, layout.granule), (6, 8, 1));
    let layout = input.cut_at(3).layout();
    assert_eq!((layout.rows, layout.row_bytes, layout.granule), (6, 8, 3));
}

#[test]
fn an_array_without_elements_has_no_rows() {
    let workdir = Workdir::new();
    for shape in ["(0,)", "(0, 4)", "(4, 0)", "(18446744073709551615, 18446744073709551615, 0)"] {
        let header = dictionary("<u2", "False", shape);
        let input = Input::open(&workdir.file("empty.npy", &npy(&header, &[])), None).unwrap();
        assert_eq!(input.layout().rows, 0, "{shape}");
        assert!(input.layout().row_bytes >= 2, "{shape}");
        input.read(0..0, &mut []).unwrap();
    }
}

#[test]
fn a_damaged_npy_file_is_refused() {
    let workdir = Workdir::new();
    let good = npy(&dictionary("<u2", "False", "(3,)"), &[0; 6]);
    let damaged = |bytes: &[u8], words: &[&str]| {
        demand(Input::open(&workdir.file("bad.npy", bytes), None), ErrorKind::Io, "bad.npy", words);
    };
    damaged(b"", &["magic"]);
    damaged(b"\x93NUMPZ\x01\x00", &["magic"]);
    damaged(&good[..7], &["header is cut off"]);
    damaged(&good[..9], &["header is cut off"]);
    damaged(&good[..30], &["header is cut off"]);
    damaged(&good[..good.len() - 1], &["cut off", "6 bytes", "found 5"]);
    damaged(&[good.as_slice(), &[0]].concat(), &["longer than the header states", "found 7"]);
    for text in [
        "",
        "{",
        "{'descr'}",
        "{'descr': '<u2, }",
        "{'descr': '<u2'}",
        "{'descr': '<u2', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (3 4)}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (3,)} x",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "((((((((((((((((((((((((((((((((",
    ] {
        damaged(&npy(text, &[0; 6]), &["header cannot be parsed"]);
    }
    let mut huge = b"\x93NUMPY\x02\x00".to_vec();
    huge.extend(u32::MAX.to_le_bytes());
    damaged(&huge, &["header is cut off"]);
}

#[test]
fn an_unsupported_npy_file_is_refused_with_the_reason() {
    let workdir = Workdir::new();
    for (descr, fortran, shape, words) in [
        ("|O", "False", "(3,)", ["objects", "'|O'"]),
        ("<M8[s]", "False", "(3,)", ["'<M8[s]'", "supported are bool, integers"]),
        ("2u2", "False", "(3,)", ["'2u2'", "supported are"]),
        ("<u2", "False", "()", ["no axes", ""]),
        ("<u2", "False", "(4294967296, 4294967296)", ["overflows", "4294967296"]),
        ("|u1", "False", "(9223372036854775807,)", ["overflows", ""]),
    ] {
        let path = workdir.file("odd.npy", &npy(&dictionary(descr, fortran, shape), &[0; 6]));
        demand(Input::open(&path, None), ErrorKind::InvalidValue, "odd.npy", &words);
    }
    let mut new = npy("", &[]);
    new[6] = 9;
    let path = workdir.file("new.npy", &new);
    demand(Input::open(&path, None), ErrorKind::InvalidValue, "new.npy", &["version 9.0"]);
    let many = format!("({})", "1, ".repeat(65));
    let path = workdir.file("many.npy", &npy(&dictionary("|u1", "False", &many), &[0]));
    demand(Input::open(&path, None), ErrorKind::InvalidValue, "many.npy", &["65 axes"]);
}

#[test]
fn a_file_that_shrinks_after_it_was_opened_is_an_error_at_the_read() {
    let workdir = Workdir::new();
    let path = workdir.file("a.npy", &npy(&dictionary("<u2", "False", "(3,)"), &[0; 6]));
    let input = Input::open(&path, None).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(70).unwrap();
    demand(input.read(0..3, &mut [0; 6]), ErrorKind::Io, "a.npy", &["read", "ends early"]);
}

#[test]
fn a_raw_file_needs_its_array_and_exactly_its_size() {
    let workdir = Workdir::new();
    let path = workdir.file("scan.raw", &[1, 2, 3, 4, 5, 6]);
    let array = |shape: &[u64]| Some(Array::new(Dtype::U16, shape.to_vec()).unwrap());
    let input = Input::open(&path, array(&[3, 1])).unwrap();
    assert_eq!((input.format().name(), whole(&input)), ("raw", vec![1, 2, 3, 4, 5, 6]));
    let refused = |raw, words: &[&str]| {
        demand(Input::open(&path, raw), ErrorKind::InvalidValue, "scan.raw", words);
    };
    refused(None, &["--shape", "--dtype"]);
    refused(array(&[4]), &["8 bytes", "has 6"]);
    refused(array(&[2]), &["4 bytes", "has 6", "--header 2 skips it"]);
    let path = workdir.file("a.npy", &npy(&dictionary("|u1", "False", "(1,)"), &[0]));
    let both = Input::open(&path, array(&[1]));
    demand(both, ErrorKind::InvalidValue, "a.npy", &["remove --shape and --dtype"]);
}

#[test]
fn a_header_of_a_raw_file_is_skipped_and_the_rest_has_exactly_its_size() {
    let workdir = Workdir::new();
    let path = workdir.file("scan.raw", &[9, 9, 9, 1, 2, 3, 4]);
    let plain = |header| Plain::new(Array::new(Dtype::U16, vec![2, 1]).unwrap()).header(header);
    let input = Input::plain(&path, plain(3)).unwrap();
    assert_eq!(whole(&input), [1, 2, 3, 4]);
    let refused = |header, words: &[&str]| {
        let input = Input::plain(&path, plain(header));
        demand(input, ErrorKind::InvalidValue, "scan.raw", words);
    };
    refused(0, &["needs 4 bytes", "has 7", "--header 3 skips it"]);
    refused(1, &["after a header of 1", "--header 3 skips it"]);
    refused(4, &["needs 4 bytes after a header of 4", "has 7"]);
    refused(u64::MAX, &["needs 4 bytes after a header of"]);
}

#[test]
fn a_slice_has_the_rows_of_its_indices() {
    let workdir = Workdir::new();
    let file = npy(&dictionary("|u1", "False", "(4, 3, 2)"), &[7; 24]);
    let open = || Input::open(&workdir.file("a.npy", &file), None).unwrap();
    let part = open().slice(1..3).unwrap();
    assert_eq!((part.array().shape(), part.part().shape()), (&[4, 3, 2][..], &[2, 3, 2][..]));
    assert_eq!(part.layout().rows, 12, "the rows around a slice can be read");
    assert_eq!(open().slice(0..4).unwrap().part().shape(), [4, 3, 2]);
    for wrong in [(0, 5), (4, 5), (2, 2), (5, 4)] {
        let wrong = open().slice(wrong.0..wrong.1);
        demand(wrong, ErrorKind::InvalidValue, "a.npy", &["is not a part of"]);
    }
}

#[test]
fn what_a_folder_has_beside_its_stack_is_named() {
    let workdir = Workdir::new();
    let folder = workdir.folder("stack");
    let names = ["s1.png", "s2.png", "s4.png"];
    for name in names {
        png(&folder.join(name), [2, 2], GRAY8, &[0; 4]);
    }
    for name in ["s5.gif", "s6.JPG", "notes.txt", ".s7.tif"] {
        fs::write(folder.join(name), "").unwrap();
    }
    let left_out = || Input::open(&folder, None).unwrap().left_out().join("; ");
    let files = "images of other formats (s5.gif, s6.JPG); images whose numbers are missing in the sequence (s3.png)";
    assert_eq!(left_out(), files);
    let chunk = |kind: &[u8; 4], data: &[u8]| {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        let checksum = crc(&[kind, data].concat()).to_be_bytes();
        [&length[..], kind, data, &checksum].concat()
    };
    for (name, chunks) in [
        ("s1.png", vec![chunk(b"pHYs", &[0; 9]), chunk(b"tEXt", b"a\0b")]),
        ("s2.png", vec![chunk(b"acTL", &[0, 0, 0, 2, 0, 0, 0, 0]), chunk(b"tRNS", &[0, 1])]),
    ] {
        let file = fs::read(folder.join(name)).unwrap();
        // The signature and IHDR have 33 bytes.
        fs::write(folder.join(name), [&file[..33], &chunks.concat(), &file[33..]].concat())
            .unwrap();
    }
    let rest = "; all frames but one of 1 animation; the PNG chunks pHYs, tEXt, tRNS of 2 images";
    assert_eq!(left_out(), format!("{files}{rest}"));
}

/// The checksum of a chunk of PNG, over its kind and its data.
fn crc(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        let bit = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
        (0..8).fold(sum ^ u32::from(*byte), bit)
    };
    !bytes.iter().fold(u32::MAX, step)
}

/// Such files were once read as headerless bytes.
#[test]
fn a_file_that_promises_another_format_is_raw_only_if_the_user_says_so() {
    let workdir = Workdir::new();
    let array = || Array::new(Dtype::U8, vec![32]).unwrap();
    let check = |name: &str, start: &[u8], words: &[&str]| {
        let mut bytes = start.to_vec();
        bytes.resize(32, 7);
        let path = workdir.file(name, &bytes);
        for described in [None, Some(array())] {
            demand(Input::open(&path, described), ErrorKind::InvalidValue, name, words);
        }
        let plain = Plain::new(array()).any_name();
        assert_eq!(whole(&Input::plain(&path, plain).unwrap()), bytes, "{name}");
    };
    for (name, format) in [
        ("a.svs", "TIFF"),
        ("a.NDPI", "TIFF"),
        ("a.jpg", "JPEG"),
        ("a.nc", "NetCDF"),
        ("a.exr", "OpenEXR"),
        ("a.mat", "MATLAB"),
        ("a.bin.gz", "gzip"),
        ("a.hdr", "NIfTI or Analyze"),
        ("a.eer", "EER"),
        ("a.csv", "text"),
        ("a.png", "folder"),
    ] {
        check(name, b"", &[format]);
    }
    for (start, format) in [
        (&b"PK\x03\x04"[..], "ZIP"),
        (b"\xff\xd8\xff\xe0", "JPEG"),
        (b"\x89PNG\r\n\x1a\n", "folder"),
        (b"SIMPLE  =", "FITS"),
    ] {
        check("scan.raw", start, &[format]);
    }
    check("a.svs", b"", &["the name has the extension of TIFF files", "tifffile.imread("]);
    check("scan.raw", b"\xff\xd8\xff", &["starts like JPEG files", "imageio.v3.imread("]);
    check("a.czi", b"", &["the name has the extension of microscope files", "bioio.BioImage("]);
    // Any extension except the extensions of plain bytes.
    for name in ["a.vol", "a.am", "a.v2", "a.npy.partial", "scan_v1.0"] {
        check(name, b"", &["unknown extension", "--raw"]);
    }
    let folder = workdir.folder("a.n5");
    demand(Input::open(&folder, None), ErrorKind::InvalidValue, "a.n5", &["N5", "zarr.n5"]);
    demand(Input::open("-".as_ref(), None), ErrorKind::InvalidValue, "-", &["standard input"]);
    let raw = Input::plain("-".as_ref(), Plain::new(array()).any_name());
    demand(raw, ErrorKind::InvalidValue, "-", &["standard input"]);
}

#[test]
fn an_npy_file_of_another_name_is_recognized_by_its_first_bytes() {
    let workdir = Workdir::new();
    let path = workdir.file("a.dat", &npy(&dictionary("|u1", "False", "(2,)"), &[4, 5]));
    let input = Input::open(&path, None).unwrap();
    assert_eq!((input.format().name(), whole(&input)), ("npy", vec![4, 5]));
}

#[test]
fn a_path_that_is_not_a_file_is_refused() {
    let workdir = Workdir::new();
    let missing = workdir.0.path().join("missing.npy");
    demand(Input::open(&missing, None), ErrorKind::Io, "missing.npy", &["no such file"]);
    let folder = workdir.folder("folder.npy");
    demand(Input::open(&folder, None), ErrorKind::InvalidValue, "folder.npy", &["no .png file"]);
    let raw = Some(Array::new(Dtype::U8, vec![1]).unwrap());
    let device = Input::open("/dev/zero".as_ref(), raw);
    demand(device, ErrorKind::InvalidValue, "/dev/zero", &["not a regular file"]);
}

#[test]
fn a_folder_of_images_is_a_stack_in_the_order_of_the_names() {
    let workdir = Workdir::new();
    let folder = workdir.folder("stack");
    fs::write(folder.join("notes.txt"), "no image").unwrap();
    png(&folder.join("b.png"), [3, 2], GRAY16, &[0, 7, 0, 8, 0, 9, 1, 0, 1, 1, 1, 2]);
    png(&folder.join("a.png"), [3, 2], GRAY16, &[0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6]);
    let input = Input::open(&folder, None).unwrap();
    assert_eq!(input.format().name(), "png");
    assert_eq!(input.names(), ["a.png", "b.png"]);
    assert_eq!(input.array(), &Array::new(Dtype::U16, vec![2, 2, 3]).unwrap());
    assert_eq!(input.layout().granule, 2);
    let little: Vec<u8> = (1_u16..=9).chain(256..=258).flat_map(u16::to_le_bytes).collect();
    assert_eq!(whole(&input), little);
    let mut second = [0; 12];
    input.read(2..4, &mut second).unwrap();
    assert_eq!(second, little[12..]);
    input.read(4..4, &mut []).unwrap();
}

/// They once came in the order im1, im10, im2, and hidden files were read.
#[test]
fn images_are_in_natural_order_without_hidden_files() {
    let workdir = Workdir::new();
    let folder = workdir.folder("stack");
    for (name, pixel) in [("im10.png", 10), ("im2.PNG", 2), ("im1.png", 1), ("im09.png", 9)] {
        png(&folder.join(name), [1, 1], GRAY8, &[pixel]);
    }
    fs::write(folder.join("._im1.png"), "no image").unwrap();
    fs::write(folder.join(".png"), "no image").unwrap();
    let input = Input::open(&folder, None).unwrap();
    assert_eq!(input.names(), ["im1.png", "im2.PNG", "im09.png", "im10.png"]);
    assert_eq!(whole(&input), [1, 2, 9, 10]);
}

#[test]
#[should_panic(expected = "whole images")]
fn half_an_image_is_a_programming_error() {
    let workdir = Workdir::new();
    let folder = workdir.folder("stack");
    png(&folder.join("a.png"), [1, 2], GRAY8, &[1, 2]);
    let input = Input::open(&folder, None).unwrap();
    assert!(input.read(0..1, &mut [0]).is_err(), "unreachable");
}

#[test]
fn unsupported_images_are_refused_by_name() {
    let workdir = Workdir::new();
    let colours = [
        (ColorType::Rgb, BitDepth::Eight, vec![0; 3], "colour"),
        (ColorType::Rgba, BitDepth::Eight, vec![0; 4], "colour"),
        (ColorType::GrayscaleAlpha, BitDepth::Eight, vec![0; 2], "transparency"),
        (ColorType::Indexed, BitDepth::Eight, vec![0; 1], "palette"),
        (ColorType::Grayscale, BitDepth::One, vec![0; 1], "1 bits"),
        (ColorType::Grayscale, BitDepth::Four, vec![0; 1], "4 bits"),
    ];
    for (n, (colour, depth, pixels, words)) in colours.into_iter().enumerate() {
        let folder = workdir.folder(&n.to_string());
        png(&folder.join("x.png"), [1, 1], (colour, depth), &pixels);
        demand(Input::open(&folder, None), ErrorKind::InvalidValue, "x.png", &[words]);
    }
    let folder = workdir.folder("sizes");
    png(&folder.join("a.png"), [2, 1], GRAY8, &[0; 2]);
    png(&folder.join("b.png"), [1, 2], GRAY8, &[0; 2]);
    let sizes = ["a.png", "2x1", "1x2"];
    demand(Input::open(&folder, None), ErrorKind::InvalidValue, "b.png", &sizes);
    let folder = workdir.folder("depths");
    png(&folder.join("a.png"), [2, 1], GRAY8, &[0; 2]);
    png(&folder.join("b.png"), [2, 1], GRAY16, &[0; 4]);
    let depths = ["a.png", "u8", "u16"];
    demand(Input::open(&folder, None), ErrorKind::InvalidValue, "b.png", &depths);
}

#[test]
fn a_damaged_image_is_found_at_open_or_at_the_read() {
    let workdir = Workdir::new();
    let folder = workdir.folder("stack");
    let (a, b) = (folder.join("a.png"), folder.join("b.png"));
    png(&a, [4, 4], GRAY8, &[9; 16]);
    png(&b, [4, 4], GRAY8, &[7; 16]);
    let good = fs::read(&b).unwrap();
    fs::write(&b, &good[..20]).unwrap();
    demand(Input::open(&folder, None), ErrorKind::Io, "b.png", &["open"]);
    fs::write(&b, b"GIF89a, surely not a PNG file").unwrap();
    demand(Input::open(&folder, None), ErrorKind::Io, "b.png", &["damaged PNG"]);
    fs::remove_file(&b).unwrap();
    fs::create_dir(&b).unwrap();
    demand(Input::open(&folder, None), ErrorKind::InvalidValue, "b.png", &["is a folder"]);
    fs::remove_dir(&b).unwrap();
    // Signature 8, IHDR 25, then the data and 12 bytes of IEND.
    for length in [45, good.len() - 14, good.len() - 12, good.len() - 5, good.len() - 4] {
        fs::write(&b, &good[..length]).unwrap();
        let input = Input::open(&folder, None).unwrap();
        let mut rows = [0; 32];
        demand(input.read(0..8, &mut rows), ErrorKind::Io, "b.png", &["read"]);
        input.read(0..4, &mut rows[..16]).expect("the first image is whole");
        assert_eq!(rows[..16], [9; 16]);
    }
    let mut flipped = good.clone();
    flipped[45] ^= 0x40;
    fs::write(&b, &flipped).unwrap();
    let input = Input::open(&folder, None).unwrap();
    demand(input.read(4..8, &mut [0; 16]), ErrorKind::Io, "b.png", &["damaged PNG"]);
    png(&b, [2, 8], GRAY8, &[7; 16]);
    demand(input.read(4..8, &mut [0; 16]), ErrorKind::Io, "b.png", &["changed"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chunks_of_any_size_read_the_same_bytes(
        data in prop::collection::vec(any::<u8>(), 0..300),
        columns in 1..7_usize,
        cuts in prop::collection::vec(0..40_u64, 0..6),
    ) {
        let workdir = Workdir::new();
        let rows = data.len() / (2 * columns);
        let data = &data[..rows * 2 * columns];
        let header = dictionary("<u2", "False", &format!("({rows}, {columns})"));
        let input = Input::open(&workdir.file("a.npy", &npy(&header, data)), None).unwrap();
        let layout = input.layout();
        assert_eq!(layout.rows, rows as u64);
        let mut cuts: Vec<u64> = cuts.into_iter().filter(|&cut| cut < layout.rows).collect();
        cuts.extend([0, layout.rows]);
        cuts.sort_unstable();
        let mut read = Vec::new();
        for pair in cuts.windows(2) {
            let mut chunk = vec![0; usize::try_from((pair[1] - pair[0]) * layout.row_bytes).unwrap()];
            input.read(pair[0]..pair[1], &mut chunk).unwrap();
            read.extend(chunk);
        }
        assert_eq!(read, data);
    }

    #[test]
    fn no_header_makes_the_parser_panic(
        text in "[{}(),:'0-9a-z <|_FTL]{0,60}",
        cut in 0..80_usize,
    ) {
        let workdir = Workdir::new();
        let mut file = npy(&text, &[]);
        file.truncate(cut.max(8));
        let opened = Input::open(&workdir.file("a.npy", &file), None);
        assert!(opened.is_err(), "{text}");
    }
}

#[test]
fn threads_read_one_input_at_once() {
    let workdir = Workdir::new();
    let data: Vec<u8> = (0..=255).cycle().take(64 * 64).collect();
    let header = dictionary("|u1", "False", "(64, 64)");
    let input = Input::open(&workdir.file("a.npy", &npy(&header, &data)), None).unwrap();
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (input, data) = (&input, &data);
            scope.spawn(move || {
                for row in (first..64).step_by(4) {
                    let mut bytes = [0; 64];
                    input.read(row..row + 1, &mut bytes).unwrap();
                    let start = usize::try_from(row).unwrap() * 64;
                    assert_eq!(bytes, data[start..start + 64]);
                }
            });
        }
    });
}

#[test]
fn a_path_inside_a_file_with_one_array_is_refused() {
    let workdir = Workdir::new();
    let path = workdir.file("a.npy", &npy(&dictionary("|u1", "False", "(1,)"), &[7]));
    let inner = path.with_file_name("a.npy::/raw");
    demand(Input::open(&inner, None), ErrorKind::InvalidValue, "a.npy", &["remove ::/raw"]);
}
