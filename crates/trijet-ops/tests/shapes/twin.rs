//! Arrays of many blocks, on which a GPU gives the bits of the twins.

use crate::draw::Draw;
use crate::rows::whole_and_parts;
use trijet::{Device, Select};
use trijet_ops::{Convert, Crop, Operation, Typed, apply};

/// The number of drawn arrays of a test.
const ARRAYS: u64 = 80;

fn array(draw: &mut Draw) -> Typed {
    let width = draw.between(1, 200);
    let width = if draw.between(0, 1) == 0 { width.next_multiple_of(16) } else { width };
    Typed::new(draw.dtype(), vec![draw.between(1, 3), draw.between(1, 30), width])
}

/// Runs an operation on a GPU, if there is one, and on a host device.
fn agrees(operation: &dyn Operation, array: &Typed, draw: &mut Draw) {
    let [gpu, host] = [Select::Auto, Select::Host(0)].map(|one| Device::open(one).unwrap());
    let x = draw.bytes(array);
    let expected = apply(&host, operation, array, &x).unwrap();
    let found = whole_and_parts(&gpu, operation, array, &x, draw).unwrap();
    assert!(found == expected, "{operation:?} of {array}");
}

#[test]
fn a_conversion_has_the_bits_of_its_twin() {
    for seed in 0..2 * ARRAYS {
        let mut draw = Draw::new(seed);
        let array = array(&mut draw);
        let convert = Convert { to: draw.dtype(), range: None };
        agrees(&convert, &array, &mut draw);
    }
}

#[test]
fn a_crop_has_the_bits_of_its_twin() {
    for seed in 0..ARRAYS {
        let mut draw = Draw::new(seed);
        let array = array(&mut draw);
        let unit = draw.one_of(&[1, 2, 4, 8]);
        let mut range = |all: u64| {
            let start = draw.between(0, all - 1) / unit * unit;
            start..draw.between(start + 1, all).next_multiple_of(unit).min(all)
        };
        let crop = Crop { y: range(array.shape[1]), x: range(array.shape[2]) };
        agrees(&crop, &array, &mut draw);
    }
}
