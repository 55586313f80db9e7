//! Files that are written, read again.

use super::{golden, whole};
use std::fs;
use std::path::Path;
use trijet::Sink;
use trijet::testing::Prng;
use trijet_io::format::{Plan, of_output};
use trijet_io::{Annotations, Array, Dtype, Fingerprint, Input, Output, Start, Target};

/// Copies an input to a TIFF file, and opens the file.
fn copied(from: &Path, to: &Path) -> Input {
    let input = Input::open(from, None).unwrap();
    write(to, &input, input.array(), &whole(&input));
    let written = Input::open(to, None).unwrap();
    assert_eq!(written.array(), input.array());
    assert_eq!(whole(&written), whole(&input));
    written
}

/// Writes `bytes` as an array to a file.
fn write(path: &Path, input: &Input, array: &Array, bytes: &[u8]) {
    let target = Target::new(path, array.clone(), input).unwrap();
    let run = Fingerprint::new(input, "copy", &target);
    let mut output = Output::open(&target, &run, Start::New).unwrap();
    output.write(0..array.layout().rows, bytes).unwrap();
    output.finish().unwrap();
}

/// Writes the files that `cargo xtask formats` reads with other libraries, each with an `.npy` file
/// of the same array beside it.
#[test]
fn arrays_of_every_type_and_shape_are_written_for_other_libraries() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("formats/tiff");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    let mut count = 0;
    let input = Input::open(&golden("stack.tif"), None).unwrap();
    for dtype in Dtype::ALL {
        for shape in
            [&[7][..], &[4, 5], &[3, 4, 5], &[2, 3, 4, 5], &[4, 5, 3], &[2, 4, 5, 4], &[2, 4, 5, 1]]
        {
            let Ok(array) = Array::new(dtype, shape.to_vec()) else { continue };
            let mut draw = Prng::new(array.bytes());
            let draw = || draw.next_u64().to_le_bytes()[2] & 0x3f;
            let length = usize::try_from(array.bytes()).unwrap();
            let bytes: Vec<u8> = std::iter::repeat_with(draw).take(length).collect();
            let axes: Vec<String> = shape.iter().map(u64::to_string).collect();
            if plan("a.tif", &array, &Annotations::default()).is_err() {
                continue;
            }
            for extension in ["tif", "btf"] {
                let name = format!("{dtype}-{}-{extension}", axes.join("-"));
                let path = folder.join(&name).with_extension(extension);
                write(&path, &input, &array, &bytes);
                write(&path.with_extension("npy"), &input, &array, &bytes);
                assert_eq!(whole(&Input::open(&path, None).unwrap()), bytes, "{name}");
                count += 1;
            }
        }
    }
    assert!(count >= 154, "{count}");
    for name in ["ome.tif", "ome-ctz.tif", "ome-colours.tif", "imagej.tif", "zlib-floats.tif"] {
        let input = copied(&golden(name), &folder.join(name));
        let path = folder.join(name).with_extension("npy");
        write(&path, &input, input.array(), &whole(&input));
    }
}

fn plan(
    name: &str,
    array: &Array,
    facts: &Annotations,
) -> trijet::Result<std::sync::Arc<dyn Plan>> {
    let path = Path::new(name);
    of_output(path).unwrap().plan(path, array, &[], facts)
}

#[test]
fn a_written_file_keeps_the_size_of_its_pixels() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["imagej.tif", "ome.tif"] {
        let written = copied(&golden(name), &folder.path().join(name));
        let rounded = |spacing: &[Option<f64>; 3]| {
            spacing.map(|own| own.map(|own| (own * 1e15).round() / 1e15))
        };
        let input = Input::open(&golden(name), None).unwrap();
        let (own, first) = (&written.annotations().spacing, &input.annotations().spacing);
        assert!(own.iter().all(Option::is_some), "{name}: {own:?}");
        assert_eq!(rounded(own), rounded(first), "{name}");
    }
}

#[test]
fn ome_xml_is_kept_as_long_as_it_describes_the_array() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ome.tif", "ome-ctz.tif", "ome-colours.tif"] {
        let written = copied(&golden(name), &folder.path().join(name));
        let input = Input::open(&golden(name), None).unwrap();
        assert!(written.annotations().ome_xml.is_some(), "{name}");
        assert_eq!(written.annotations().ome_xml, input.annotations().ome_xml, "{name}");
    }
    let input = Input::open(&golden("ome.tif"), None).unwrap();
    let left_out = |dtype, shape: &[u64]| {
        let array = Array::new(dtype, shape.to_vec()).unwrap();
        plan("a.tif", &array, input.annotations()).unwrap().left_out()
    };
    assert!(left_out(Dtype::U16, &[2, 3, 2, 4, 5]).is_empty());
    for other in [left_out(Dtype::F32, &[2, 3, 2, 4, 5]), left_out(Dtype::U16, &[6, 2, 4, 5])] {
        assert_eq!(other, ["the OME-XML, which describes another array"]);
    }
}

#[test]
fn a_file_above_4_gib_has_offsets_of_64_bits() {
    let folder = tempfile::tempdir().unwrap();
    let facts = Annotations::default();
    for (name, images, is_big) in
        [("a.tif", 3, false), ("a.btf", 3, true), ("a.tf8", 3, true), ("b.tiff", 70_000, true)]
    {
        let array = Array::new(Dtype::U16, vec![images, 200, 200]).unwrap();
        let path = folder.path().join(name);
        let plan = plan(name, &array, &facts).unwrap();
        // The pixels are a hole, which takes no space.
        let writer = plan.create(&path, None).unwrap();
        let last = array.layout().rows - 1;
        writer.write(last..last + 1, &[7; 400]).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), plan.bytes().unwrap(), "{name}");
        let start: [u8; 4] = {
            let mut start = [0; 4];
            let file = fs::File::open(&path).unwrap();
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut start, 0).unwrap();
            start
        };
        assert_eq!(&start, if is_big { b"II+\0" } else { b"II*\0" }, "{name}");
        let input = Input::open(&path, None).unwrap();
        assert_eq!(input.array(), &array, "{name}");
        let mut row = vec![0; 400];
        trijet::Source::read(&input, last..last + 1, &mut row).unwrap();
        assert_eq!(row, [7; 400], "{name}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn arrays_that_tiff_cannot_hold_are_refused() {
    let facts = Annotations::default();
    for (dtype, shape, words) in [
        (Dtype::U8, vec![0, 4, 4], "cannot hold"),
        (Dtype::C64, vec![4, 4], "TIFF has no elements of c64"),
        (Dtype::BF16, vec![4, 4], "TIFF has no elements of bf16"),
        (Dtype::U8, vec![1 << 33, 1], "a side of 8589934592 pixels"),
    ] {
        let array = Array::new(dtype, shape).unwrap();
        let error = plan("a.tif", &array, &facts).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn an_end_that_is_damaged_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    let array = Array::new(Dtype::U8, vec![3, 4, 5]).unwrap();
    let plan = plan("a.tif", &array, &Annotations::default()).unwrap();
    drop(plan.create(&path, None).unwrap());
    let done = trijet_io::Rows::default();
    plan.reopen(&path, &done).unwrap();
    let sound = fs::read(&path).unwrap();
    for at in [0, sound.len() - 1, sound.len() - 150] {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = plan.reopen(&path, &done).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{at}: {error}");
    }
}
