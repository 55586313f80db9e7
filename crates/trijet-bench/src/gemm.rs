//! Products of bf16 matrices on tensor cores, compared with cuBLAS. There are large and small
//! products, and chains of small products in a graph, as ordinary and as dependent launches.
#![forbid(unsafe_code)]

use crate::peer::{self, Peer};
use crate::results::Results;
use crate::rounds::{Side, Value};
use crate::setting::Setting;
use crate::turns::record;
use serde::Deserialize;
use trijet::graph::Graph;
use trijet::kernels::gemm::{MATMUL, bf16, config, left, result, right};
use trijet::testing::Prng;
use trijet::{
    Buffer, Device, Error, ErrorKind, LaunchConfig, Result, Stream, TimedEvent, Uses, View, ViewMut,
};
use trijet_tools::progress::Steps;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    samples: usize,
    /// The number of launches in a sample.
    launches: u32,
    /// The sizes `[m, n, k]` of each product: an m x k matrix times a k x n matrix.
    products: Vec<[u32; 3]>,
    /// The number of products of a chain.
    length: u32,
    /// The sizes `[m, n]` of the products of each chain. Each product is a multiplication by a
    /// square matrix.
    chains: Vec<[u32; 2]>,
    #[serde(default)]
    peers: Vec<Peer>,
}

/// The number of elements of a result that the host computes again. The elements differ from sample
/// to sample.
const CHECKED: usize = 64;

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench gemm", format!("{what} has a wrong element"))
}

/// Whole numbers from -4 to 4, so that their products and sums are exact.
fn numbers(draw: &mut Prng, len: usize) -> Vec<bf16> {
    let mut number = || bf16::from_f32(f32::from(u8::try_from(draw.below(9)).unwrap_or(0)) - 4.0);
    (0..len).map(|_| number()).collect()
}

/// Enqueues `d = a * b^T`, where `a` is m x k, `b` is n x k, and `d` is m x n. `multiprocessors` is
/// the number of multiprocessors of the device.
pub(crate) fn product(
    stream: &Stream,
    multiprocessors: u32,
    [a, b]: [View<'_, bf16>; 2],
    d: ViewMut<'_, bf16>,
    [m, n, k]: [usize; 3],
) -> Result<()> {
    let sizes = [m, n, k].map(|side| u32::try_from(side).expect("a side of a matrix"));
    let config = config(sizes[0], sizes[1], multiprocessors);
    let args = (left(a, [m, k], k)?, right(b, [n, k], k)?, result(d, [m, n], n)?, sizes);
    stream.launch_with(&MATMUL, config, args)
}

/// A product that is launched many times.
struct Product {
    stream: Stream,
    sizes: [u32; 3],
    launches: u32,
    config: LaunchConfig,
    host: [Vec<bf16>; 2],
    a: Buffer<bf16>,
    b: Buffer<bf16>,
    d: Buffer<bf16>,
    between: [TimedEvent; 2],
    draw: Prng,
}

impl Product {
    fn new(device: &Device, sizes: [u32; 3], launches: u32) -> Result<Self> {
        let [m, n, k] = sizes.map(|side| side as usize);
        let (stream, mut draw) = (device.stream()?, Prng::new(1));
        let host = [numbers(&mut draw, m * k), numbers(&mut draw, n * k)];
        let (a, b) = (stream.upload(&host[0])?, stream.upload(&host[1])?);
        let d = stream.alloc_zeroed(m * n)?;
        let config = config(sizes[0], sizes[1], device.info().multiprocessors);
        let between = [device.timed_event()?, device.timed_event()?];
        Ok(Self { stream, sizes, launches, config, host, a, b, d, between, draw })
    }

    fn sample(&mut self) -> Result<Vec<Value>> {
        let [m, n, k] = self.sizes.map(|side| side as usize);
        let Self { stream: s, a, b, d, between, .. } = self;
        s.fill_bytes(d, 0xff)?;
        s.synchronize()?;
        between[0].record(s)?;
        for _ in 0..self.launches {
            let args = (
                left(a.view(), [m, k], k)?,
                right(b.view(), [n, k], k)?,
                result(d.view_mut(), [m, n], n)?,
                self.sizes,
            );
            s.launch_with(&MATMUL, self.config, args)?;
        }
        between[1].record(s)?;
        let found = s.download(d)?;
        for _ in 0..CHECKED {
            let at = usize::try_from(self.draw.below((m * n) as u64)).unwrap_or(0);
            let [a, b] = &self.host;
            let (a, b) = (&a[at / n * k..][..k], &b[at % n * k..][..k]);
            let wanted: f32 = a.iter().zip(b).map(|(a, b)| a.to_f32() * b.to_f32()).sum();
            if found[at] != bf16::from_f32(wanted) {
                return Err(wrong("a product"));
            }
        }
        let seconds = between[1].elapsed_since(&between[0])?.seconds() / f64::from(self.launches);
        Ok(values(seconds, self.sizes))
    }
}

fn values(seconds: f64, sizes: [u32; 3]) -> Vec<Value> {
    let value = |what: &str, unit: &str, value| {
        let (what, unit) = (what.to_owned(), unit.to_owned());
        Value { what, unit, value }
    };
    let operations = 2.0 * sizes.map(f64::from).iter().product::<f64>();
    vec![
        value("each product", "us", seconds * 1e6),
        value("rate", "TFLOP/s", operations / seconds / 1e12),
    ]
}

/// A chain in a graph. Each product multiplies the result of the previous product.
struct Chain {
    stream: Stream,
    sizes: [u32; 3],
    length: u32,
    first: Buffer<bf16>,
    x: [Buffer<bf16>; 2],
    w: Buffer<bf16>,
    graph: Graph,
    wanted: Vec<bf16>,
    between: [TimedEvent; 2],
}

impl Chain {
    /// Makes a chain. `w` permutes the columns and changes some signs, so results stay small and
    /// exact.
    fn new(device: &Device, [m, n]: [u32; 2], length: u32, is_dependent: bool) -> Result<Self> {
        let (stream, sizes, mut draw) = (device.stream()?, [m, n, n], Prng::new(2));
        let config = config(m, n, device.info().multiprocessors);
        let config = if is_dependent { config.dependent() } else { config };
        let (rows, width) = (m as usize, n as usize);
        let start = numbers(&mut draw, rows * width);
        let (mut w, shift) = (vec![bf16::ZERO; width * width], width / 3 + 1);
        let place = |column: usize| (column + shift) % width;
        let sign = |column: usize| if column.is_multiple_of(3) { bf16::NEG_ONE } else { bf16::ONE };
        (0..width).for_each(|column| w[column * width + place(column)] = sign(column));
        let mut wanted = start.clone();
        for _ in 0..length {
            let next = |row: &[bf16]| -> Vec<bf16> {
                (0..width).map(|column| row[place(column)] * sign(column)).collect()
            };
            wanted = wanted.chunks(width).flat_map(next).collect();
        }
        let (first, w) = (stream.upload(&start)?, stream.upload(&w)?);
        let mut x = [stream.alloc::<bf16>(rows * width)?, stream.alloc::<bf16>(rows * width)?];
        let graph = device.record(|g| {
            x.iter().try_for_each(|buffer| g.argument(buffer))?;
            g.argument(&w)?;
            let s = g.stream()?;
            (0..length).try_for_each(|turn| {
                let [one, other] = &mut x;
                let (from, to) = if turn % 2 == 0 { (one, other) } else { (other, one) };
                let args = (
                    left(from.view(), [rows, width], width)?,
                    right(w.view(), [width, width], width)?,
                    result(to.view_mut(), [rows, width], width)?,
                    sizes,
                );
                s.launch_with(&MATMUL, config, args)
            })
        })?;
        let between = [device.timed_event()?, device.timed_event()?];
        Ok(Self { stream, sizes, length, first, x, w, graph, wanted, between })
    }

    fn sample(&mut self) -> Result<Vec<Value>> {
        let Self { stream: s, first, x: [x, y], w, graph, between, length, .. } = self;
        s.copy(&*first, x)?;
        s.synchronize()?;
        between[0].record(s)?;
        let arguments = Uses::new().write(x.view_mut()).write(y.view_mut()).read(w.view());
        s.launch_graph(graph, arguments)?;
        between[1].record(s)?;
        if s.download(if *length % 2 == 0 { x } else { y })? != self.wanted {
            return Err(wrong("a chain of products"));
        }
        let seconds = between[1].elapsed_since(&between[0])?.seconds() / f64::from(*length);
        Ok(values(seconds, self.sizes))
    }
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; `Cancelled`; every error of the device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let Definition { samples, launches, products, length, chains, peers } = definition;
    let device = setting.device;
    steps.expect((products.len() + chains.len() + 1) as u64);
    let mut results = Results::of_device(device);
    results.note("verified", "drawn elements of each product, and all of each chain");
    for sizes in products {
        let name = sizes.map(|side| side.to_string()).join(" x ");
        steps.begin(&name);
        let mut product = Product::new(device, *sizes, *launches)?;
        let mut sides = [Side::new("launches", || product.sample())];
        record(setting, &mut sides, *samples, |_| name.clone(), &mut results)?;
    }
    for sizes in chains {
        let name = format!("{length} products of {} x {} x {}", sizes[0], sizes[1], sizes[1]);
        steps.begin(&name);
        let mut ordinary = Chain::new(device, *sizes, *length, false)?;
        let mut dependent = Chain::new(device, *sizes, *length, true)?;
        let mut sides = [
            Side::new("ordinary", || ordinary.sample()),
            Side::new("dependent", || dependent.sample()),
        ];
        let named = |side: &str| format!("{name} in a graph, {side}");
        record(setting, &mut sides, *samples, named, &mut results)?;
    }
    steps.begin("peers");
    peer::figures(peers, *samples, &[], &mut results)?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{assert_no_finding, checked_device};
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    #[test]
    fn each_product_and_chain_has_its_time_and_right_elements() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let definition = Definition {
            samples: 2,
            launches: 2,
            products: vec![[20, 40, 72]],
            length: 3,
            chains: vec![[5, 16]],
            peers: Vec::new(),
        };
        let mut show = |_: Step<'_>| ();
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &definition, &mut Steps::new(&mut show))?.to_string();
        for row in [
            "20 x 40 x 72: each product",
            "20 x 40 x 72: rate",
            "3 products of 5 x 16 x 16 in a graph, ordinary: each product",
            "3 products of 5 x 16 x 16 in a graph, dependent: each product",
        ] {
            assert!(printed.contains(row), "{row}: {printed}");
        }
        assert_no_finding(&device, 10);
        Ok(())
    }

    #[test]
    fn a_result_that_is_wrong_is_an_error() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let mut product = Product::new(&device, [8, 8, 8], 1)?;
        product.host[0].iter_mut().for_each(|x| *x = bf16::from_f32(1000.0));
        assert_eq!(product.sample().expect_err("others").kind(), ErrorKind::InvalidValue);
        let mut chain = Chain::new(&device, [4, 16], 3, false)?;
        chain.wanted[5] = bf16::from_f32(1000.0);
        assert_eq!(chain.sample().expect_err("another").kind(), ErrorKind::InvalidValue);
        Ok(())
    }
}
