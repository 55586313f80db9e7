//! Arrays of many tiles, on which a GPU gives the bits of the twins.

use crate::draw::Draw;
use crate::gaussian;
use crate::run::Machine;
use trijet::kernels::median::Edges;
use trijet_ops::{Extremum, Gaussian, Operation, Rank, Typed};

/// The number of drawn arrays of a test.
const ARRAYS: u64 = 40;

fn array(draw: &mut Draw) -> Typed {
    let shape = vec![1 + draw.to(2), 1 + draw.to(90), 1 + draw.to(170)];
    Typed::new(draw.dtype(), shape)
}

/// Runs a filter on both devices, and in drawn parts on the first.
fn agrees(machines: &[Machine; 2], filter: &dyn Operation, array: &Typed, x: &[u8], seed: u64) {
    let what = format!("seed {seed}: {array}, {}", filter.description());
    let [found, expected] = [0, 1].map(|one| machines[one].whole(filter, array, x).unwrap());
    assert!(found == expected, "{what}");
    let parts = machines[0].divided(filter, array, x, &mut Draw::new(seed)).unwrap();
    assert!(parts == expected, "{what}, in parts");
}

#[test]
fn a_gaussian_filter_has_the_bits_of_its_twin() {
    let machines = [Machine::open(), Machine::host()];
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let array = array(&mut draw);
        let sigma = [(); 3].map(|()| draw.pick(&[0.0, 0.3, 1.0, 2.0, 2.3, 4.1, 7.8]));
        let filter = Gaussian::new(sigma, draw.pick(&Edges::ALL)).unwrap();
        let x = gaussian::elements(&mut draw, &array);
        agrees(&machines, &filter, &array, &x, seed);
    }
}

#[test]
fn an_extremum_has_the_bits_of_its_twin() {
    let machines = [Machine::open(), Machine::host()];
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let array = array(&mut draw);
        let radius = [2, 31, 31].map(|most| draw.to(most) as u32);
        let edges = draw.pick(&Edges::ALL);
        let filter = if draw.to(1) == 0 {
            Extremum::minimum(radius, edges)
        } else {
            Extremum::maximum(radius, edges)
        };
        let x = draw.elements(&array);
        agrees(&machines, &filter.unwrap(), &array, &x, seed);
    }
}

#[test]
fn a_rank_filter_has_the_bits_of_its_twin() {
    let machines = [Machine::open(), Machine::host()];
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let array = array(&mut draw);
        let radius = draw.pick(&[[1, 1, 1], [1, 1, 1], [0, 2, 3], [1, 2, 1]]);
        let filter = Rank::median(radius, draw.pick(&Edges::ALL)).unwrap();
        let x = draw.elements(&array);
        agrees(&machines, &filter, &array, &x, seed);
    }
}
