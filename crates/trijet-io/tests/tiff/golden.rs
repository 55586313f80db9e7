//! Files of other writers: each has an array beside it, which tifffile has read from it.

use super::{golden, whole};
use std::fs;
use trijet::Source;
use trijet_io::{ByteOrder, Input};

#[test]
fn files_of_other_writers_have_the_array_that_tifffile_reads() {
    let names = fs::read_dir(golden("")).unwrap().map(|entry| entry.unwrap().path());
    let files = names.filter(|path| path.extension().is_some_and(|own| own == "tif"));
    let mut count = 0;
    for path in files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        count += 1;
        let tiff = Input::open(&path, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        let npy = Input::open(&path.with_extension("npy"), None).unwrap();
        assert_eq!(tiff.format().name(), "tiff");
        assert_eq!(tiff.array(), npy.array(), "{name}");
        let expected = whole(&npy);
        assert_eq!(whole(&tiff), expected, "{name}");
        by_parts(&tiff, &expected, &name);
    }
    assert!(count > 80, "{count}");
}

/// Reads rows in pieces that are not multiples of a strip.
fn by_parts(tiff: &Input, expected: &[u8], name: &str) {
    let layout = tiff.layout();
    let row = usize::try_from(layout.row_bytes).unwrap();
    for step in [1, 5] {
        for start in (0..layout.rows).step_by(step) {
            let end = (start + step as u64).min(layout.rows);
            let from = usize::try_from(start).unwrap() * row;
            let mut bytes = vec![0; usize::try_from(end - start).unwrap() * row];
            tiff.read(start..end, &mut bytes).unwrap();
            assert_eq!(bytes, expected[from..from + bytes.len()], "{name}: {start}..{end}");
        }
    }
}

#[test]
fn the_size_of_a_pixel_is_in_the_annotations() {
    let spacing = |name: &str| {
        let input = Input::open(&golden(name), None).unwrap();
        input.annotations().spacing.map(|own| own.map(|own| (own * 1e12).round() / 1e12))
    };
    assert_eq!(spacing("ome.tif"), [Some(2e-6), Some(0.25e-6), Some(0.5e-6)]);
    assert_eq!(spacing("imagej.tif"), [Some(3e-6), Some(0.25e-6), Some(0.5e-6)]);
    // 300 pixels per inch.
    let inch = Some((0.0254_f64 / 300.0 * 1e12).round() / 1e12);
    assert_eq!(spacing("pillow-colours.tif"), [None, inch, inch]);
    assert_eq!(spacing("stack.tif"), [None; 3]);
}

#[test]
fn the_parts_of_a_file_that_are_not_in_the_array_are_named() {
    for (name, expected) in [
        ("stack.tif", &[][..]),
        ("two-arrays.tif", &["2 pages after the first array"]),
        ("levels.tif", &["the smaller versions of the images (SubIFDs)"]),
        ("levels-in-pages.tif", &["1 page with smaller versions of others"]),
        ("ome-levels.tif", &["the smaller versions of the images (SubIFDs)"]),
    ] {
        let input = Input::open(&golden(name), None).unwrap();
        assert_eq!(input.left_out(), expected, "{name}");
    }
}

#[test]
fn one_run_of_pixels_is_read_in_the_order_of_its_bytes() {
    for (name, order) in [
        ("big-u2.tif", ByteOrder::Big),
        ("imagej-one-directory.tif", ByteOrder::Big),
        ("stack.tif", ByteOrder::Little),
    ] {
        let input = Input::open(&golden(name), None).unwrap();
        assert_eq!(input.byte_order(), order, "{name}");
        let bytes = whole(&input);
        let stored: Vec<u8> = match order {
            ByteOrder::Little => bytes,
            ByteOrder::Big => bytes.chunks(2).flat_map(|one| [one[1], one[0]]).collect(),
        };
        assert_eq!(whole(&input.as_stored()), stored, "{name}");
    }
}
