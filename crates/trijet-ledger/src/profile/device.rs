//! The profile of one device: its engines, its idle time, its findings and its longest kernels.
#![forbid(unsafe_code)]

use super::activities::{bytes, is_kernel};
use super::chosen::environment::DeviceEnvironment;
use super::collectives::Communication;
use super::engine::ProgramEngine;
use super::findings::{self, Facts, Habit};
use super::idle::Idle;
use super::model::{self, Gains, RunModel};
use super::names::readable;
use super::operations::Operations;
use super::steps::{FiguresOf, ProgramSteps};
use super::stream_pairs::{self, StreamPair};
use crate::base::units::{Bytes, Nanos};
use crate::trace::activity::{Activity, NameId, ProcessTrace};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of kernels that a profile has.
const KERNELS_MAX: usize = 4096;
/// Maximum number of kernels that its text and its page list.
pub(super) const LISTED_MAX: usize = 10;

/// The busy time of an engine.
#[derive(Debug)]
pub struct EngineTime {
    /// The name of the engine.
    pub name: &'static str,
    /// The length of the union of the times of the engine's operations.
    pub busy: Nanos,
    /// The number of operations that the engine executed.
    pub operations: usize,
    /// The number of bytes that the engine moved or set.
    pub bytes: Bytes,
}

/// The time of a kernel, all launches together.
#[derive(Debug)]
pub struct KernelTime {
    /// The demangled name of the kernel.
    pub name: String,
    /// The sum of the durations of all launches.
    pub total: Nanos,
    /// The number of launches.
    pub launches: usize,
}

/// The only stream with kernels, if there are several kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelStream {
    /// The number of the stream.
    pub stream: u32,
    /// The number of kernels in the stream.
    pub kernels: usize,
    /// The number of copies between host and device in the stream, if all of them are in it; 0 if
    /// any of them is in another stream.
    pub copies: usize,
}

/// The profile of one device.
#[derive(Debug)]
pub struct DeviceProfile {
    /// The number of the device in the process.
    pub device: u32,
    /// The steps of the program; `None` if its kernels do not repeat.
    pub steps: Option<ProgramSteps>,
    /// The part of the run that the other figures are about.
    pub extent: FiguresOf,
    /// The start of the part `extent`, on the clock of the trace.
    pub began: Nanos,
    /// The length of the part `extent`: from the start of the first operation or step to the end of
    /// the last operation or step.
    pub elapsed: Nanos,
    /// The engines that executed at least one operation.
    pub engines: Vec<EngineTime>,
    /// The time in which at least one operation ran.
    pub busy: Nanos,
    /// The time in which no operation ran, split by the activity of the host at that time.
    pub idle: Idle,
    /// The number of streams with operations.
    pub streams: usize,
    /// The stream with all kernels. `None` if kernels ran in several streams, or if fewer than two
    /// kernels ran.
    pub kernel_stream: Option<KernelStream>,
    /// Pairs of streams: the pairs with the most time in which both had work enqueued.
    pub stream_pairs: Vec<StreamPair>,
    /// The habits that cost time. The one whose fix saves the most time is first.
    pub findings: Vec<Habit>,
    /// The times that the fixes of the findings save together. `None` if the records have no order.
    pub gains: Option<Gains>,
    /// The kernels, by descending total time.
    pub kernels: Vec<KernelTime>,
    /// The environment of the device over the whole run. `None` if it was not recorded.
    pub environment: Option<DeviceEnvironment>,
    /// The kernels that communicate.
    pub(super) communication: Communication,
}

impl DeviceProfile {
    /// The profile of the device that ran `operations` in the part `extent` of the run.
    pub(super) fn of(
        operations: &Operations<'_>,
        steps: Option<ProgramSteps>,
        extent: FiguresOf,
        trace: &ProcessTrace,
        facts: &Facts<'_>,
    ) -> Self {
        let streams: BTreeSet<_> =
            operations.all.iter().map(|one| (one.context, one.stream)).collect();
        let idle = Idle::of(&operations.idle, facts.calls);
        let communication = Communication::of(operations, trace);
        Self {
            device: operations.device,
            steps,
            extent,
            began: Nanos(operations.window.start),
            elapsed: operations.elapsed(),
            engines: engines(operations),
            busy: Nanos(operations.elapsed().0 - idle.total.0),
            streams: streams.len(),
            kernel_stream: kernel_stream(operations),
            stream_pairs: stream_pairs::pairs(operations, facts.calls),
            findings: findings::all(operations, facts, &idle, &communication),
            gains: None,
            idle,
            kernels: longest_kernels(operations, trace),
            environment: DeviceEnvironment::of(trace, operations.device),
            communication,
        }
    }

    /// Adds a finding about this device that results from a comparison with other devices.
    pub(super) fn add(&mut self, finding: Habit) {
        self.findings.push(finding);
        findings::sort(&mut self.findings);
    }

    /// Sets the gains of the findings.
    pub(super) fn set_gains(&mut self, model: &RunModel) {
        let window = self.began.0..self.began.0.saturating_add(self.elapsed.0);
        self.gains = model::gains::of(model, self.device, &window, &mut self.findings);
        findings::sort(&mut self.findings);
    }
}

/// The stream with all kernels of the device, if there are several kernels.
fn kernel_stream(operations: &Operations<'_>) -> Option<KernelStream> {
    let stream = |one: &&Activity| (one.context, one.stream);
    let mut kernels = operations.on(ProgramEngine::Kernels).map(|one| stream(&one));
    let first = kernels.next()?;
    let mut count = 1;
    for other in kernels {
        count += 1;
        if other != first {
            return None;
        }
    }
    let copies =
        || operations.on(ProgramEngine::Upload).chain(operations.on(ProgramEngine::Download));
    let are_all_in_it = copies().all(|one| stream(&one) == first);
    let copies = if are_all_in_it { copies().count() } else { 0 };
    (count > 1).then_some(KernelStream { stream: first.1, kernels: count, copies })
}

/// The busy times of the engines.
fn engines(operations: &Operations<'_>) -> Vec<EngineTime> {
    let mut by_engine: BTreeMap<ProgramEngine, Vec<&Activity>> = BTreeMap::new();
    for &one in &operations.all {
        by_engine.entry(operations.engine(one)).or_default().push(one);
    }
    let engine = |(engine, its): (ProgramEngine, Vec<&Activity>)| EngineTime {
        name: engine.name(),
        busy: operations.ran(its.iter().copied()).length(),
        operations: its.len(),
        bytes: bytes(its.iter().copied()),
    };
    by_engine.into_iter().map(engine).collect()
}

/// The kernels with the longest total times.
fn longest_kernels(operations: &Operations<'_>, trace: &ProcessTrace) -> Vec<KernelTime> {
    let mut by_name: HashMap<Option<NameId>, (u64, usize, &Activity)> = HashMap::new();
    for &one in operations.all.iter().filter(|one| is_kernel(one)) {
        let entry = by_name.entry(one.name).or_insert((0_u64, 0, one));
        entry.0 = entry.0.saturating_add(one.end.0 - one.begin.0);
        entry.1 += 1;
    }
    let mut list: Vec<_> = by_name.into_values().collect();
    list.sort_by_key(|(total, _, one)| (std::cmp::Reverse(*total), one.name.map(|n| n.0)));
    list.truncate(KERNELS_MAX);
    let kernel = |(total, launches, one)| KernelTime {
        name: readable(trace.name(one)),
        total: Nanos(total),
        launches,
    };
    list.into_iter().map(kernel).collect()
}
