//! Layer pipelines: the stages of a model are on several devices, and micro-batches pass through
//! the stages.
#![forbid(unsafe_code)]

use super::micro_batch_order::{Direction, IN_FLIGHT, MicroBatchOrder, MicroBatchProgress};
use crate::base::error::{Error, ErrorKind, Result};
use crate::memory::{Buffer, Element, View, ViewMut};
use crate::stream::{Device, Stream};

/// Buffers for micro-batches. Micro-batch `n` uses the buffer with the index `n` modulo the number
/// of buffers.
#[derive(Debug)]
struct BufferRing<T>(Vec<Buffer<T>>);

impl<T: Element> BufferRing<T> {
    #[track_caller]
    fn new(stream: &Stream, count: usize, len: usize) -> Result<Self> {
        (0..count).map(|_| stream.alloc(len)).collect::<Result<_>>().map(Self)
    }

    fn at(&self, turn: usize) -> &Buffer<T> {
        &self.0[turn % self.0.len()]
    }

    fn at_mut(&mut self, turn: usize) -> &mut Buffer<T> {
        let count = self.0.len();
        &mut self.0[turn % count]
    }
}

/// A stage, with its streams and its memory.
#[derive(Debug)]
struct LayerStage<T> {
    compute: Stream,
    /// The stream for copies of activations to the next stage.
    onward: Stream,
    /// The stream for copies of gradients to the previous stage.
    back: Stream,
    /// Activations from the previous stage; `None` for the first stage.
    inputs: Option<BufferRing<T>>,
    /// Activations for the next stage; `None` for the last stage.
    outputs: Option<BufferRing<T>>,
    /// Gradients from the next stage; `None` for the last stage.
    incoming: Option<BufferRing<T>>,
    /// Gradients for the previous stage; `None` for the first stage.
    outgoing: Option<BufferRing<T>>,
}

/// The work of a stage on a micro-batch.
#[derive(Debug)]
#[non_exhaustive]
pub struct StageWork<'a, T> {
    /// The number of the stage, from 0.
    pub stage: usize,
    /// The number of the micro-batch, from 0.
    pub micro_batch: usize,
    /// The pass: forward or backward.
    pub direction: Direction,
    /// The stream on which to enqueue the work, on the device of the stage.
    pub stream: &'a Stream,
    /// The activations from the previous stage, in both passes; `None` in the first stage.
    pub input: Option<View<'a, T>>,
    /// The gradients from the next stage; `None` in the last stage and in the forward pass.
    pub gradient: Option<View<'a, T>>,
    /// The memory for the result. The work must write the whole memory. In the forward pass, the
    /// result is the activations for the next stage. In the backward pass, the result is the
    /// gradients for the previous stage. `None` if there is no such stage.
    pub output: Option<ViewMut<'a, T>>,
}

/// A pipeline of stages on devices.
///
/// A stage computes on its device, in its own stream. Its result is copied into one of several
/// slots on the next device, while the stage computes the next micro-batch. The copy waits for the
/// work that writes its source, and for the last work that reads its slot. The order of all
/// accesses ensures both waits.
///
/// ```
/// use trijet::training::{LayerPipeline, MicroBatchOrder};
/// use trijet::kernels::AFFINE_F32;
/// use trijet::sim::HostConfig;
/// use trijet::{Device, Error};
/// let devices = Device::host(HostConfig::new().devices(2))?;
/// let mut pipeline = LayerPipeline::new(&devices, &[100], MicroBatchOrder::Forward, 8)?;
/// let inputs = devices[0].stream()?.upload(&[1.0_f32; 800])?;
/// let mut results = devices[1].stream()?.alloc::<f32>(800)?;
/// pipeline.run(|work| {
///     let part = work.micro_batch * 100..(work.micro_batch + 1) * 100;
///     // Stage 0 doubles, stage 1 adds the number of the micro-batch.
///     match (work.input, work.output) {
///         (None, Some(y)) => work.stream.launch(&AFFINE_F32, (2.0, 0.0, inputs.slice(part), y)),
///         (Some(x), None) => {
///             let add = work.micro_batch as f32;
///             work.stream.launch(&AFFINE_F32, (1.0, add, x, results.slice_mut(part)))
///         }
///         _ => unreachable!("two stages"),
///     }
/// })?;
/// let found = devices[1].stream()?.download(&results)?;
/// assert!((0..800).all(|at| found[at] == 2.0 + (at / 100) as f32));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct LayerPipeline<T> {
    stages: Vec<LayerStage<T>>,
    order: MicroBatchOrder,
    micro_batches: usize,
}

impl<T: Element> LayerPipeline<T> {
    /// Makes a pipeline with one stage on each of these devices. The first device has the first
    /// stage. A device may have several stages. `lens[i]` is the number of elements per micro-batch
    /// that pass from stage `i` to stage `i + 1`. The same number of gradients passes back.
    ///
    /// # Errors
    /// `InvalidValue` for no device, no micro-batch, a length of 0, or if the number of lengths is
    /// not the number of devices minus 1; `OutOfMemory`; errors of the driver.
    #[track_caller]
    pub fn new(
        devices: &[Device],
        lens: &[usize],
        order: MicroBatchOrder,
        micro_batches: usize,
    ) -> Result<Self> {
        let refused = |cause| Err(Error::new(ErrorKind::InvalidValue, "layer pipeline", cause));
        let (count, given) = (devices.len(), lens.len());
        let Some(first) = devices.first() else {
            return refused(
                "the list of devices is empty; give one device for each stage".to_owned(),
            );
        };
        if given != count - 1 {
            return refused(format!(
                "{given} lengths for {count} stages; {} are needed",
                count - 1
            ));
        }
        if micro_batches == 0 || lens.contains(&0) {
            return refused(
                "the number of micro-batches or a length is 0; it must be at least 1".to_owned(),
            );
        }
        let is_both_ways = order != MicroBatchOrder::Forward;
        let mut stages = Vec::with_capacity(count);
        for (number, device) in devices.iter().enumerate() {
            first.shared().domain.own("layer pipeline", device.shared().domain.id())?;
            let compute = device.stream()?;
            let before = number.checked_sub(1).map(|at| lens[at]);
            let behind = lens.get(number).copied();
            let ring = |count, len: Option<usize>| {
                len.map(|len| BufferRing::new(&compute, count, len)).transpose()
            };
            let inputs = order.inputs(number, count, micro_batches);
            stages.push(LayerStage {
                inputs: ring(inputs, before)?,
                outputs: ring(IN_FLIGHT, behind)?,
                incoming: ring(IN_FLIGHT, behind.filter(|_| is_both_ways))?,
                outgoing: ring(IN_FLIGHT, before.filter(|_| is_both_ways))?,
                onward: device.stream()?,
                back: device.stream()?,
                compute,
            });
        }
        Ok(Self { stages, order, micro_batches })
    }

    /// Enqueues the work of all stages on all micro-batches. `work` enqueues the work of one stage
    /// on one micro-batch. The call does not wait, and the next run can be enqueued at once.
    ///
    /// # Errors
    /// Errors of `work` and of the enqueue calls, with the stage and the micro-batch. The pipeline
    /// stays usable.
    #[track_caller]
    pub fn run(&mut self, mut work: impl FnMut(StageWork<'_, T>) -> Result<()>) -> Result<()> {
        let count = self.stages.len();
        let mut progress = MicroBatchProgress::new(self.order, count, self.micro_batches);
        while !progress.is_done() {
            for stage in 0..count {
                let Some((direction, m)) = progress.take(stage) else { continue };
                self.one(stage, m, direction, &mut work).map_err(|error| {
                    error.context(format!("stage {stage}, micro-batch {m}, {direction}"))
                })?;
            }
        }
        Ok(())
    }

    /// Enqueues the work of a stage on a micro-batch, and the copy of its result.
    #[track_caller]
    fn one(
        &mut self,
        number: usize,
        m: usize,
        direction: Direction,
        work: &mut impl FnMut(StageWork<'_, T>) -> Result<()>,
    ) -> Result<()> {
        let LayerStage { compute, inputs, outputs, incoming, outgoing, .. } =
            &mut self.stages[number];
        let (results, gradient) = match direction {
            Direction::Forward => (outputs, None),
            Direction::Backward => (outgoing, incoming.as_ref().map(|ring| ring.at(m).view())),
        };
        work(StageWork {
            stage: number,
            micro_batch: m,
            direction,
            stream: compute,
            input: inputs.as_ref().map(|ring| ring.at(m).view()),
            gradient,
            output: results.as_mut().map(|ring| ring.at_mut(m).view_mut()),
        })?;
        let to = match direction {
            Direction::Forward => number + 1,
            Direction::Backward if number == 0 => return Ok(()),
            Direction::Backward => number - 1,
        };
        let Ok([from, to]) = self.stages.get_disjoint_mut([number, to]) else { return Ok(()) };
        let (stream, results, slots) = match direction {
            Direction::Forward => (&from.onward, &from.outputs, &mut to.inputs),
            Direction::Backward => (&from.back, &from.outgoing, &mut to.incoming),
        };
        match (results, slots) {
            (Some(results), Some(slots)) => stream.copy(results.at(m), slots.at_mut(m)),
            _ => Ok(()),
        }
    }
}
