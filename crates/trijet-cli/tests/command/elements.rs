//! Byte orders and orders of elements of an input do not change the output.

use crate::files::{dictionary, npy};
use crate::workdir::{Workdir, noise};

/// The shape of the stack.
const SHAPE: [usize; 3] = [4, 10, 6];

/// The numbers of a stack, in C order.
fn numbers() -> Vec<u16> {
    noise(2 * SHAPE.iter().product::<usize>(), 9)
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| u16::from_le_bytes(*pair))
        .collect()
}

/// The same numbers, in Fortran order.
fn fortran(numbers: &[u16]) -> Vec<u16> {
    let [images, rows, columns] = SHAPE;
    let at = |n: usize| (n % images * rows + n / images % rows) * columns + n / images / rows;
    (0..numbers.len()).map(|n| numbers[at(n)]).collect()
}

fn little(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn big(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

#[test]
fn an_input_of_any_order_gives_the_same_output() {
    let workdir = Workdir::new();
    let numbers = numbers();
    workdir.npy("in.npy", "<u2", &SHAPE, &little(&numbers));
    workdir.npy("big.npy", ">u2", &SHAPE, &big(&numbers));
    let transposed = |descr, data: Vec<u8>| npy(&dictionary(descr, "True", "(4, 10, 6)"), &data);
    workdir.file("fortran.npy", &transposed("<u2", little(&fortran(&numbers))));
    workdir.file("both.npy", &transposed(">u2", big(&fortran(&numbers))));
    workdir.file("big.raw", &[&[3; 7], &big(&numbers)[..]].concat());
    workdir.file("little.raw", &[&[3; 7], &little(&numbers)[..]].concat());
    let operations = ["--op", "median:1", "--op", "affine:0.5,7", "--chunk", "60"];
    let map = |input: &str, out: &str, more: &[&str]| {
        workdir.map(&[&[input, "-o", out], &operations[..], more].concat()).done();
        workdir.read(out)
    };
    let expected = map("in.npy", "out.npy", &[]);
    for input in ["big", "fortran", "both"] {
        let found = map(&format!("{input}.npy"), &format!("out-{input}.npy"), &[]);
        assert!(found == expected, "{input}");
    }
    let described = ["--shape=4x10x6", "--dtype=u16", "--header=7", "--endian"];
    for order in ["big", "little"] {
        let more = [&described[..], &[order]].concat();
        let found = map(&format!("{order}.raw"), &format!("raw-{order}.npy"), &more);
        assert!(found == expected, "{order}");
    }
}

#[test]
fn a_byte_order_is_for_raw_inputs() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &SHAPE, &little(&numbers()));
    let call = ["in.npy", "-o", "out.npy", "--op", "affine", "--endian"];
    workdir.map(&[&call[..], &["big"]].concat()).refused(2, &["--shape"]);
    workdir.map(&[&call[..], &["middle"]].concat()).refused(2, &["--endian", "little", "big"]);
    assert_eq!(workdir.names(), ["in.npy"]);
}
