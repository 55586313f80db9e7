//! Operations that change the shape of an array.

use crate::draw::Draw;
use crate::naive::agrees;
use crate::rows::whole_and_parts;
use crate::value::{Value, decode};
use trijet::{Device, Dtype, Select};
use trijet_ops::{Bin, Binned, Crop, Operation, Project, Projection, Typed, apply};

/// The number of drawn arrays of a test.
const ARRAYS: u64 = 200;

fn device() -> Device {
    Device::open(Select::Auto).unwrap()
}

fn index(v: u64) -> usize {
    usize::try_from(v).unwrap()
}

/// The coordinates of each element of an array, in order.
fn coordinates(shape: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for length in shape {
        let longer =
            all.iter().flat_map(|at| (0..*length).map(move |one| [&at[..], &[one]].concat()));
        all = longer.collect();
    }
    all
}

/// The index of the element at some coordinates.
fn element(shape: &[u64], at: &[u64]) -> usize {
    index(shape.iter().zip(at).fold(0, |sum, (length, at)| sum * length + at))
}

#[test]
fn a_crop_keeps_its_part_of_each_image() {
    let device = device();
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let array = Typed::new(draw.dtype(), draw.shape(7));
        let x = draw.bytes(&array);
        let stack = array.stack().unwrap();
        let mut range = |all: u64| {
            let start = draw.between(0, all);
            start..draw.between(start, all)
        };
        let crop = Crop { y: range(stack.height), x: range(stack.width) };
        let axes = array.shape.len();
        if axes == 1 && crop.x != (0..1) {
            assert!(crop.output(&array).is_err() || crop.x.is_empty());
            continue;
        }
        let size = index(array.dtype.bytes());
        let mut want: Vec<u8> = Vec::new();
        for at in coordinates(&array.shape) {
            let (y, x_at) = if axes == 1 { (at[0], 0) } else { (at[axes - 2], at[axes - 1]) };
            if crop.y.contains(&y) && crop.x.contains(&x_at) {
                let from = element(&array.shape, &at) * size;
                want.extend(&x[from..from + size]);
            }
        }
        let got = whole_and_parts(&device, &crop, &array, &x, &mut draw).unwrap();
        assert_eq!(got, want, "{crop:?} of {array}");
    }
}

/// The elements of each window, in order.
fn windows(shape: &[u64], by: &[u64]) -> Vec<Vec<usize>> {
    let outer: Vec<u64> = shape.iter().zip(by).map(|(length, by)| length / by).collect();
    let inner = coordinates(by);
    let window = |at: &Vec<u64>| {
        let place = |inside: &Vec<u64>| {
            let axes = at.iter().zip(by).zip(inside);
            let place: Vec<u64> = axes.map(|((at, by), inside)| at * by + inside).collect();
            element(shape, &place)
        };
        inner.iter().map(place).collect()
    };
    coordinates(&outer).iter().map(window).collect()
}

/// The exact mean of integers, rounded by comparing twice the distances.
fn mean(sum: i128, count: i128) -> i128 {
    let floor = sum.div_euclid(count);
    let twice = 2 * (sum - floor * count);
    let is_up = twice > count || (twice == count && floor.rem_euclid(2) == 1);
    if is_up { floor + 1 } else { floor }
}

/// An integer modulo 2^64, as an integer of a type of 64 bits.
fn wrapped(dtype: Dtype, v: i128) -> Value {
    match dtype {
        Dtype::U64 => Value::Whole(v.rem_euclid(1 << 64)),
        Dtype::I64 => Value::Whole((v + (1 << 63)).rem_euclid(1 << 64) - (1 << 63)),
        _ => Value::Whole(v),
    }
}

#[test]
fn a_bin_reduces_windows_and_drops_the_rest() {
    let device = device();
    for seed in 0..2 * ARRAYS {
        let mut draw = Draw::new(seed);
        let array = Typed::new(draw.dtype(), draw.shape(9));
        let x = draw.bytes(&array);
        let axes = array.shape.len();
        // The lengths of the axes of images, rows and columns.
        let lengths = match array.shape[..] {
            [rows] => [1, rows, 1],
            [rows, columns] => [1, rows, columns],
            [.., images, rows, columns] => [images, rows, columns],
            [] => unreachable!("a drawn shape has an axis"),
        };
        let by = lengths.map(|length| draw.between(1, length.clamp(1, 4)));
        let how = draw.one_of(&[Binned::Mean, Binned::Sum]);
        let bin = Bin { by, how };
        let output = bin.output(&array).unwrap().dtype;
        let factors = match axes {
            1 => vec![by[1]],
            2 => by[1..].to_vec(),
            _ => [&vec![1; axes - 3][..], &by].concat(),
        };
        let values = decode(array.dtype, &x);
        let reduce = |window: &Vec<usize>| {
            let (mut whole, mut real) = (0, 0.0);
            for at in window {
                match values[*at] {
                    Value::Whole(v) => whole += v,
                    Value::Real(v) => real += v,
                }
            }
            match (values[window[0]], how) {
                (Value::Whole(_), Binned::Sum) => wrapped(output, whole),
                (Value::Whole(_), Binned::Mean) => {
                    Value::Whole(mean(whole, i128::try_from(window.len()).unwrap()))
                }
                (Value::Real(_), Binned::Sum) => Value::Real(real),
                (Value::Real(_), Binned::Mean) => Value::Real(real / window.len() as f64),
            }
        };
        let want: Vec<Value> = windows(&array.shape, &factors).iter().map(reduce).collect();
        agrees(&device, &bin, &array, &x, &mut draw, &want);
    }
}

#[test]
fn the_mean_of_large_integers_is_exact() {
    let device = device();
    let mean = Bin { by: [1, 2, 2], how: Binned::Mean };
    let unsigned = Typed::new(Dtype::U64, vec![2, 2]);
    let x = [u64::MAX, u64::MAX, u64::MAX, u64::MAX - 2].map(u64::to_le_bytes).concat();
    // The mean is the largest integer less 1/2, and the integer before is even.
    assert_eq!(apply(&device, &mean, &unsigned, &x).unwrap(), (u64::MAX - 1).to_le_bytes());
    let signed = Typed::new(Dtype::I64, vec![2, 2]);
    let x = [i64::MIN, i64::MIN, i64::MIN, i64::MIN + 3].map(i64::to_le_bytes).concat();
    assert_eq!(apply(&device, &mean, &signed, &x).unwrap(), (i64::MIN + 1).to_le_bytes());
}

/// The value that NumPy defines for the elements along an axis, with sums in their order.
fn projected(how: Projection, dtype: Dtype, along: &[Value]) -> Value {
    let count = along.len() as f64;
    let real = || along.iter().map(|v| v.real());
    let sum = || real().fold(0.0, |sum, v| sum + v);
    let is_better = |v: Value, best: Value| match (v, best) {
        (Value::Whole(v), Value::Whole(best)) => {
            if how == Projection::Min {
                v < best
            } else {
                v > best
            }
        }
        (Value::Real(v), Value::Real(best)) if how == Projection::Min => v < best,
        (v, best) => v.real() > best.real(),
    };
    match (how, along[0]) {
        (Projection::Max | Projection::Min, _) => {
            let nan = along.iter().find(|v| v.real().is_nan());
            let best =
                along.iter().copied().reduce(|best, v| if is_better(v, best) { v } else { best });
            nan.copied().or(best).unwrap()
        }
        (Projection::Sum, Value::Whole(_)) => {
            let whole = |v: &Value| match v {
                Value::Whole(v) => *v,
                Value::Real(_) => unreachable!("all elements have one type"),
            };
            wrapped(dtype, along.iter().map(whole).sum())
        }
        (Projection::Sum, Value::Real(_)) => Value::Real(sum()),
        (Projection::Mean, _) => Value::Real(sum() / count),
        (Projection::Std, _) => {
            let mean = sum() / count;
            let squares = real().fold(0.0, |squares, v| squares + (v - mean) * (v - mean));
            Value::Real((squares / count).sqrt())
        }
    }
}

const HOW: [Projection; 5] =
    [Projection::Max, Projection::Min, Projection::Mean, Projection::Sum, Projection::Std];

/// Compares a projection of drawn elements with the values that NumPy defines.
fn projection_agrees(device: &Device, project: &Project, array: &Typed, draw: &mut Draw) {
    let x = draw.bytes(array);
    let (count, output) = (array.shape[project.axis], project.output(array).unwrap());
    let values = decode(array.dtype, &x);
    let along = |at: &Vec<u64>| {
        let place = |n| {
            let (before, after) = at.split_at(project.axis);
            element(&array.shape, &[before, &[n], after].concat())
        };
        let along: Vec<Value> = (0..count).map(|n| values[place(n)]).collect();
        projected(project.how, output.dtype, &along)
    };
    let want: Vec<Value> = coordinates(&output.shape).iter().map(along).collect();
    agrees(device, project, array, &x, draw, &want);
}

#[test]
fn a_projection_reduces_its_axis() {
    let device = device();
    let mut done = 0;
    for seed in 0..3 * ARRAYS {
        let mut draw = Draw::new(seed);
        let array = Typed::new(draw.dtype(), draw.shape(9));
        let axes = u64::try_from(array.shape.len()).unwrap();
        if axes == 1 {
            continue;
        }
        let project = Project { axis: index(draw.between(1, axes - 1)), how: draw.one_of(&HOW) };
        if array.shape[project.axis] == 0 {
            let error = project.output(&array).unwrap_err().to_string();
            assert!(error.contains("has no elements"), "{error}");
            continue;
        }
        projection_agrees(&device, &project, &array, &mut draw);
        done += 1;
    }
    assert!(done > 200, "{done}");
}

#[test]
fn a_projection_of_many_elements_adds_them_in_order() {
    let device = device();
    for seed in 0..150 {
        let mut draw = Draw::new(seed);
        let count = draw.between(1, 400);
        let count = if draw.between(0, 1) == 0 { count.next_multiple_of(16) } else { count };
        let columns = draw.between(1, 40);
        let inner = draw.one_of(&[1, 3, 16, 32, 48, columns]);
        let outer = draw.between(1, 4);
        // The elements along the last axis are beside each other.
        let (axis, shape) = match draw.between(0, 1) {
            0 => (1, vec![outer, count, inner]),
            _ => (2, vec![outer, inner, count]),
        };
        let array = Typed::new(draw.dtype(), shape);
        projection_agrees(&device, &Project { axis, how: draw.one_of(&HOW) }, &array, &mut draw);
    }
}
