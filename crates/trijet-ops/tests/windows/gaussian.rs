//! Gaussian filters.

use crate::draw::Draw;
use crate::naive::{Elements, cut, value};
use crate::run::Machine;
use trijet::kernels::median::Edges;
use trijet::{Dtype, ErrorKind};
use trijet_ops::{Gaussian, Operation, Typed};

/// Elements whose sums neither overflow nor are NaN.
pub(crate) fn elements(draw: &mut Draw, array: &Typed) -> Vec<u8> {
    let count = array.shape.iter().product::<u64>();
    let is_signed = !array.dtype.name().starts_with('u');
    (0..count)
        .flat_map(|_| {
            let size =
                draw.to(255) as f64 / if array.dtype.name().contains('f') { 7.0 } else { 1.0 };
            let is_negative = is_signed && draw.to(1) == 1;
            cut(array.dtype, if is_negative { -size / 2.0 } else { size })
        })
        .collect()
}

/// The weights from the first to the last element of a window, from their definition.
fn weights(sigma: f64) -> Vec<f64> {
    let radius = (4.0 * sigma + 0.5) as i32;
    let heights: Vec<f64> =
        (-radius..=radius).map(|x| (f64::from(x * x) / (-2.0 * sigma * sigma)).exp()).collect();
    let sum: f64 = heights.iter().sum();
    heights.iter().map(|height| height / sum).collect()
}

/// A pass along each axis, each rounded to the type of the array.
fn naive(array: &Typed, x: &[u8], sigma: [f64; 3], edges: Edges) -> Vec<u8> {
    let mut x = x.to_vec();
    for (axis, sigma) in sigma.into_iter().enumerate().filter(|(_, sigma)| *sigma > 0.0) {
        let weights = weights(sigma);
        let mut radius = [0; 3];
        radius[axis] = weights.len() as u32 / 2;
        x = Elements::new(array, &x).map_windows(radius, edges, |window| {
            let products =
                window.iter().zip(&weights).map(|(x, weight)| value(array.dtype, x) * weight);
            cut(array.dtype, products.sum())
        });
    }
    x
}

/// How far two ways to add may be apart: a step of the type for each pass, as one sum may be just
/// below an integer and the other just above.
fn tolerance(dtype: Dtype, size: f64) -> f64 {
    let bits = match dtype.name() {
        "bf16" => 7,
        "f16" => 10,
        "f32" => 22,
        "f64" => 48,
        _ => return 3.0,
    };
    3.0 * size.max(2.0_f64.powi(-10)) * 2.0_f64.powi(-bits)
}

#[test]
fn the_rows_do_not_depend_on_their_division_and_are_near_the_definition() {
    let machine = Machine::open();
    for seed in 0..200 {
        let mut draw = Draw::new(seed);
        let array = Typed::new(draw.dtype(), draw.shape());
        let edges = draw.pick(&Edges::ALL);
        let sigma =
            [(); 3].map(|()| draw.pick(&[0.0, 0.1, 0.6, 1.0, 2.3]) + draw.to(1) as f64 * 0.05);
        let filter = Gaussian::new(sigma, edges).unwrap();
        let x = elements(&mut draw, &array);
        let what = format!("seed {seed}: {array}, {}", filter.description());
        let whole = machine.whole(&filter, &array, &x).unwrap();
        assert_eq!(machine.divided(&filter, &array, &x, &mut draw).unwrap(), whole, "{what}");
        let expected = naive(&array, &x, sigma, edges);
        assert_eq!(whole.len(), expected.len(), "{what}");
        let size = array.dtype.bytes() as usize;
        for (found, expected) in whole.chunks(size).zip(expected.chunks(size)) {
            let (found, expected) = (value(array.dtype, found), value(array.dtype, expected));
            let apart = (found - expected).abs();
            let most = tolerance(array.dtype, 255.0);
            assert!(apart <= most, "{what}: {found} {expected}");
        }
    }
}

#[test]
fn the_largest_radius_is_filtered_in_every_axis() {
    let machine = Machine::open();
    for edges in Edges::ALL {
        let array = Typed::new(Dtype::F32, vec![2, 3, 70]);
        let mut draw = Draw::new(1);
        let x = elements(&mut draw, &array);
        let filter = Gaussian::new([7.87; 3], edges).unwrap();
        let whole = machine.whole(&filter, &array, &x).unwrap();
        assert_eq!(machine.divided(&filter, &array, &x, &mut draw).unwrap(), whole, "{edges}");
        let expected = naive(&array, &x, [7.87; 3], edges);
        for (found, expected) in whole.chunks(4).zip(expected.chunks(4)) {
            let (found, expected) = (value(Dtype::F32, found), value(Dtype::F32, expected));
            assert!((found - expected).abs() < 1e-4, "{edges}: {found} {expected}");
        }
    }
}

#[test]
fn without_a_pass_the_bytes_are_copied() {
    let machine = Machine::open();
    let is_real = |dtype: &Dtype| !matches!(dtype, Dtype::C64 | Dtype::C128);
    for dtype in Dtype::ALL.into_iter().filter(is_real) {
        let array = Typed::new(dtype, vec![4, 5]);
        let x: Vec<u8> = (0..20 * dtype.bytes()).map(|n| (n * 37 + 200) as u8).collect();
        let filter = Gaussian::new([0.0; 3], Edges::Reflect).unwrap();
        assert_eq!(machine.whole(&filter, &array, &x).unwrap(), x, "{dtype}");
    }
}

#[test]
fn a_sigma_beyond_its_range_is_refused_by_name() {
    for sigma in [[0.0, -1.0, 0.0], [0.0, 7.875, 1.0], [f64::NAN, 1.0, 1.0], [f64::INFINITY; 3]] {
        let error = Gaussian::new(sigma, Edges::Reflect).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        let text = error.to_string();
        let range = "each of its numbers is at least 0 and less than 7.875";
        assert!(
            text.contains("gaussian") && text.contains("sigma") && text.contains(range),
            "{text}"
        );
    }
}
