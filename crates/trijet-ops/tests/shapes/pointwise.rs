//! Operations on each element alone.

use crate::draw::Draw;
use crate::naive::agrees;
use crate::rows::whole_and_parts;
use crate::value::{Value, decode, limits};
use trijet::kernels::{AFFINE_F32, AFFINE_U8, AFFINE_U16};
use trijet::{Device, Dtype, Select};
use trijet_ops::{
    Affine, Clip, Convert, FlatField, Image, Operation, Rescale, Swap, Threshold, Typed, apply,
};

/// The number of drawn arrays of a test.
const ARRAYS: u64 = 100;

fn device() -> Device {
    Device::open(Select::Auto).unwrap()
}

fn drawn(draw: &mut Draw) -> (Typed, Vec<u8>) {
    let array = Typed::new(draw.dtype(), draw.shape(7));
    let x = draw.bytes(&array);
    (array, x)
}

#[test]
fn a_conversion_rounds_once_and_saturates() {
    let device = device();
    for seed in 0..3 * ARRAYS {
        let mut draw = Draw::new(seed);
        let (array, x) = drawn(&mut draw);
        let convert = Convert { to: draw.dtype(), range: None };
        if convert.to == array.dtype {
            assert_eq!(whole_and_parts(&device, &convert, &array, &x, &mut draw).unwrap(), x);
        } else {
            agrees(&device, &convert, &array, &x, &mut draw, &decode(array.dtype, &x));
        }
    }
}

/// Values beside the middle between two floats, where a second rounding would be seen.
#[test]
fn halves_are_rounded_from_the_exact_value() {
    let device = device();
    let mut draw = Draw::new(7);
    let middles = (0..0x7c00_u16).step_by(37).flat_map(|bits| {
        let ends = [bits, bits + 1].map(u16::to_le_bytes).concat();
        [Dtype::F16, Dtype::BF16].map(|dtype| {
            let ends = decode(dtype, &ends);
            f64::midpoint(ends[0].real(), ends[1].real())
        })
    });
    let values: Vec<f64> =
        middles.flat_map(|v| [v, v.next_up(), v.next_down(), -v, -v.next_up()]).collect();
    let x: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let array = Typed::new(Dtype::F64, vec![u64::try_from(values.len()).unwrap()]);
    let wholes: Vec<u64> = (0..63)
        .flat_map(|bit| {
            let middle = (1_u64 << bit) | (1 << bit >> 8) | (1 << bit >> 11) | (1 << bit >> 24);
            [middle, middle + 1, middle - 1, (1 << bit) | (1 << bit >> 8)]
        })
        .collect();
    let whole_bytes: Vec<u8> = wholes.iter().flat_map(|v| v.to_le_bytes()).collect();
    for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32] {
        let convert = Convert { to: dtype, range: None };
        agrees(&device, &convert, &array, &x, &mut draw, &decode(Dtype::F64, &x));
        for of in [Dtype::U64, Dtype::I64] {
            let array = Typed::new(of, vec![u64::try_from(wholes.len()).unwrap()]);
            let want = decode(of, &whole_bytes);
            agrees(&device, &convert, &array, &whole_bytes, &mut draw, &want);
        }
    }
}

#[test]
fn a_swap_turns_the_bytes_of_each_element() {
    let device = device();
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let (array, x) = drawn(&mut draw);
        let size = usize::try_from(array.dtype.bytes()).unwrap();
        let want: Vec<u8> = x.chunks(size).flat_map(|one| one.iter().rev().copied()).collect();
        assert_eq!(whole_and_parts(&device, &Swap, &array, &x, &mut draw).unwrap(), want);
    }
}

/// The value `scale * v + offset` of a type.
fn affine(dtype: Dtype, scale: f64, offset: f64, v: Value) -> Value {
    Value::Real(match dtype {
        Dtype::U32 | Dtype::I32 | Dtype::U64 | Dtype::I64 | Dtype::F64 => scale * v.real() + offset,
        _ => (scale as f32 * v.real() as f32 + offset as f32).into(),
    })
}

#[test]
fn an_affine_map_computes_in_the_precision_of_the_type() {
    let device = device();
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let (array, x) = drawn(&mut draw);
        let scale = draw.one_of(&[1.0, 0.5, 0.1, -2.5, 1e10, f64::INFINITY]);
        let offset = draw.one_of(&[0.0, 0.5, -3.7, 1e-3, f64::NAN]);
        let want = decode(array.dtype, &x).into_iter();
        let want: Vec<_> = want.map(|v| affine(array.dtype, scale, offset, v)).collect();
        agrees(&device, &Affine { scale, offset }, &array, &x, &mut draw, &want);
    }
}

#[test]
fn an_affine_map_computes_what_the_kernels_of_the_library_compute() {
    let device = device();
    let stream = device.stream().unwrap();
    let mut draw = Draw::new(1);
    let map = Affine { scale: 1.7, offset: -20.3 };
    for (dtype, size) in [(Dtype::U8, 1), (Dtype::U16, 2), (Dtype::F32, 4)] {
        let array = Typed::new(dtype, vec![1000]);
        let x = draw.bytes(&array);
        let want = match size {
            1 => {
                let (from, mut to) = (stream.upload(&x).unwrap(), stream.alloc(1000).unwrap());
                stream.launch(&AFFINE_U8, (1.7, -20.3, &from, &mut to)).unwrap();
                stream.download(&to).unwrap()
            }
            2 => {
                let of = |two: &[u8]| u16::from_le_bytes([two[0], two[1]]);
                let from: Vec<u16> = x.chunks_exact(2).map(of).collect();
                let (from, mut to) = (stream.upload(&from).unwrap(), stream.alloc(1000).unwrap());
                stream.launch(&AFFINE_U16, (1.7, -20.3, &from, &mut to)).unwrap();
                stream.download(&to).unwrap().into_iter().flat_map(u16::to_le_bytes).collect()
            }
            _ => {
                let of = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
                let from: Vec<f32> = x.chunks_exact(4).map(of).collect();
                let (from, mut to) = (stream.upload(&from).unwrap(), stream.alloc(1000).unwrap());
                stream.launch(&AFFINE_F32, (1.7, -20.3, &from, &mut to)).unwrap();
                stream.download(&to).unwrap().into_iter().flat_map(f32::to_le_bytes).collect()
            }
        };
        assert_eq!(apply(&device, &map, &array, &x).unwrap(), want, "{dtype}");
    }
}

#[test]
fn a_range_is_mapped_onto_another_range() {
    let device = device();
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let (array, x) = drawn(&mut draw);
        let from = draw.one_of(&[[0.0, 1.0], [-10.0, 200.5], [100.0, 65535.0], [1e-3, 1e18]]);
        let to = draw.one_of(&[[0.0, 1.0], [0.0, 255.0], [255.0, 0.0], [-1e9, 1e9]]);
        let dtype = draw.one_of(&[None, Some(draw_type(seed))]);
        let map = |v: Value| {
            let v = v.real();
            let v = if v.is_nan() { v } else { v.max(from[0]).min(from[1]) };
            Value::Real((v - from[0]) / (from[1] - from[0]) * (to[1] - to[0]) + to[0])
        };
        let want: Vec<_> = decode(array.dtype, &x).into_iter().map(map).collect();
        agrees(&device, &Rescale { from, to, dtype }, &array, &x, &mut draw, &want);
    }
}

fn draw_type(seed: u64) -> Dtype {
    Draw::new(seed + 1000).dtype()
}

#[test]
fn a_conversion_with_a_range_fills_the_type() {
    let device = device();
    let array = Typed::new(Dtype::F32, vec![4]);
    let x: Vec<u8> = [-1.0_f32, 0.0, 4.0, 9.0].into_iter().flat_map(f32::to_le_bytes).collect();
    for dtype in crate::value::REAL {
        let convert = Convert { to: dtype, range: Some([0.0, 4.0]) };
        assert_eq!(convert.output(&array).unwrap().dtype, dtype);
        let got = decode(dtype, &apply(&device, &convert, &array, &x).unwrap());
        let (least, most) = match limits(dtype) {
            Some((least, most)) => (Value::Whole(least), Value::Whole(most)),
            None => (Value::Real(0.0), Value::Real(1.0)),
        };
        assert_eq!(got, [least, least, most, most], "{dtype}");
    }
}

#[test]
fn a_clip_holds_elements_to_the_bounds() {
    const BOUNDS: [f64; 9] =
        [f64::NEG_INFINITY, -1e30, -40.5, 0.0, 9.5, 100.0, 65535.0, 9.1e18, f64::INFINITY];
    let device = device();
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let (array, x) = drawn(&mut draw);
        let bounds = [draw.one_of(&BOUNDS), draw.one_of(&BOUNDS)];
        let (low, high) = (bounds[0].min(bounds[1]), bounds[0].max(bounds[1]));
        let clip = Clip { low, high };
        if limits(array.dtype).is_some() && low.ceil() > high.floor() {
            assert!(clip.output(&array).unwrap_err().to_string().contains("no integer"));
            continue;
        }
        let held = |v: Value| match v {
            // The cast of an infinity gives a limit of `i128`.
            Value::Whole(v) => Value::Whole(v.clamp(low.ceil() as i128, high.floor() as i128)),
            Value::Real(v) if v < low => Value::Real(low),
            Value::Real(v) if v > high => Value::Real(high),
            v => v,
        };
        let want: Vec<_> = decode(array.dtype, &x).into_iter().map(held).collect();
        agrees(&device, &clip, &array, &x, &mut draw, &want);
    }
}

#[test]
fn a_threshold_compares_exactly() {
    const BOUNDS: [f64; 10] =
        [f64::NEG_INFINITY, -1e30, -0.5, 0.0, 9.5, 100.0, 255.0, 65504.0, 9.2e18, f64::INFINITY];
    let device = device();
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let (array, x) = drawn(&mut draw);
        let (above, value) = (draw.one_of(&BOUNDS), draw.one_of(&[1, 255]));
        let mark = |v: Value| Value::Whole(if v.is_above(above) { value.into() } else { 0 });
        let want: Vec<_> = decode(array.dtype, &x).into_iter().map(mark).collect();
        agrees(&device, &Threshold { above, value }, &array, &x, &mut draw, &want);
    }
}

#[test]
fn a_threshold_tells_neighbours_of_64_bits_apart() {
    let array = Typed::new(Dtype::U64, vec![2]);
    let x = [1_u64 << 60, (1 << 60) + 1].map(u64::to_le_bytes).concat();
    let mark = Threshold { above: (1_u64 << 60) as f64, value: 1 };
    assert_eq!(apply(&device(), &mark, &array, &x).unwrap(), [0, 1]);
}

#[test]
fn a_field_is_subtracted_and_divided_by() {
    let device = device();
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let (array, x) = drawn(&mut draw);
        let stack = array.stack().unwrap();
        let image = |draw: &mut Draw| {
            let of = Typed::new(draw.dtype(), vec![stack.height, stack.width]);
            let bytes = draw.bytes(&of);
            let pixels: Vec<_> = decode(of.dtype, &bytes).into_iter().map(Value::real).collect();
            let image = Image::new(of.dtype, [stack.height, stack.width], &bytes).unwrap();
            (image, pixels)
        };
        let (scale, to) = (draw.one_of(&[1.0, -0.3, 1000.0]), draw.dtype());
        let (dark, dark_pixels) = image(&mut draw);
        let (flat, flat_pixels) = image(&mut draw);
        let (which, pixels) = (draw.between(0, 2), dark_pixels.len().max(1));
        let operation = match which {
            0 => FlatField::new(dark, flat),
            1 => FlatField::subtract(dark),
            _ => FlatField::divide(flat),
        };
        let corrected = |(index, v): (usize, Value)| {
            let at = index % pixels;
            let (v, d, f) = (v.real(), dark_pixels[at], flat_pixels[at]);
            Value::Real(match which {
                0 if f - d == 0.0 => scale * 0.0,
                0 => scale * ((v - d) / (f - d)),
                1 => scale * (v - d),
                _ if f == 0.0 => scale * 0.0,
                _ => scale * (v / f),
            })
        };
        let want: Vec<_> = decode(array.dtype, &x).into_iter().enumerate().map(corrected).collect();
        agrees(&device, &operation.scale(scale).to(to), &array, &x, &mut draw, &want);
    }
}

#[test]
fn an_image_is_found_on_each_device() {
    let array = Typed::new(Dtype::U8, vec![3, 1, 2]);
    let field = FlatField::subtract(Image::new(Dtype::U8, [1, 2], &[1, 2]).unwrap());
    for ordinal in [0, 1, 0] {
        let device = Device::open(Select::Host(ordinal)).unwrap();
        let got = apply(&device, &field, &array, &[5; 6]).unwrap();
        let want = [4.0_f32, 3.0].map(f32::to_le_bytes).concat().repeat(3);
        assert_eq!(got, want);
    }
}
