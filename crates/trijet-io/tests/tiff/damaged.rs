//! Damaged files: every field may have any value.

use super::demand::demand;
use super::{file, golden, tags, whole};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use trijet::{ErrorKind, Source};
use trijet_io::Input;

/// The largest array that is read. Larger ones are only opened.
const READ_BYTES_MAX: u64 = 1 << 16;

/// Writes a file. An existing file is deleted first, because some file systems bring a file to the
/// disk that is cut and written again.
fn write(path: &Path, bytes: &[u8]) {
    if path.exists() {
        fs::remove_file(path).unwrap();
    }
    fs::write(path, bytes).unwrap();
}

/// Opens a file, and reads its array if the array is small. An error must name the file.
fn open(path: &Path) {
    let outcome = Input::open(path, None).and_then(|input| {
        if input.array().bytes() > READ_BYTES_MAX {
            return Ok(());
        }
        let layout = input.layout();
        let mut bytes = vec![0; usize::try_from(input.array().bytes()).unwrap()];
        input.read(0..layout.rows, &mut bytes)
    });
    if let Err(error) = outcome {
        assert!(error.to_string().contains("a.tif"), "{error}");
        assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::InvalidValue), "{error}");
    }
}

#[test]
fn every_byte_of_a_file_may_have_any_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    for name in ["stack", "big-bigtiff-lzw", "colours-tiles", "imagej", "ome", "not-contiguous"] {
        let sound = fs::read(golden(&format!("{name}.tif"))).unwrap();
        write(&path, &sound);
        let file = fs::File::options().write(true).open(&path).unwrap();
        for (at, byte) in (0..).zip(&sound) {
            for value in [0, 0xff, byte.wrapping_add(1)] {
                file.write_all_at(&[value], at).unwrap();
                open(&path);
            }
            file.write_all_at(&[*byte], at).unwrap();
        }
    }
}

#[test]
fn a_file_that_is_cut_anywhere_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    for name in ["stack", "lzw", "little-bigtiff", "imagej-one-directory"] {
        let sound = fs::read(golden(&format!("{name}.tif"))).unwrap();
        let expected = whole(&Input::open(&golden(&format!("{name}.tif")), None).unwrap());
        for length in 0..sound.len() {
            write(&path, &sound[..length]);
            // The last bytes may be padding.
            match Input::open(&path, None) {
                Ok(input) => assert_eq!(whole(&input), expected, "{name}: {length} bytes"),
                Err(error) => assert!(error.to_string().contains("a.tif"), "{error}"),
            }
        }
    }
}

#[test]
fn hostile_numbers_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    let all = u32::MAX;
    for (changes, description, words) in [
        (&[(256, 0)][..], "", &["0 pixels"][..]),
        (&[(257, all)], "", &["1 places for 2147483648 x 1 parts"]),
        (&[(256, all), (257, all), (278, all)], "", &["more bytes than the memory"]),
        (&[(256, all), (257, all), (278, 1)], "", &["1 places"]),
        (&[(278, 0)], "", &["parts of 0"]),
        (&[(278, 1)], "", &["states 1 places for 2 x 1 parts"]),
        (&[(273, all)], "", &["cut off or damaged"]),
        (&[(279, 5)], "", &["cut off or damaged"]),
        (&[(277, 0)], "", &["0 samples"]),
        (&[(259, 8), (279, all)], "", &["cut off or damaged"]),
        (&[(259, 8), (257, all), (278, all)], "", &["cut off or damaged"]),
        (&[(322, 0), (323, 16), (324, 2000), (325, 256)], "", &["parts of 16 x 0"]),
        (&[(322, all), (323, all), (324, 2000), (325, 6)], "", &["more bytes than the memory"]),
        (&[(322, 1 << 16), (323, 1 << 16), (324, 2000), (325, 6)], "", &["cut off or damaged"]),
        (&[], "ImageJ=1.5\nimages=9\nslices=9\n", &["states 9 images", "1 page"]),
        (&[], "ImageJ=1.5\nimages=18446744073709551615\n", &["cut off or damaged"]),
        (&[], "ImageJ=1.5\nimages=99999999999999999999999\n", &["images=9999"]),
        (&[], "ImageJ=1.5\nimages=3\nslices=2\n", &["images=3"]),
        (&[], "ImageJ=1.5\nframes=-1\n", &["frames=-1"]),
        (&[], "{\"shape\": [9, 2, 3]}", &["states 9 images", "1 page"]),
        (&[], "{\"shape\": [2, 2]}", &["the shape [2, 2]"]),
        (&[], "{\"shape\": [18446744073709551615, 18446744073709551615]}", &["the shape"]),
    ] {
        let bytes = [file(&tags(changes), description), vec![1; 12]].concat();
        write(&path, &bytes);
        let error = Input::open(&path, None).expect_err(&format!("{changes:?} {description}"));
        for word in words {
            assert!(error.to_string().contains(word), "{changes:?} {description}: {error}");
        }
    }
}

#[test]
fn a_chain_that_returns_to_a_page_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    let mut bytes = [file(&tags(&[]), ""), vec![1; 6]].concat();
    let next = 8 + 2 + 12 * tags(&[]).len();
    bytes[next..next + 4].copy_from_slice(&8_u32.to_le_bytes());
    write(&path, &bytes);
    demand(Input::open(&path, None), ErrorKind::Io, "a.tif", &["returns to the page at byte 8"]);
}

#[test]
fn elements_of_ome_xml_may_be_nested_in_any_depth() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    let depth = 100_000;
    let xml = format!("<OME>{}{}</OME>", "<a>".repeat(depth), "</a>".repeat(depth));
    let mut bytes = [file(&tags(&[]), &xml)].concat();
    // The pixels are at the end, after the long text.
    let at = u32::try_from(bytes.len()).unwrap();
    bytes = file(&tags(&[(273, at)]), &xml);
    bytes.extend([1; 6]);
    write(&path, &bytes);
    let input = Input::open(&path, None).unwrap();
    assert_eq!((input.array().shape(), whole(&input)), (&[2, 3][..], vec![1; 6]));
    assert_eq!(input.left_out(), ["the OME-XML, which does not describe the pages"]);
}

#[test]
fn parts_that_are_not_stored_are_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    for codec in [1, 8] {
        let bytes = file(&tags(&[(259, codec), (273, 0), (279, 0)]), "");
        write(&path, &bytes);
        assert_eq!(whole(&Input::open(&path, None).unwrap()), [0; 6]);
    }
}

#[test]
fn pages_that_name_one_list_of_places_take_no_memory_for_each() {
    // Pages of 1 x 3000 pixels, whose strips have one row of one list.
    let rows: u32 = 3000;
    let pages: u32 = 200;
    let at = 8 + pages * (2 + 12 * 6 + 4);
    let mut bytes = b"II*\0\x08\0\0\0".to_vec();
    for page in 0..pages {
        bytes.extend(6_u16.to_le_bytes());
        let list = (4_u16, rows, at);
        let tags = [
            (256_u16, (4_u16, 1, 1)),
            (257, (4, 1, rows)),
            (258, (4, 1, 8)),
            (273, list),
            (278, (4, 1, 1)),
            (279, (4, rows, at + 4 * rows)),
        ];
        for (tag, (kind, count, value)) in tags {
            bytes.extend([&tag.to_le_bytes()[..], &kind.to_le_bytes()].concat());
            bytes.extend([count.to_le_bytes(), value.to_le_bytes()].concat());
        }
        let next = 8 + (page + 1) * (2 + 12 * 6 + 4);
        bytes.extend(if page + 1 == pages { 0 } else { next }.to_le_bytes());
    }
    bytes.extend((0..rows).flat_map(|_| 8_u32.to_le_bytes()));
    bytes.extend((0..rows).flat_map(|_| 1_u32.to_le_bytes()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    write(&path, &bytes);
    demand(Input::open(&path, None), ErrorKind::Io, "a.tif", &["more strips than the file"]);
}
