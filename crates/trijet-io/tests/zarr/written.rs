//! Arrays that are written, for other programs.

use crate::workdir::{Workdir, whole};
use serde_json::json;
use std::fs;
use std::path::Path;
use trijet::Sink;
use trijet::testing::Prng;
use trijet_io::{Array, Dtype, Fingerprint, Input, Output, Start, Target};

/// Writes `bytes` as an array.
fn write(path: &Path, input: &Input, array: &Array, bytes: &[u8]) {
    let target = Target::new(path, array.clone(), input).unwrap();
    let run = Fingerprint::new(input, "copy", &target);
    let mut output = Output::open(&target, &run, Start::New).unwrap();
    output.write(0..array.layout().rows, bytes).unwrap();
    output.finish().unwrap();
}

/// Shapes with one chunk, with chunks of whole images, with parts of an image, and with a chunk that
/// is padded.
const SHAPES: [&[u64]; 8] = [
    &[7],
    &[4, 5],
    &[3, 4, 5],
    &[2, 3, 4, 5],
    &[0, 4, 5],
    &[9, 500, 600],
    &[2, 1400, 1001],
    &[2003, 2100],
];

/// Writes the arrays that `cargo xtask formats` reads with other libraries, each with an `.npy` file
/// of the same array beside it.
#[test]
fn arrays_of_every_type_and_shape_are_written_for_other_libraries() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("formats/zarr");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    let workdir = Workdir::new();
    let plain = Input::open(&workdir.array("plain.zarr", |_| {}), None).unwrap();
    let scale = [json!({"type": "scale", "scale": [2.5, 0.65, 0.65]})];
    let axis = |name| json!({"name": name, "type": "space", "unit": "micrometer"});
    let pyramid = json!({
        "axes": [axis("z"), axis("y"), axis("x")],
        "datasets": [{"path": "raw", "coordinateTransformations": scale}],
    });
    let group = json!({"zarr_format": 3, "node_type": "group",
        "attributes": {"multiscales": [pyramid]}});
    workdir.file("ome.zarr/zarr.json", group.to_string());
    workdir.array("ome.zarr/raw", |_| {});
    let ome = Input::open(&workdir.path("ome.zarr"), None).unwrap();
    let mut count = 0;
    for (source, input) in [("plain", &plain), ("ome", &ome)] {
        for dtype in Dtype::ALL {
            // zarr-python has no bf16. For the large arrays, one type is enough.
            let shapes = SHAPES.iter().filter(|shape| {
                dtype != Dtype::BF16
                    && (dtype == Dtype::U16 || shape.iter().product::<u64>() < 1000)
            });
            for shape in shapes {
                let array = Array::new(dtype, shape.to_vec()).unwrap();
                let mut draw = Prng::new(array.bytes());
                let draw = || draw.next_u64().to_le_bytes()[2] & 0x3f;
                let length = usize::try_from(array.bytes()).unwrap();
                let bytes: Vec<u8> = std::iter::repeat_with(draw).take(length).collect();
                let axes: Vec<String> = shape.iter().map(u64::to_string).collect();
                let path = folder.join(format!("{source}-{dtype}-{}.zarr", axes.join("-")));
                write(&path, input, &array, &bytes);
                write(&path.with_extension("npy"), input, &array, &bytes);
                assert_eq!(whole(&Input::open(&path, None).unwrap()), bytes, "{path:?}");
                count += 1;
            }
        }
    }
    assert_eq!(count, 2 * (13 * 5 + 3), "every type in the small shapes");
}
