//! Rank filters.

use crate::draw::Draw;
use crate::naive::Elements;
use crate::run::Machine;
use trijet::kernels::median::Edges;
use trijet::{Dtype, ErrorKind};
use trijet_ops::{Operation, Rank, RowsOfCall, Typed};

fn radius(draw: &mut Draw) -> [u32; 3] {
    let most: [u64; 3] = draw.pick(&[[0, 7, 7], [0, 2, 2], [3, 3, 3], [1, 1, 1]]);
    most.map(|most| draw.to(most) as u32)
}

#[test]
fn the_rows_do_not_depend_on_their_division_and_equal_sorted_windows() {
    let machine = Machine::open();
    for seed in 0..300 {
        let mut draw = Draw::new(seed);
        let array = Typed::new(draw.dtype(), draw.shape());
        let (radius, edges) = (radius(&mut draw), draw.pick(&Edges::ALL));
        let size: u32 = radius.iter().map(|r| 2 * r + 1).product();
        let rank = draw.pick(&[0, size / 2, size - 1, draw_rank(&mut Draw::new(seed + 1), size)]);
        let filter = Rank::nth(radius, rank, edges).unwrap();
        let x = draw.elements(&array);
        let elements = Elements::new(&array, &x);
        let expected =
            elements.map_windows(radius, edges, |window| elements.ranked(window, rank as usize));
        let what = format!("seed {seed}: {array}, {}", filter.description());
        assert_eq!(machine.whole(&filter, &array, &x).unwrap(), expected, "{what}");
        let found = machine.divided(&filter, &array, &x, &mut draw).unwrap();
        assert_eq!(found, expected, "{what}");
    }
}

fn draw_rank(draw: &mut Draw, size: u32) -> u32 {
    draw.to(u64::from(size) - 1) as u32
}

#[test]
fn a_square_median_of_small_integers_equals_sorted_windows() {
    let machine = Machine::open();
    for seed in 0..60 {
        let mut draw = Draw::new(seed);
        let dtype = draw.pick(&[Dtype::U8, Dtype::U16]);
        let array = Typed::new(dtype, vec![1 + draw.to(2), 1 + draw.to(20), 1 + draw.to(70)]);
        let (radius, edges) = (1 + draw.to(6) as u32, draw.pick(&Edges::ALL));
        let filter = Rank::median([0, radius, radius], edges).unwrap();
        let x = draw.elements(&array);
        let elements = Elements::new(&array, &x);
        let middle = ((2 * radius + 1) * (2 * radius + 1) / 2) as usize;
        let expected = elements
            .map_windows([0, radius, radius], edges, |window| elements.ranked(window, middle));
        let what = format!("seed {seed}: {array}, {}", filter.description());
        assert_eq!(machine.whole(&filter, &array, &x).unwrap(), expected, "{what}");
        let found = machine.divided(&filter, &array, &x, &mut draw).unwrap();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn the_median_of_a_cube_equals_sorted_windows() {
    let machine = Machine::open();
    for seed in 0..60 {
        let mut draw = Draw::new(seed);
        let shape = vec![1 + draw.to(1), 1 + draw.to(3), 1 + draw.to(40), 1 + draw.to(80)];
        let (array, edges) = (Typed::new(draw.dtype(), shape), draw.pick(&Edges::ALL));
        let filter = Rank::median([1, 1, 1], edges).unwrap();
        let x = draw.elements(&array);
        let elements = Elements::new(&array, &x);
        let expected = elements.map_windows([1, 1, 1], edges, |window| elements.ranked(window, 13));
        let what = format!("seed {seed}: {array}, {}", filter.description());
        assert_eq!(machine.whole(&filter, &array, &x).unwrap(), expected, "{what}");
        let found = machine.divided(&filter, &array, &x, &mut draw).unwrap();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn a_percentile_takes_the_rank_of_scipy() {
    let rank = |percentile| Rank::percentile([0, 2, 2], percentile, Edges::Nearest).unwrap();
    let nth = |rank| Rank::nth([0, 2, 2], rank, Edges::Nearest).unwrap();
    assert_eq!(rank(0.0), nth(0));
    assert_eq!(rank(3.99), nth(0));
    assert_eq!(rank(4.0), nth(1));
    assert_eq!(rank(50.0), nth(12));
    assert_eq!(rank(99.99), nth(24));
    assert_eq!(rank(100.0), nth(24));
}

#[test]
fn parameters_beyond_their_ranges_are_refused_by_name() {
    let refusals = [
        (Rank::nth([0, 1, 1], 9, Edges::Nearest), "the rank is 9; a window has ranks 0 to 8"),
        (
            Rank::median([0, 8, 1], Edges::Nearest),
            "the radius is [0, 8, 1]; each of its numbers is 0 to 7",
        ),
        (
            Rank::median([1, 4, 1], Edges::Nearest),
            "the radius is [1, 4, 1]; each of its numbers is 0 to 3",
        ),
        (
            Rank::percentile([0, 1, 1], -0.5, Edges::Nearest),
            "the percentile is -0.5; it is 0 to 100",
        ),
        (
            Rank::percentile([0, 1, 1], f64::NAN, Edges::Nearest),
            "the percentile is NaN; it is 0 to 100",
        ),
    ];
    for (refused, text) in refusals {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.to_string().contains(text), "{error}");
        assert!(error.to_string().contains("rank"), "{error}");
    }
}

#[test]
fn spans_that_are_not_the_rows_of_the_call_are_refused() {
    let machine = Machine::open();
    for dtype in [Dtype::U8, Dtype::I64] {
        let array = Typed::new(dtype, vec![6, 5]);
        let row = 5 * dtype.bytes() as usize;
        let filter = Rank::median([0, 1, 1], Edges::Nearest).unwrap();
        let (x, mut y) = (
            machine.stream.alloc_zeroed::<u8>(6 * row).unwrap(),
            machine.stream.alloc(row).unwrap(),
        );
        let mut enqueue = |x_rows: std::ops::Range<u64>, y_rows, bytes| {
            let rows = RowsOfCall { x: x_rows, y: y_rows };
            filter.enqueue(&machine.stream, &array, &rows, x.slice(..bytes), y.view_mut())
        };
        enqueue(0..6, 2..3, 6 * row).unwrap();
        enqueue(0..3, 1..2, 3 * row).unwrap();
        let refusals = [
            enqueue(0..2, 1..2, 2 * row),
            enqueue(0..3, 1..2, 2 * row),
            enqueue(0..6, 2..4, 6 * row),
            enqueue(0..6, 6..7, 6 * row),
        ];
        for refused in refusals {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidValue);
        }
    }
}
