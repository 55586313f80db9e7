//! A model in equal stages, one on each device, with each order of its micro-batches. The
//! comparison is the same stages on one device.
#![forbid(unsafe_code)]

use crate::gemm::product;
use crate::results::Results;
use crate::rounds::{Side, Value, round, warm_up};
use crate::setting::Setting;
use serde::Deserialize;
use std::cell::RefCell;
use std::time::Instant;
use trijet::kernels::gemm::bf16;
use trijet::training::{Direction, LayerPipeline, MicroBatchOrder, StageWork};
use trijet::{Buffer, Device, Error, ErrorKind, Result, Stream, View, ViewMut};
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    samples: usize,
    /// The layers of the whole model.
    layers: usize,
    width: usize,
    rows: usize,
    micro_batches: Vec<usize>,
}

/// The column that a layer copies to `column`, and whether the layer changes the sign of the
/// elements in this column.
fn source(column: usize, width: usize) -> (usize, bool) {
    ((column + width / 3 + 1) % width, column.is_multiple_of(3))
}

/// The matrix of a layer, and the transposed matrix.
fn matrices(width: usize) -> [Vec<bf16>; 2] {
    let mut both = [(); 2].map(|()| vec![bf16::ZERO; width * width]);
    for column in 0..width {
        let (from, is_negative) = source(column, width);
        let sign = if is_negative { bf16::NEG_ONE } else { bf16::ONE };
        both[0][column * width + from] = sign;
        both[1][from * width + column] = sign;
    }
    both
}

/// A whole number from -4 to 4.
fn number(at: usize) -> bf16 {
    bf16::from_f32((at * 31 % 9) as f32 - 4.0)
}

/// A pass of one micro-batch through a stage of the model.
#[derive(Debug, Clone, Copy)]
struct StagePass<'a> {
    stream: &'a Stream,
    direction: Direction,
    definition: &'a Definition,
}

/// The layers of a stage on a device.
struct StageLayers {
    layers: usize,
    weights: Buffer<bf16>,
    transposed: Buffer<bf16>,
    /// The activations between two layers. The layers use the two buffers alternately.
    between: [Buffer<bf16>; 2],
    /// The result of the second product of a layer in the backward pass: the gradient of the
    /// weights.
    of_weights: Buffer<bf16>,
    multiprocessors: u32,
}

impl StageLayers {
    fn new(
        device: &Device,
        layers: usize,
        Definition { width, rows, .. }: &Definition,
    ) -> Result<Self> {
        let (s, [weights, transposed]) = (device.stream()?, matrices(*width));
        Ok(Self {
            layers,
            weights: s.upload(&weights)?,
            transposed: s.upload(&transposed)?,
            between: [s.alloc(rows * width)?, s.alloc(rows * width)?],
            of_weights: s.alloc(width * width)?,
            multiprocessors: device.info().multiprocessors,
        })
    }

    /// Enqueues all layers of the stage: forward from `x` to `y`, or backward with the products for
    /// the gradients of the weights.
    fn pass(
        &mut self,
        pass: StagePass<'_>,
        x: &View<'_, bf16>,
        mut y: ViewMut<'_, bf16>,
    ) -> Result<()> {
        let StagePass { stream, direction, definition: of } = pass;
        let Self { layers, multiprocessors, between: [one, other], .. } = self;
        let (layers, multiprocessors) = (*layers, *multiprocessors);
        let weights =
            if direction == Direction::Forward { &self.weights } else { &self.transposed };
        for layer in 0..layers {
            let (source, target) =
                if layer % 2 == 0 { (&*one, &mut *other) } else { (&*other, &mut *one) };
            let a = || if layer == 0 { *x } else { source.view() };
            let d = if layer + 1 == layers { y.reborrow() } else { target.view_mut() };
            if direction == Direction::Backward {
                let sizes = [of.width, of.width, of.rows];
                let gradient = self.of_weights.view_mut();
                product(stream, multiprocessors, [a(), a()], gradient, sizes)?;
            }
            let sizes = [of.rows, of.width, of.width];
            product(stream, multiprocessors, [a(), weights.view()], d, sizes)?;
        }
        Ok(())
    }
}

/// The model in stages, with the micro-batches that one run processes.
struct Model<'a> {
    definition: &'a Definition,
    devices: Vec<Device>,
    stages: Vec<StageLayers>,
    pipeline: LayerPipeline<bf16>,
    inputs: Buffer<bf16>,
    outputs: Buffer<bf16>,
    gradients: Buffer<bf16>,
    first: Vec<bf16>,
}

impl<'a> Model<'a> {
    /// Puts a stage of the model on each of `devices`, which may be equal. A run has `count`
    /// micro-batches.
    fn new(
        devices: &[Device],
        definition: &'a Definition,
        schedule: MicroBatchOrder,
        count: usize,
    ) -> Result<Self> {
        let part = definition.rows * definition.width;
        let (begin, end) = (devices[0].stream()?, devices[devices.len() - 1].stream()?);
        let first: Vec<_> = (0..part * count).map(number).collect();
        let layers = definition.layers / devices.len();
        let boundaries = vec![part; devices.len() - 1];
        let stage = |device| StageLayers::new(device, layers, definition);
        Ok(Self {
            definition,
            stages: devices.iter().map(stage).collect::<Result<_>>()?,
            pipeline: LayerPipeline::new(devices, &boundaries, schedule, count)?,
            inputs: begin.upload(&first)?,
            outputs: end.alloc_zeroed(part * count)?,
            gradients: begin.alloc_zeroed(part * count)?,
            devices: devices.to_vec(),
            first,
        })
    }

    /// Enqueues a run. The backward pass starts with the outputs of the last stage as the
    /// gradients.
    fn enqueue(&mut self) -> Result<()> {
        let part = self.definition.rows * self.definition.width;
        let Self { definition, stages, pipeline, inputs, outputs, gradients, .. } = self;
        let last = stages.len() - 1;
        pipeline.run(|work| {
            let StageWork {
                stage, micro_batch, direction, stream, input, gradient, output, ..
            } = work;
            let at = micro_batch * part..(micro_batch + 1) * part;
            let pass = StagePass { stream, direction, definition };
            let layers = &mut stages[stage];
            match (direction, output) {
                (Direction::Forward, output) => {
                    let x = input.unwrap_or_else(|| inputs.slice(at.clone()));
                    let y = output.unwrap_or_else(|| outputs.slice_mut(at));
                    layers.pass(pass, &x, y)
                }
                (Direction::Backward, output) if stage == last => {
                    let y = output.unwrap_or_else(|| gradients.slice_mut(at.clone()));
                    layers.pass(pass, &outputs.slice(at), y)
                }
                (Direction::Backward, output) => {
                    let y = output.unwrap_or_else(|| gradients.slice_mut(at));
                    layers.pass(pass, &gradient.expect("a next stage"), y)
                }
            }
        })
    }

    /// The milliseconds of a run, by the clock of the host.
    fn timed(&mut self) -> Result<Vec<Value>> {
        self.devices.iter().try_for_each(Device::synchronize)?;
        let begun = Instant::now();
        self.enqueue()?;
        self.devices.iter().try_for_each(Device::synchronize)?;
        Ok(vec![Value::new("time", "ms", begun.elapsed().as_secs_f64() * 1e3)])
    }

    /// Compares the outputs and the gradients with the expected values. The backward pass inverts
    /// the forward pass, so the gradients are equal to the inputs.
    fn verify(&self, schedule: MicroBatchOrder) -> Result<()> {
        let wrong = |what| Error::new(ErrorKind::InvalidValue, "bench layers", what);
        let Definition { layers, width, .. } = self.definition;
        let (mut columns, mut signs) = ((0..*width).collect::<Vec<_>>(), vec![false; *width]);
        for _ in 0..*layers {
            let moved = |column| source(column, *width);
            let next = (0..*width)
                .map(|column| (columns[moved(column).0], signs[moved(column).0] ^ moved(column).1));
            (columns, signs) = next.unzip();
        }
        let end = &self.devices[self.devices.len() - 1];
        let found = end.stream()?.download(&self.outputs)?;
        let rows = self.first.chunks(*width).zip(found.chunks(*width));
        let is_right = |(row, found): (&[bf16], &[bf16])| {
            let wanted = |at: usize| if signs[at] { -row[columns[at]] } else { row[columns[at]] };
            (0..*width).all(|at| found[at] == wanted(at))
        };
        if !rows.into_iter().all(is_right) {
            return Err(wrong("an output is wrong"));
        }
        let is_forward = schedule == MicroBatchOrder::Forward;
        match is_forward || self.devices[0].stream()?.download(&self.gradients)? == self.first {
            true => Ok(()),
            false => Err(wrong("a gradient is wrong")),
        }
    }
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result, and if the layers do not divide into a stage for each device;
/// `NoDevice` on a host with one GPU; `OutOfMemory`; `Cancelled`; every error of a device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    measure(setting, &setting.devices_for("a model in stages")?, definition, steps)
}

fn measure(
    setting: &Setting<'_>,
    devices: &[Device],
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let stages = devices.len();
    if !definition.layers.is_multiple_of(stages) {
        let cause = format!("{} layers do not divide into {stages} stages", definition.layers);
        return Err(Error::new(ErrorKind::InvalidValue, "bench layers", cause));
    }
    let alone = vec![devices[0].clone(); stages];
    let mut results = Results::of_device(setting.device);
    results.note(
        "verified",
        "every output and every gradient, after the first run and after the last one",
    );
    let schedules = [MicroBatchOrder::Forward, MicroBatchOrder::FillDrain, MicroBatchOrder::InTurn];
    results.note("devices", stages.to_string());
    steps.expect((schedules.len() * definition.micro_batches.len()) as u64);
    for schedule in schedules {
        for &count in &definition.micro_batches {
            let name = format!("{}, {count} micro-batches", describe(schedule));
            steps.begin(&name);
            let model =
                |devices| Model::new(devices, definition, schedule, count).map(RefCell::new);
            let (one, all) = (model(&alone)?, model(devices)?);
            let of_all = format!("{stages} devices");
            let mut sides = [("one device", &one), (&of_all, &all)]
                .map(|(name, model)| Side::new(name, || model.borrow_mut().timed()));
            warm_up(&mut sides, &setting.cancel)?;
            [&one, &all].into_iter().try_for_each(|model| model.borrow().verify(schedule))?;
            for number in 0..definition.samples {
                round(&mut sides, number, &setting.cancel)?;
            }
            [&one, &all].into_iter().try_for_each(|model| model.borrow().verify(schedule))?;
            for side in &sides {
                let figure = &side.figures[0];
                let what = format!("{name}, {}", side.name);
                results.push(what, &figure.unit, figure.samples.clone(), None);
            }
            let gain = sides[0].median("time") / sides[1].median("time");
            results.push(format!("{name}: gain"), "", Samples::one(gain), None);
            let of = format!("of the formula: {:.4}", MicroBatchOrder::bubble(stages, count));
            let waits = Samples::one(1.0 - gain / stages as f64);
            results.push_with(format!("{name}: share of waits"), "", waits, None, of);
        }
    }
    Ok(results)
}

fn describe(schedule: MicroBatchOrder) -> &'static str {
    match schedule {
        MicroBatchOrder::Forward => "forward",
        MicroBatchOrder::FillDrain => "fill and drain",
        MicroBatchOrder::InTurn => "1F1B",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{ByDevice, parse};
    use crate::setting::checked_device;
    use trijet::sim::{HostConfig, Order};

    #[test]
    fn each_schedule_has_a_gain_and_a_wrong_output_is_an_error() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let devices = Device::host(HostConfig::new().devices(4))?;
        let text = include_str!("../definitions/layers.toml");
        let host = parse::<ByDevice<Definition>>(text)?.host;
        let setting = Setting::for_tests(&device);
        let mut show = |_: trijet_tools::progress::Step<'_>| ();
        for (stages, formula) in [(2, "0.2500"), (4, "0.5000")] {
            let steps = &mut Steps::new(&mut show);
            let printed = measure(&setting, &devices[..stages], &host, steps)?.to_string();
            let all = format!("1F1B, 3 micro-batches, {stages} devices");
            let one = "forward, 3 micro-batches, one device";
            for part in [one, &all, "1F1B, 3 micro-batches: gain", formula] {
                assert!(printed.contains(part), "{part}: {printed}");
            }
        }
        let steps = &mut Steps::new(&mut show);
        assert!(measure(&setting, &devices[..3], &host, steps).is_err(), "4 layers in 3 stages");
        let mut model = Model::new(&devices, &host, MicroBatchOrder::InTurn, 2)?;
        model.enqueue()?;
        model.verify(MicroBatchOrder::InTurn)?;
        devices[0].stream()?.fill(&mut model.gradients.slice_mut(7..8), bf16::from_f32(9.0))?;
        assert!(model.verify(MicroBatchOrder::InTurn).is_err());
        model.verify(MicroBatchOrder::Forward)?;
        devices[3].stream()?.fill(&mut model.outputs.slice_mut(7..8), bf16::from_f32(9.0))?;
        assert!(model.verify(MicroBatchOrder::Forward).is_err());
        Ok(())
    }
}
