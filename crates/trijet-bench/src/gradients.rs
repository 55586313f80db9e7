//! The backward pass of linear layers on all devices of the host. At the same time, the gradients
//! are summed over the devices. The sums are made by copies and kernels of the library and by NCCL,
//! in buckets of several sizes. The comparison is DistributedDataParallel of PyTorch.
//!
//! The exposed time of communication is the time by which a step is longer than the backward pass
//! alone. A step ends when all sums are complete.
#![forbid(unsafe_code)]

use crate::gemm::product;
use crate::peer::{self, Peer};
use crate::results::Results;
use crate::rounds::{Side, Value};
use crate::setting::Setting;
use crate::turns::record;
use serde::Deserialize;
use std::cell::RefCell;
use trijet::kernels::Sum;
use trijet::kernels::gemm::bf16;
use trijet::training::{BucketPlan, GradientBuckets, Transport};
use trijet::{Buffer, Bytes, Device, Error, ErrorKind, Result, Stream, TimedEvent, ViewMut};
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    samples: usize,
    models: Vec<Model>,
    peers: Vec<Peer>,
}

#[derive(Debug, Clone, Deserialize)]
struct Model {
    layers: usize,
    width: usize,
    batches: Vec<usize>,
    mib: Vec<u64>,
}

type Gradients = GradientBuckets<bf16, Sum>;

/// The modulus of digests, a prime.
const PRIME: u64 = (1 << 31) - 1;

/// A whole number from -4 to 4.
fn number(at: u64, salt: u64) -> bf16 {
    let mixed = (at.wrapping_mul(2_654_435_761).wrapping_add(salt * 40_503) % (1 << 32)) >> 13;
    bf16::from_f32((mixed % 9) as f32 - 4.0)
}

/// Continues the digest `before` with every bit of a gradient, and returns the new digest.
fn digest(before: u64, gradient: &[bf16]) -> u64 {
    let of_place = |(at, value): (u64, &bf16)| u64::from(value.to_bits()) * (at * 40_503 % 65_521);
    let sum: u64 = (0..).zip(gradient).map(of_place).sum();
    (before * 31 + sum % PRIME) % PRIME
}

/// A rank of the backward pass: a device with the matrices of its products.
struct Rank {
    stream: Stream,
    width: usize,
    batch: usize,
    /// The first matrix of a layer is a part of `left`. The part starts at a different row for each
    /// layer.
    left: Buffer<bf16>,
    right: Buffer<bf16>,
    incoming: Buffer<bf16>,
    other: Buffer<bf16>,
    outgoing: Buffer<bf16>,
    multiprocessors: u32,
    begin: TimedEvent,
    computed: TimedEvent,
    end: TimedEvent,
    last: Buffer<bf16>,
}

impl Rank {
    /// An element of a gradient is zero on all but two of `ranks` devices, because a sum of more
    /// elements has several right values: bf16 rounds after each addition.
    fn new(device: &Device, (rank, ranks): (u64, u64), of: &Model, batch: usize) -> Result<Self> {
        let (stream, width) = (device.stream()?, of.width);
        let numbers = |len: usize, salt| (0..len as u64).map(move |at| number(at, salt));
        let matrix = |len, salt| stream.upload(&numbers(len, salt).collect::<Vec<_>>());
        let pair = |at: u64| at / batch as u64 % ranks.div_ceil(2);
        let of_pair = |(at, number)| if pair(at) == rank / 2 { number } else { bf16::ZERO };
        let right: Vec<_> = (0..).zip(numbers(width * batch, 2 * rank + 1)).map(of_pair).collect();
        Ok(Self {
            left: matrix((width + of.layers) * batch, 2 * rank)?,
            right: stream.upload(&right)?,
            incoming: matrix(batch * width, 101)?,
            other: matrix(width * width, 103)?,
            outgoing: stream.alloc(batch * width)?,
            last: stream.alloc(1)?,
            multiprocessors: device.info().multiprocessors,
            begin: device.timed_event()?,
            computed: device.timed_event()?,
            end: device.timed_event()?,
            stream,
            width,
            batch,
        })
    }

    /// Enqueues the two products of a layer.
    fn layer(&mut self, layer: usize, gradient: ViewMut<'_, bf16>) -> Result<()> {
        let (width, batch) = (self.width, self.batch);
        let (s, multiprocessors) = (&self.stream, self.multiprocessors);
        let back = [self.incoming.view(), self.other.view()];
        product(s, multiprocessors, back, self.outgoing.view_mut(), [batch, width, width])?;
        let rows = self.left.slice(layer * batch..(layer + width) * batch);
        let factors = [rows, self.right.view()];
        product(s, multiprocessors, factors, gradient, [width, width, batch])
    }
}

/// The parts of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Products,
    Sums,
    Both,
}

/// The ranks of a model.
struct Ranks {
    ranks: Vec<Rank>,
    layers: usize,
}

impl Ranks {
    fn new(devices: &[Device], model: &Model, batch: usize) -> Result<Self> {
        let ranks = devices.len() as u64;
        let rank = |(rank, device)| Rank::new(device, (rank, ranks), model, batch);
        let ranks = (0..).zip(devices).map(rank).collect::<Result<_>>()?;
        Ok(Self { ranks, layers: model.layers })
    }

    /// Enqueues the products of a backward pass, the sums of its gradients, or both.
    fn step(&mut self, gradients: &mut Gradients, part: Part) -> Result<()> {
        gradients.begin()?;
        for rank in &self.ranks {
            rank.begin.record(&rank.stream)?;
        }
        for layer in (0..self.layers).rev() {
            for (number, rank) in self.ranks.iter_mut().enumerate() {
                if part != Part::Sums {
                    rank.layer(layer, gradients.gradient_mut(number, layer))?;
                }
            }
            if part != Part::Products {
                gradients.ready(layer)?;
            }
        }
        for rank in &self.ranks {
            rank.computed.record(&rank.stream)?;
        }
        if part != Part::Products {
            gradients.finish()?;
        }
        // The last gradient of `order()` is in the last bucket. The buckets are combined one after
        // another. So all buckets are complete when this gradient is complete.
        let last = *gradients.order().last().expect("a gradient");
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            rank.stream.copy(&gradients.gradient(number, last).slice(..1), &mut rank.last)?;
            rank.end.record(&rank.stream)?;
        }
        Ok(())
    }

    /// The milliseconds of a step and of its products. Each is the maximum over the devices.
    fn timed(&mut self, gradients: &mut Gradients, part: Part) -> Result<Vec<Value>> {
        for rank in &self.ranks {
            rank.stream.synchronize()?;
        }
        self.step(gradients, part)?;
        let mut longest = [0.0_f64; 2];
        for rank in &self.ranks {
            rank.stream.synchronize()?;
            for (longest, event) in longest.iter_mut().zip([&rank.end, &rank.computed]) {
                *longest = longest.max(event.elapsed_since(&rank.begin)?.seconds() * 1e3);
            }
        }
        let [step, products] = longest;
        Ok(vec![Value::new("step", "ms", step), Value::new("products", "ms", products)])
    }

    /// The digest of the gradients. All devices must have the same digest.
    fn digest(&self, gradients: &Gradients) -> Result<u64> {
        let mut digests = Vec::new();
        for (number, rank) in self.ranks.iter().enumerate() {
            let mut all = 0;
            for layer in 0..self.layers {
                all = digest(all, &rank.stream.download(&gradients.gradient(number, layer))?);
            }
            digests.push(all);
        }
        match digests.iter().all(|one| *one == digests[0]) {
            true => Ok(digests[0]),
            false => Err(wrong(format!("the devices have different sums: {digests:?}"))),
        }
    }
}

fn wrong(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench gradients", cause)
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; `NoDevice` on a host with one GPU; `OutOfMemory`;
/// `Cancelled`; every error of a device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let devices = setting.devices_for("a sum of gradients")?;
    measure(setting, &devices, definition, steps)
}

fn measure(
    setting: &Setting<'_>,
    devices: &[Device],
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let mut results = Results::of_device(setting.device);
    results.note("devices", devices.len().to_string());
    results.note(
        "verified",
        "the digest of all sums was the same on all devices, for all plans and for all programs",
    );
    let count: usize = definition.models.iter().map(|model| model.batches.len()).sum();
    steps.expect((count + definition.models.len() * definition.peers.len()) as u64);
    for model in &definition.models {
        let Model { layers, width, .. } = model;
        let mut digests = Vec::new();
        for batch in &model.batches {
            let name = format!("{layers} layers of {width}, batch {batch}");
            steps.begin(&name);
            let case = BatchCase { model, batch: *batch, name: &name, samples: definition.samples };
            digests.push(ours(setting, devices, case, &mut results)?);
        }
        let joined = |all: Vec<String>| vec![all.join(",")];
        let words = [
            ("layers", vec![layers.to_string()]),
            ("width", vec![width.to_string()]),
            ("batches", joined(model.batches.iter().map(ToString::to_string).collect())),
            ("mib", joined(model.mib.iter().map(ToString::to_string).collect())),
            ("digests", joined(digests.iter().map(ToString::to_string).collect())),
        ];
        if !definition.peers.is_empty() {
            steps.begin(&format!("{layers} layers of {width}, peers"));
        }
        peer::figures(&definition.peers, definition.samples, &words, &mut results)?;
    }
    Ok(results)
}

/// One batch of a model, with the name and the number of samples of its measurement.
#[derive(Debug, Clone, Copy)]
struct BatchCase<'a> {
    model: &'a Model,
    /// The number of rows of the batch.
    batch: usize,
    name: &'a str,
    samples: usize,
}

/// Measures one batch of a model: the backward pass alone, each plan, and the plan that the library
/// chooses by measurement. Returns the digest of the sums.
fn ours(
    setting: &Setting<'_>,
    devices: &[Device],
    case: BatchCase<'_>,
    results: &mut Results,
) -> Result<u64> {
    let BatchCase { model, batch, name, samples } = case;
    let lens = vec![model.width * model.width; model.layers];
    let mut gradients = Gradients::new(devices, &lens, Sum)?;
    let mut ranks = Ranks::new(devices, model, batch)?;
    let plans = plans(model, &mut gradients);
    let times =
        gradients.tune(&BucketPlan::candidates(), |gradients| ranks.step(gradients, Part::Both))?;
    let chosen = gradients.plan();
    results.note(format!("{name}: chosen of {} plans", times.len()), describe(chosen));
    let all: Vec<_> = plans.iter().copied().chain([chosen]).collect();
    let digest = digest_of_all(&all, &mut gradients, &mut ranks)?;
    let both = RefCell::new((gradients, ranks));
    let run = |plan: BucketPlan, part| {
        let (gradients, ranks) = &mut *both.borrow_mut();
        if gradients.plan() != plan {
            gradients.set_plan(plan)?;
            ranks.step(gradients, part)?;
        }
        ranks.timed(gradients, part)
    };
    let mut sides = vec![
        Side::new("backward alone", || run(plans[0], Part::Products)),
        Side::new("the chosen plan, sums alone", || run(chosen, Part::Sums)),
    ];
    for plan in &plans {
        sides.push(Side::new(describe(*plan), || run(*plan, Part::Both)));
    }
    sides.push(Side::new("the chosen plan", || run(chosen, Part::Both)));
    record(setting, &mut sides, samples, |side| format!("{name}, {side}"), results)?;
    let (alone, products) = (sides[0].median("step"), sides[0].median("products"));
    for side in &sides[2..] {
        let mut push = |what, unit, value| {
            results.push(format!("{name}, {}: {what}", side.name), unit, Samples::one(value), None);
        };
        push("exposed", "ms", side.median("step") - alone);
        push("products over those alone", "", side.median("products") / products);
    }
    let sums = sides[1].median("step");
    let exposed = sides[sides.len() - 1].median("step") - alone;
    let hidden = Samples::one(1.0 - exposed / sums);
    results.push(format!("{name}, the chosen plan: hidden share of the sums"), "", hidden, None);
    drop(sides);
    let (mut gradients, mut ranks) = both.into_inner();
    match digest_of_all(&all, &mut gradients, &mut ranks)? == digest {
        true => Ok(digest),
        false => Err(wrong(format!("{name}: at the end, the sums differ from the first sums"))),
    }
}

/// The digest of the sums. Returns an error if two plans have different digests.
fn digest_of_all(
    plans: &[BucketPlan],
    gradients: &mut Gradients,
    ranks: &mut Ranks,
) -> Result<u64> {
    let mut first = None;
    for plan in plans {
        gradients.set_plan(*plan)?;
        ranks.step(gradients, Part::Both)?;
        let digest = ranks.digest(gradients)?;
        if *first.get_or_insert(digest) != digest {
            return Err(wrong(format!(
                "{}: the sums differ from the sums of the first plan",
                describe(*plan)
            )));
        }
    }
    first.ok_or_else(|| wrong("no plan".to_owned()))
}

fn describe(plan: BucketPlan) -> String {
    let transport = match plan.transport {
        Transport::Copies => "copies",
        Transport::Nccl => "NCCL",
    };
    match plan.first == plan.rest {
        true => format!("{transport}, buckets of {}", plan.rest),
        false => format!("{transport}, buckets of {} after {}", plan.rest, plan.first),
    }
}

/// One plan for each bucket size of the model and each available transport.
fn plans(model: &Model, gradients: &mut Gradients) -> Vec<BucketPlan> {
    let mut plans = Vec::new();
    for transport in [Transport::Copies, Transport::Nccl] {
        for mib in &model.mib {
            let plan = BucketPlan { transport, first: Bytes(mib << 20), rest: Bytes(mib << 20) };
            if gradients.set_plan(plan).is_ok() {
                plans.push(plan);
            }
        }
    }
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{ByDevice, parse};
    use crate::setting::checked_device;
    use trijet::sim::{HostConfig, Order};

    /// The digest of the sums over `ranks` ranks, computed by the host.
    fn digest_of_host(ranks: u64, Model { layers, width, .. }: &Model, batch: usize) -> u64 {
        let mut all = 0;
        for layer in 0..*layers {
            let mut sums = Vec::new();
            for place in 0..width * width {
                let (row, column) = (place / width + layer, place % width);
                let of_rank = |rank: u64| {
                    let product = |k: usize| {
                        let [a, b] = [row, column].map(|row| (row * batch + k) as u64);
                        number(a, 2 * rank).to_f32() * number(b, 2 * rank + 1).to_f32()
                    };
                    bf16::from_f32((0..batch).map(product).sum()).to_f32()
                };
                let first = 2 * (column as u64 % ranks.div_ceil(2));
                sums.push(bf16::from_f32((first..ranks).take(2).map(of_rank).sum()));
            }
            all = digest(all, &sums);
        }
        all
    }

    #[test]
    fn each_plan_has_an_exposed_time_and_the_sums_are_those_of_the_host() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let devices = Device::host(HostConfig::new().devices(4))?;
        let text = include_str!("../definitions/gradients.toml");
        let host = parse::<ByDevice<Definition>>(text)?.host;
        let setting = Setting::for_tests(&device);
        let mut show = |_: trijet_tools::progress::Step<'_>| ();
        let mut steps = Steps::new(&mut show);
        let printed = measure(&setting, &devices[..2], &host, &mut steps)?.to_string();
        for part in ["backward alone: step", "copies, buckets of 1 MiB: exposed", "the chosen plan"]
        {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        let mut results = Results::of_device(&device);
        for count in 2..=4 {
            let (model, batch) = (&host.models[0], 8);
            let case = BatchCase { model, batch, name: "", samples: 1 };
            let found = ours(&setting, &devices[..count], case, &mut results)?;
            assert_eq!(found, digest_of_host(count as u64, model, batch), "{count} devices");
        }
        Ok(())
    }
}
