//! Gradients in buckets, which are summed while later gradients are computed.
#![forbid(unsafe_code)]

use super::bucket_plan::{BucketPlan, Placement, Transport};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Nanos;
use crate::comm::Communicator;
use crate::graph::Recording;
use crate::kernels::Reduction;
use crate::memory::{Buffer, Element, Uses, View, ViewMut};
use crate::ranks::Ranks;
use crate::ranks::steps::type_named;
use crate::stream::{Device, Stream};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

/// The number of steps per plan before the measurement.
const WARM_UP: usize = 1;
/// The number of measured steps per plan.
const MEASURED: usize = 3;

/// A bucket: the memory of some gradients on each device. The gradients of a bucket are contiguous.
#[derive(Debug)]
struct Bucket<T> {
    data: Vec<Buffer<T>>,
    /// The number of gradients that are not ready in this step.
    missing: usize,
}

/// Gradients of several devices, which are combined in buckets.
///
/// Kernels write gradients directly into buckets. When all gradients of a bucket are ready on all
/// devices, the combination of the bucket is enqueued on streams with the highest priority. Work
/// that uses a gradient then waits for the bucket of this gradient, and not for other buckets.
///
/// ```
/// use trijet::training::GradientBuckets;
/// use trijet::kernels::{FILL_F32, Sum};
/// use trijet::sim::HostConfig;
/// use trijet::Device;
/// let devices = Device::host(HostConfig::new().devices(2))?;
/// let streams = [devices[0].stream()?, devices[1].stream()?];
/// // Two layers, with 1000 and 200 parameters.
/// let mut gradients = GradientBuckets::<f32, _>::new(&devices, &[1000, 200], Sum)?;
/// for layer in [1, 0] {
///     for (rank, stream) in streams.iter().enumerate() {
///         let gradient = gradients.gradient_mut(rank, layer);
///         stream.launch(&FILL_F32, (1.0 + layer as f32, gradient))?;
///     }
///     gradients.ready(layer)?;
/// }
/// gradients.finish()?;
/// for &layer in gradients.order() {
///     for (rank, stream) in streams.iter().enumerate() {
///         let sums = stream.download(&gradients.gradient(rank, layer))?;
///         assert!(sums.iter().all(|sum| *sum == 2.0 + 2.0 * layer as f32));
///     }
/// }
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug)]
pub struct GradientBuckets<T, R> {
    how: R,
    devices: Vec<Device>,
    /// A stream of each device, for the allocation of buckets.
    streams: Vec<Stream>,
    copies: Communicator,
    nccl: Option<Communicator>,
    plan: BucketPlan,
    lens: Vec<usize>,
    placement: Placement,
    buckets: Vec<Bucket<T>>,
    /// The gradients that are ready in this step, in the order in which they became ready.
    ready: Vec<usize>,
    /// The number of the next bucket to combine. All devices combine buckets in the same order.
    next: usize,
    /// Whether a combination of this step ended with an error or a panic. The bucket of this
    /// combination may then have any values.
    has_failed: bool,
    /// The group of processes; `None` within one process.
    ranks: Option<Arc<Ranks>>,
    /// Whether a step has ended.
    has_finished: bool,
    /// Whether the ranks have compared the order of the first step that has ended.
    has_agreed: bool,
}

/// The buckets while a step is recorded with the communicator of the recording. The drop restores
/// the communicator `eager`, which was used before. This holds even if the step panics or sets a
/// plan with another transport.
struct RecordedBuckets<'a, T: Element, R: Reduction<T> + Copy> {
    of: &'a mut GradientBuckets<T, R>,
    transport: Transport,
    eager: Option<Communicator>,
}

impl<T: Element, R: Reduction<T> + Copy> Drop for RecordedBuckets<'_, T, R> {
    fn drop(&mut self) {
        if let Some(eager) = self.eager.take() {
            *self.of.used(self.transport) = eager;
        }
        if !self.of.ready.is_empty() {
            // The work of an incomplete recorded step never runs, so the next step starts from the
            // beginning.
            self.of.ready.clear();
            self.of.restart();
        }
    }
}

fn refused(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "gradient buckets", cause)
}

/// Returns the order of the gradients on rank 0. `own` is the order on this rank.
fn order_of_first(ranks: &Ranks, own: &[usize]) -> Result<Vec<usize>> {
    let bytes: Vec<u8> = own.iter().flat_map(|one| (*one as u64).to_le_bytes()).collect();
    let all = ranks.gather(&bytes)?;
    if all[0].len() != bytes.len() {
        return Err(refused("ranks have different numbers of gradients".to_owned()));
    }
    let number = |bytes: &[u8]| bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
    let order = all[0].chunks_exact(8).map(|bytes| usize::try_from(number(bytes)));
    let order: Vec<usize> = order.map(|one| one.unwrap_or(usize::MAX)).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    match sorted.iter().enumerate().all(|(at, one)| at == *one) {
        true => Ok(order),
        false => {
            Err(refused("the list that rank 0 sent is not an order of the gradients".to_owned()))
        }
    }
}

/// The model of a rank: the type of the elements, the combination, and the number of elements of
/// each gradient.
#[derive(Serialize, Deserialize)]
struct Model {
    elements: String,
    lens: Vec<u64>,
}

impl Model {
    /// Describes how the model of a rank differs from the model of rank 0; `None` if both are
    /// equal.
    fn difference(&self, rank: usize, own: &Self) -> Option<String> {
        let (first, other) = (&own.lens, &self.lens);
        if own.elements != self.elements {
            let (first, other) = (&own.elements, &self.elements);
            return Some(format!("gradients are {first} on rank 0, and {other} on rank {rank}"));
        }
        if first.len() != other.len() {
            let (first, other) = (first.len(), other.len());
            return Some(format!(
                "there are {first} gradients on rank 0, and {other} on rank {rank}"
            ));
        }
        let at = first.iter().zip(other).position(|(first, other)| first != other)?;
        let (first, other) = (first[at], other[at]);
        Some(format!("gradient {at} has {first} elements on rank 0, and {other} on rank {rank}"))
    }
}

/// Returns an error if two ranks have different models. The error describes the same difference on
/// all ranks.
fn demand_one_model(ranks: &Ranks, own: &Model) -> Result<()> {
    let damaged = |error| {
        refused(format!("the description of the model from a rank cannot be read: {error}"))
    };
    let bytes = postcard::to_stdvec(own).map_err(damaged)?;
    let all = ranks.gather(&bytes)?;
    let all = all.iter().map(|bytes| postcard::from_bytes(bytes).map_err(damaged));
    let all: Vec<Model> = all.collect::<Result<_>>()?;
    let difference = |(rank, model): (usize, &Model)| model.difference(rank, &all[0]);
    all.iter().enumerate().find_map(difference).map_or(Ok(()), |cause| Err(refused(cause)))
}

impl<T: Element, R: Reduction<T> + Copy> GradientBuckets<T, R> {
    /// Makes buckets for gradients. Gradient `i` has `lens[i]` elements. `how` is the combination;
    /// in most programs it is a sum.
    ///
    /// The first buckets assume that the last gradient becomes ready first and the first gradient
    /// last, as in a backward pass. A step with another order changes the buckets of the next step.
    /// On GPUs with NCCL, the buckets also have a communicator of NCCL
    /// ([`CommunicatorBuilder::nccl`](crate::comm::CommunicatorBuilder::nccl)).
    ///
    /// # Errors
    /// `InvalidValue` for no gradient or an empty gradient, and as for
    /// [`CommunicatorBuilder::open`](crate::comm::CommunicatorBuilder::open); `OutOfMemory`; errors
    /// of the driver.
    #[track_caller]
    pub fn new(devices: &[Device], lens: &[usize], how: R) -> Result<Self> {
        let copies = Communicator::builder().devices(devices).open()?;
        let nccl =
            R::NCCL.and_then(|_| Communicator::builder().devices(devices).nccl().open().ok());
        Self::with(copies, nccl, None, devices, how, lens, BucketPlan::default())
    }

    /// Makes buckets for the gradients of one device of each process. NCCL combines the gradients
    /// of GPUs. The gradients of host devices are combined through host memory. All ranks make the
    /// calls of this type together, with the same arguments; only the order of
    /// [`GradientBuckets::ready`] may differ.
    ///
    /// The first [`GradientBuckets::begin`] after a complete step puts the gradients into buckets
    /// again. The order is then the order in which the gradients became ready on rank 0.
    ///
    /// # Errors
    /// `InvalidValue` on all ranks if the elements, the combination, the number of gradients or the
    /// length of a gradient differ: the error has both values and their ranks, and the group stays
    /// usable. `InvalidValue` for no gradient or an empty gradient. Otherwise as for
    /// [`CommunicatorBuilder::open`](crate::comm::CommunicatorBuilder::open).
    #[track_caller]
    pub fn of_rank(device: &Device, ranks: &Arc<Ranks>, lens: &[usize], how: R) -> Result<Self> {
        let elements = format!("{} by {}", type_named::<T>(), type_named::<R>());
        let lens_told = lens.iter().map(|len| *len as u64).collect();
        demand_one_model(ranks, &Model { elements, lens: lens_told })?;
        let copies = Communicator::builder().rank(device, ranks).open()?;
        let is_gpu = device.info().compute.0 != 0;
        let nccl = (is_gpu && R::NCCL.is_some())
            .then(|| Communicator::builder().rank(device, ranks).nccl().open());
        let nccl = nccl.transpose()?;
        let transport = if nccl.is_some() { Transport::Nccl } else { Transport::Copies };
        let plan = BucketPlan { transport, ..BucketPlan::default() };
        Self::with(copies, nccl, Some(ranks), std::slice::from_ref(device), how, lens, plan)
    }

    #[track_caller]
    fn with(
        copies: Communicator,
        nccl: Option<Communicator>,
        ranks: Option<&Arc<Ranks>>,
        devices: &[Device],
        how: R,
        lens: &[usize],
        plan: BucketPlan,
    ) -> Result<Self> {
        if let Some(empty) = lens.iter().position(|len| *len == 0) {
            return Err(refused(format!("gradient {empty} is empty")));
        }
        if lens.is_empty() {
            return Err(refused("the list of gradients is empty; give at least one".to_owned()));
        }
        let streams = devices.iter().map(Device::stream).collect::<Result<_>>()?;
        let order = (0..lens.len()).rev().collect();
        let mut all = Self {
            how,
            devices: devices.to_vec(),
            streams,
            copies,
            nccl,
            plan,
            lens: lens.to_vec(),
            placement: Placement::new(order, lens, size_of::<T>(), plan),
            buckets: Vec::new(),
            ready: Vec::new(),
            next: 0,
            has_failed: false,
            ranks: ranks.map(Arc::clone),
            has_finished: false,
            has_agreed: false,
        };
        all.allocate()?;
        Ok(all)
    }

    /// Allocates the buckets of the placement. The memory of the earlier buckets is freed in the
    /// order of the streams.
    #[track_caller]
    fn allocate(&mut self) -> Result<()> {
        self.buckets.clear();
        for (len, count) in self.placement.buckets() {
            let data =
                self.streams.iter().map(|stream| stream.alloc(len)).collect::<Result<_>>()?;
            self.buckets.push(Bucket { data, missing: count });
        }
        self.next = 0;
        Ok(())
    }

    /// The plan of the buckets.
    #[must_use]
    pub fn plan(&self) -> BucketPlan {
        self.plan
    }

    /// The number of buckets.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// The numbers of the gradients, in the order in which their buckets are combined. Enqueue work
    /// on the results in this order.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        self.placement.order()
    }

    /// Makes new buckets according to another plan. The values of the gradients are lost.
    ///
    /// # Errors
    /// `InvalidValue` within a step; `Unsupported` for NCCL if a communicator of NCCL could not be
    /// opened, or if NCCL does not have the combination; `OutOfMemory`; errors of the driver.
    #[track_caller]
    pub fn set_plan(&mut self, plan: BucketPlan) -> Result<()> {
        if !self.ready.is_empty() {
            return Err(refused(
                "a plan cannot be set within a step; call `finish` first".to_owned(),
            ));
        }
        if plan.transport == Transport::Nccl && self.nccl.is_none() {
            let cause = match R::NCCL {
                Some(_) => Communicator::builder()
                    .devices(&self.devices)
                    .nccl()
                    .open()
                    .err()
                    .map(|error| error.to_string()),
                None => Some(
                    "NCCL cannot combine elements of this type in this way; use `Transport::Copies`"
                        .to_owned(),
                ),
            };
            let cause = cause.unwrap_or_else(|| {
                "NCCL was missing when the buckets were made; make new buckets".to_owned()
            });
            return Err(Error::new(ErrorKind::Unsupported, "gradient buckets", cause));
        }
        self.plan = plan;
        self.form(self.placement.order().to_vec())
    }

    #[track_caller]
    fn form(&mut self, order: Vec<usize>) -> Result<()> {
        self.placement = Placement::new(order, &self.lens, size_of::<T>(), self.plan);
        self.allocate()
    }

    /// Gradient `gradient` on device `device`. Both are counted from 0.
    ///
    /// # Panics
    /// If there is no such device or gradient.
    #[must_use]
    pub fn gradient(&self, device: usize, gradient: usize) -> View<'_, T> {
        let (bucket, range) = self.placement.of(gradient);
        self.buckets[bucket].data[device].slice(range)
    }

    /// Gradient `gradient` on device `device`, for writing. Both are counted from 0.
    ///
    /// # Panics
    /// If there is no such device or gradient.
    #[must_use]
    pub fn gradient_mut(&mut self, device: usize, gradient: usize) -> ViewMut<'_, T> {
        let (bucket, range) = self.placement.of(gradient);
        self.buckets[bucket].data[device].slice_mut(range)
    }

    /// Declares that the work which writes a gradient is enqueued on all devices. Enqueues the
    /// combination of each bucket whose gradients are all ready.
    ///
    /// # Errors
    /// `InvalidValue` for a gradient that is already ready, and if a combination of this step has
    /// failed; otherwise as for [`Communicator::all_reduce`].
    ///
    /// # Panics
    /// If there is no such gradient.
    #[track_caller]
    pub fn ready(&mut self, gradient: usize) -> Result<()> {
        self.demand_whole()?;
        let (bucket, _) = self.placement.of(gradient);
        if self.ready.contains(&gradient) {
            let cause = format!(
                "gradient {gradient} is ready twice in one step; call `finish` to end the step"
            );
            return Err(refused(cause));
        }
        self.ready.push(gradient);
        self.buckets[bucket].missing -= 1;
        while let Some(Bucket { data, missing: 0 }) = self.buckets.get_mut(self.next) {
            let communicator = match (&self.nccl, self.plan.transport) {
                (Some(nccl), Transport::Nccl) => nccl,
                _ => &self.copies,
            };
            let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
            // The combination may call code of the program, which may panic. The flag then stays
            // set.
            self.has_failed = true;
            communicator.all_reduce(&mut views, self.how)?;
            self.has_failed = false;
            self.next += 1;
        }
        Ok(())
    }

    /// Ends a step. All gradients must be ready. The call does not wait.
    ///
    /// The gradients stay until the next step writes them. If the gradients became ready in another
    /// order than the order of the buckets, [`GradientBuckets::begin`] makes new buckets for the
    /// next step.
    ///
    /// # Errors
    /// `InvalidValue` if gradients are not ready: the error has their numbers, and the step
    /// continues. `InvalidValue` if a combination of this step has failed:
    /// [`GradientBuckets::begin`] then starts another step.
    pub fn finish(&mut self) -> Result<()> {
        self.demand_whole()?;
        let missing: Vec<_> =
            (0..self.lens.len()).filter(|one| !self.ready.contains(one)).collect();
        if !missing.is_empty() {
            let all: Vec<_> = missing.iter().take(8).map(ToString::to_string).collect();
            let more = if missing.len() > all.len() { ", ..." } else { "" };
            return Err(refused(format!("gradients {}{more} are not ready", all.join(", "))));
        }
        self.restart();
        self.placement.seen(std::mem::take(&mut self.ready));
        self.has_finished = true;
        Ok(())
    }

    fn demand_whole(&self) -> Result<()> {
        match self.has_failed {
            false => Ok(()),
            true => Err(refused(
                "a combination of this step has failed; `begin` starts another step".to_owned(),
            )),
        }
    }

    fn restart(&mut self) {
        self.has_failed = false;
        for (bucket, (_, count)) in self.buckets.iter_mut().zip(self.placement.buckets()) {
            bucket.missing = count;
        }
        self.next = 0;
    }

    /// Begins a step. If the gradients of the last step became ready in another order, this call
    /// makes new buckets, and the values of the gradients are lost. If a combination of the last
    /// step failed, this call ends that step.
    ///
    /// # Errors
    /// `InvalidValue` within a step; `OutOfMemory`; errors of the driver.
    #[track_caller]
    pub fn begin(&mut self) -> Result<()> {
        if self.has_failed {
            self.ready.clear();
            self.restart();
        }
        if !self.ready.is_empty() {
            return Err(refused(
                "a step cannot begin within another step; call `finish` first".to_owned(),
            ));
        }
        let other = match &self.ranks {
            None => self.placement.take_other_order(),
            Some(ranks) if self.has_finished && !self.has_agreed => {
                self.has_agreed = true;
                let own = self.placement.take_other_order();
                let own = own.unwrap_or_else(|| self.placement.order().to_vec());
                let order = order_of_first(ranks, &own)?;
                (order != self.placement.order()).then_some(order)
            }
            Some(_) => None,
        };
        other.map_or(Ok(()), |order| self.form(order))
    }

    /// Records a step. Its combinations become parts of the graph, like the operations that `step`
    /// enqueues in other streams of the recording. The buckets become arguments of the graph.
    /// [`GradientBuckets::arguments`] passes the buckets in the same order.
    ///
    /// ```
    /// use trijet::training::GradientBuckets;
    /// use trijet::Uses;
    /// use trijet::kernels::{FILL_F32, Sum};
    /// use trijet::sim::HostConfig;
    /// use trijet::Device;
    /// let devices = Device::host(HostConfig::new().devices(2))?;
    /// let mut gradients = GradientBuckets::<f32, _>::new(&devices, &[1000], Sum)?;
    /// let mut step = devices[0].record(|g| {
    ///     let streams = [g.stream_on(&devices[0])?, g.stream_on(&devices[1])?];
    ///     gradients.record(g, |gradients| {
    ///         for (rank, stream) in streams.iter().enumerate() {
    ///             stream.launch(&FILL_F32, (1.0 + rank as f32, gradients.gradient_mut(rank, 0)))?;
    ///         }
    ///         gradients.ready(0)?;
    ///         gradients.finish()
    ///     })
    /// })?;
    /// let stream = devices[0].stream()?;
    /// stream.launch_graph(&mut step, gradients.arguments(Uses::new()))?;
    /// assert_eq!(devices[1].stream()?.download(&gradients.gradient(1, 0))?, [3.0; 1000]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` within a step, or if the last step had another order (call
    /// [`GradientBuckets::begin`] first, which makes the new buckets); errors of `step`; otherwise
    /// as for [`Communicator::recorded`].
    #[track_caller]
    pub fn record(
        &mut self,
        recording: &Recording,
        step: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if !self.ready.is_empty() || self.placement.has_other_order() {
            return Err(refused(
                "`record` must start a new step; call `finish` if a step is open, and then `begin`"
                    .to_owned(),
            ));
        }
        let transport = self.plan.transport;
        let recorded = self.used(transport).recorded(recording)?;
        for data in self.buckets.iter().flat_map(|bucket| &bucket.data) {
            recording.argument(data)?;
        }
        let eager = std::mem::replace(self.used(transport), recorded);
        let recorded = RecordedBuckets { of: self, transport, eager: Some(eager) };
        step(recorded.of)?;
        match recorded.of.ready.is_empty() {
            true => Ok(()),
            false => Err(refused(
                "the recorded step did not call `finish`; call it at the end of the step"
                    .to_owned(),
            )),
        }
    }

    /// The communicator for a transport.
    fn used(&mut self, transport: Transport) -> &mut Communicator {
        match (&mut self.nccl, transport) {
            (Some(nccl), Transport::Nccl) => nccl,
            _ => &mut self.copies,
        }
    }

    /// Adds the buckets to the arguments for a launch of a recorded step.
    pub fn arguments<'a>(&'a mut self, arguments: Uses<'a>) -> Uses<'a> {
        let all = self.buckets.iter_mut().flat_map(|bucket| &mut bucket.data);
        all.fold(arguments, |arguments, data| arguments.write(data.view_mut()))
    }

    /// Measures steps with each of the plans, and sets the fastest plan. Returns the plans in the
    /// given order, each with the minimum time of a step. Plans for NCCL are left out if NCCL
    /// cannot be used.
    ///
    /// `step` must run a whole step, from [`GradientBuckets::begin`] to
    /// [`GradientBuckets::finish`]. The host measures the time from the start of a step until the
    /// work of all devices is complete.
    ///
    /// # Errors
    /// Errors of a step and of [`GradientBuckets::set_plan`]; `InvalidValue` if no plan can be
    /// measured.
    #[track_caller]
    pub fn tune(
        &mut self,
        plans: &[BucketPlan],
        mut step: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<Vec<(BucketPlan, Nanos)>> {
        let mut times = Vec::new();
        for plan in plans {
            if plan.transport == Transport::Nccl && self.nccl.is_none() {
                continue;
            }
            self.set_plan(*plan)?;
            let mut least = Nanos(u64::MAX);
            for turn in 0..WARM_UP + MEASURED {
                let begun = Instant::now();
                step(self)?;
                self.devices.iter().try_for_each(Device::synchronize)?;
                if turn >= WARM_UP {
                    let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    least = least.min(Nanos(nanos));
                }
            }
            if let Some(ranks) = &self.ranks {
                // The time of the slowest rank counts, so all ranks choose the same plan.
                for of_rank in ranks.gather(&least.0.to_le_bytes())? {
                    let nanos = of_rank[..].try_into().map_or(u64::MAX, u64::from_le_bytes);
                    least = least.max(Nanos(nanos));
                }
            }
            times.push((*plan, least));
        }
        let Some((best, _)) = times.iter().min_by_key(|(_, time)| *time) else {
            return Err(refused(
                "no plan can be measured: the list is empty, or all plans need \
                 NCCL, which cannot be used; add a plan for copies"
                    .to_owned(),
            ));
        };
        self.set_plan(*best)?;
        Ok(times)
    }
}
