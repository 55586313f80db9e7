//! The results of `scipy.ndimage`, which `reference/windows.py` wrote.

use crate::run::Machine;
use trijet::Result;
use trijet::kernels::median::Edges;
use trijet_ops::{Background, Extremum, Gaussian, Operation, Rank, Typed};

const CASES: &str = include_str!("../reference/windows.txt");
const ARRAYS: &[u8] = include_bytes!("../reference/windows.bin");

/// The operation with these parameters: a radius or three standard deviations, then a rank.
fn operation(name: &str, parameters: &[f64], edges: Edges) -> Result<Box<dyn Operation>> {
    let whole = |value: f64| value as u32;
    let radius = [0, 1, 2].map(|axis| whole(parameters[axis]));
    Ok(match name {
        "percentile" => Box::new(Rank::percentile(radius, parameters[3], edges)?),
        "rank" => Box::new(Rank::nth(radius, whole(parameters[3]), edges)?),
        "median" => Box::new(Rank::median(radius, edges)?),
        "minimum" => Box::new(Extremum::minimum(radius, edges)?),
        "maximum" => Box::new(Extremum::maximum(radius, edges)?),
        "opening" => Box::new(Background::opening(radius, edges)?),
        "gaussian" => Box::new(Gaussian::new([0, 1, 2].map(|axis| parameters[axis]), edges)?),
        other => panic!("the reference has the operation {other}"),
    })
}

fn edges(name: &str) -> Edges {
    Edges::ALL.into_iter().find(|edges| edges.to_string() == name).unwrap()
}

#[test]
fn every_case_of_the_reference_has_the_bits_of_scipy() {
    let machine = Machine::open();
    let mut rest = ARRAYS;
    for case in CASES.lines().skip(1) {
        let parts: Vec<&str> = case.split(", ").collect();
        let &[name, parameters, edge, dtype, shape] = &parts[..] else { panic!("{case}") };
        let parameters: Vec<f64> = parameters.split(' ').map(|one| one.parse().unwrap()).collect();
        let shape = shape.split('x').map(|axis| axis.parse().unwrap()).collect();
        let array = Typed::new(dtype.parse().unwrap(), shape);
        let bytes = (array.shape.iter().product::<u64>() * array.dtype.bytes()) as usize;
        let (x, after) = rest.split_at(bytes);
        let (expected, after) = after.split_at(bytes);
        rest = after;
        let operation = operation(name, &parameters, edges(edge)).unwrap();
        assert_eq!(machine.whole(&*operation, &array, x).unwrap(), expected, "{case}");
    }
    assert!(rest.is_empty(), "every array belongs to a case");
    assert!(CASES.lines().count() > 400, "cases for each type and edge");
}
