//! The cases of `cases.txt`, which `make.py` writes with the libraries of Python.

use crate::chains;
use trijet_codecs::Chain;

/// A block that another library encoded.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) chain: Chain,
    pub(crate) elements: Vec<u8>,
    pub(crate) stored: Vec<u8>,
}

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let lines = include_str!("cases.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(case).collect()
}

fn case(line: &'static str) -> Case {
    let mut words = line.split(' ');
    let mut word = || words.next().expect("a line has four words");
    let (name, kind, length, stored) = (word(), word(), word(), word());
    let length = length.parse().expect("a length");
    let chain = Chain::new(chains::of(name));
    Case { name, chain, elements: elements(kind, length), stored: bytes(stored) }
}

fn bytes(hex: &str) -> Vec<u8> {
    let (pairs, _) = hex.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit - b'a' + 10,
    };
    pairs.iter().map(|&[upper, lower]| digit(upper) << 4 | digit(lower)).collect()
}

/// The lower 16 bits, in little-endian order.
fn lower_half(number: u32) -> [u8; 2] {
    let [first, second, ..] = number.to_le_bytes();
    [first, second]
}

/// The elements of a kind, as in `make.py`.
fn elements(kind: &str, length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    let numbers = 0..u32::try_from(length).expect("a short case");
    let mut elements: Vec<u8> = match kind {
        "zeros" => vec![0; length],
        "noise" => noise,
        "steps" => numbers.flat_map(|n| lower_half(n / 5 * 7)).collect(),
        "counts" => noise.iter().flat_map(|n| u16::from(100 + (n & 7)).to_le_bytes()).collect(),
        "floats" => numbers.flat_map(|n| (n as f32 * 0.25).to_le_bytes()).collect(),
        "far" => (0..length)
            .map(|n| Some(n % 9000).filter(|&n| n < 200).map_or(0, |n| noise[n]))
            .collect(),
        other => panic!("`{other}` is no kind of elements"),
    };
    elements.truncate(length);
    elements
}
