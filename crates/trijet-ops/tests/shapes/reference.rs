//! Comparison with results of NumPy and scikit-image, which `tests/reference/make_shapes.py` wrote.

use crate::value::decode;
use serde_json::Value as Json;
use trijet::{Device, Dtype, Select};
use trijet_ops::{
    Affine, Bin, Binned, Clip, Convert, Crop, FlatField, Image, Operation, Project, Projection,
    Rescale, Swap, Threshold, Typed, apply,
};

const CASES: &[u8] = include_bytes!("../reference/shapes.cases");

/// The first `count` bytes, which are removed.
fn taken<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (first, rest) = bytes.split_at(count);
    *bytes = rest;
    first
}

fn array(json: &Json) -> Typed {
    let dtype: Dtype = json[0].as_str().unwrap().parse().unwrap();
    Typed::new(dtype, json[1].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect())
}

fn size(array: &Typed) -> usize {
    usize::try_from(array.shape.iter().product::<u64>() * array.dtype.bytes()).unwrap()
}

/// An image of the shape of the stack's images, from rows of integers.
fn image(dtype: Dtype, array: &Typed, json: &Json) -> Image {
    let numbers = json.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    let bytes = numbers.flat_map(|v| {
        let word = v.as_u64().unwrap().to_le_bytes();
        word[..usize::try_from(dtype.bytes()).unwrap()].to_vec()
    });
    let [.., height, width] = array.shape[..] else { panic!("{array} is no stack") };
    Image::new(dtype, [height, width], &bytes.collect::<Vec<_>>()).unwrap()
}

fn operation(json: &Json, x: &Typed) -> Box<dyn Operation> {
    let (name, value) = json.as_object().unwrap().iter().next().unwrap();
    let real = |at: usize| value[at].as_f64().unwrap();
    let whole = |at: usize| value[at].as_u64().unwrap();
    match name.as_str() {
        "convert" => {
            Box::new(Convert { to: value.as_str().unwrap().parse().unwrap(), range: None })
        }
        "swap" => Box::new(Swap),
        "clip" => Box::new(Clip { low: real(0), high: real(1) }),
        "threshold" => Box::new(Threshold { above: value.as_f64().unwrap(), value: 1 }),
        "affine" => Box::new(Affine { scale: real(0), offset: real(1) }),
        "rescale" => {
            let (from, to) = ([real(0), real(1)], [real(2), real(3)]);
            Box::new(Rescale { from, to, dtype: None })
        }
        "field" => {
            let dark = image(Dtype::U8, x, &value[0]);
            Box::new(FlatField::new(dark, image(Dtype::U16, x, &value[1])))
        }
        "crop" => Box::new(Crop { y: whole(0)..whole(1), x: whole(2)..whole(3) }),
        "bin" => {
            let by = [0, 1, 2].map(|at| value[0][at].as_u64().unwrap());
            let how = if value[1] == "mean" { Binned::Mean } else { Binned::Sum };
            Box::new(Bin { by, how })
        }
        "project" => {
            let how = match value[1].as_str().unwrap() {
                "max" => Projection::Max,
                "min" => Projection::Min,
                "mean" => Projection::Mean,
                "std" => Projection::Std,
                _ => Projection::Sum,
            };
            Box::new(Project { axis: usize::try_from(whole(0)).unwrap(), how })
        }
        other => panic!("{other} is no operation"),
    }
}

#[test]
fn results_are_the_results_of_numpy() {
    let device = Device::open(Select::Auto).unwrap();
    let mut cases = CASES;
    let mut seen = 0;
    while !cases.is_empty() {
        let len = u32::from_le_bytes(taken(&mut cases, 4).try_into().unwrap());
        let text = taken(&mut cases, usize::try_from(len).unwrap());
        let json: Json = serde_json::from_slice(text).unwrap();
        let (x, y) = (array(&json["x"]), array(&json["y"]));
        let (from, want) = (taken(&mut cases, size(&x)), taken(&mut cases, size(&y)));
        let operation = operation(&json["operation"], &x);
        assert_eq!(operation.output(&x).unwrap(), y, "{operation:?} of {x}");
        let got = apply(&device, &*operation, &x, from).unwrap();
        match json["tolerance"].as_f64() {
            None => assert_eq!(got, want, "{operation:?} of {x}"),
            Some(tolerance) => {
                for (got, want) in decode(y.dtype, &got).iter().zip(decode(y.dtype, want)) {
                    let (got, want) = (got.real(), want.real());
                    let most = tolerance * want.abs().max(1.0);
                    assert!((got - want).abs() <= most, "{operation:?} of {x}: {got} {want}");
                }
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 285);
}
