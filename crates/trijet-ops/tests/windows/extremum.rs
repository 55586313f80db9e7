//! Minima, maxima and the subtraction of a background.

use crate::draw::Draw;
use crate::naive::{Elements, difference};
use crate::run::Machine;
use trijet::ErrorKind;
use trijet::kernels::median::Edges;
use trijet_ops::{Background, Extremum, Operation, Typed};

fn radius(draw: &mut Draw) -> [u32; 3] {
    let most: [u64; 3] = draw.pick(&[[0, 12, 12], [0, 2, 2], [2, 3, 3], [0, 0, 31]]);
    most.map(|most| draw.to(most) as u32)
}

/// The smallest or the largest elements of the windows.
fn extremes(x: &Elements<'_>, radius: [u32; 3], edges: Edges, is_largest: bool) -> Vec<u8> {
    x.map_windows(radius, edges, |window| {
        let rank = if is_largest { window.len() - 1 } else { 0 };
        x.ranked(window, rank)
    })
}

#[test]
fn the_rows_of_extremes_do_not_depend_on_their_division_and_equal_sorted_windows() {
    let machine = Machine::open();
    for seed in 0..200 {
        let mut draw = Draw::new(seed);
        let array = Typed::new(draw.dtype(), draw.shape());
        let (radius, edges) = (radius(&mut draw), draw.pick(&Edges::ALL));
        let is_largest = draw.to(1) == 1;
        let filter = if is_largest {
            Extremum::maximum(radius, edges)
        } else {
            Extremum::minimum(radius, edges)
        };
        let filter = filter.unwrap();
        let x = draw.elements(&array);
        let expected = extremes(&Elements::new(&array, &x), radius, edges, is_largest);
        let what = format!("seed {seed}: {array}, {}", filter.description());
        assert_eq!(machine.whole(&filter, &array, &x).unwrap(), expected, "{what}");
        let found = machine.divided(&filter, &array, &x, &mut draw).unwrap();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn the_rows_less_their_background_do_not_depend_on_their_division() {
    let machine = Machine::open();
    for seed in 0..200 {
        let mut draw = Draw::new(seed);
        let array = Typed::new(draw.dtype(), draw.shape());
        let (radius, edges) = (radius(&mut draw), draw.pick(&Edges::ALL));
        let is_opening = draw.to(1) == 1;
        let filter = if is_opening {
            Background::opening(radius, edges)
        } else {
            Background::minimum(radius, edges)
        };
        let filter = filter.unwrap();
        let x = draw.elements(&array);
        let mut background = extremes(&Elements::new(&array, &x), radius, edges, false);
        if is_opening {
            background = extremes(&Elements::new(&array, &background), radius, edges, true);
        }
        let size = array.dtype.bytes() as usize;
        let pairs = x.chunks(size).zip(background.chunks(size));
        let expected: Vec<u8> = pairs.flat_map(|(x, y)| difference(array.dtype, x, y)).collect();
        let what = format!("seed {seed}: {array}, {}", filter.description());
        assert_eq!(machine.whole(&filter, &array, &x).unwrap(), expected, "{what}");
        let found = machine.divided(&filter, &array, &x, &mut draw).unwrap();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn an_unsigned_element_is_never_less_than_its_background() {
    let machine = Machine::open();
    for seed in 0..100 {
        let mut draw = Draw::new(seed);
        let dtype = draw.pick(&["u8", "u16", "u32", "u64"]).parse().unwrap();
        let array = Typed::new(dtype, vec![3, 1 + draw.to(6), 1 + draw.to(20)]);
        let (radius, edges) = (radius(&mut draw), draw.pick(&Edges::ALL));
        let x = draw.elements(&array);
        let run = |filter: Background| machine.whole(&filter, &array, &x).unwrap();
        let less = run(Background::opening(radius, edges).unwrap());
        let more = run(Background::minimum(radius, edges).unwrap());
        let words = |bytes: &[u8]| -> Vec<u64> {
            let elements = bytes.chunks(dtype.bytes() as usize);
            elements.map(|one| one.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))).collect()
        };
        let bounds = words(&less).into_iter().zip(words(&more)).zip(words(&x));
        for ((less, more), x) in bounds {
            assert!(less <= more && more <= x, "seed {seed}: {less} {more} {x}");
        }
    }
}

#[test]
fn a_radius_above_31_is_refused_by_name() {
    let refusals = [
        (Extremum::minimum([0, 32, 1], Edges::Wrap).map(|_| ()), "minimum"),
        (Extremum::maximum([0, 1, 32], Edges::Wrap).map(|_| ()), "maximum"),
        (Background::opening([32, 1, 1], Edges::Wrap).map(|_| ()), "m"),
    ];
    for (refused, name) in refusals {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("each of its numbers is 0 to 31"), "{text}");
    }
}
