//! `trijet map --plan`: prints what a job would read and write, the memory that it would need, and
//! its minimum time. Nothing is created, and no GPU is needed.
#![forbid(unsafe_code)]

use super::opening::settings;
use super::plan_against::PlanComparison;
use super::words::{job_words, left_out, say_left_out};
use crate::args::MapOptions;
use crate::cmd::document::print_json;
use crate::cmd::print;
use serde_json::json;
use std::process::ExitCode;
use trijet::pipeline::{Calibration, rows_to_fn};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::trace::count;
use trijet::{Bytes, Device, Nanos, Pipeline, Result, Source};
use trijet_io::{Input, Space, Target};
use trijet_map::{Chain, for_chunks};

/// The number of bytes of each copy that measures the rates of the model. The rates of the model do
/// not depend on this number.
const MODELLED_BYTES: Bytes = Bytes(16 << 20);

/// The reason why the run would be refused: the output exists already. `None` if the output does
/// not exist. The plan is printed in both cases.
fn refused(options: &MapOptions, target: &Target) -> Option<String> {
    if options.resume { None } else { target.check_free().err().map(|error| error.to_string()) }
}

/// The words of a plan whose memory limit has no room for a trace.
const NO_TRACE: &str = "and none for a trace, which does not fit into the limit, so the report has no figures of engines";

/// The figures of a plan.
struct PlanFigures {
    rows: u64,
    read: Bytes,
    written: Bytes,
    chunks: usize,
    chunk: Bytes,
    slots: usize,
    pinned: Bytes,
    /// `None` if the memory limit has no room for a trace.
    trace: Option<Bytes>,
    device: Bytes,
    /// The least time of the copies.
    copies: Nanos,
}

impl PlanFigures {
    fn of(
        options: &MapOptions,
        input: &Input,
        target: &Target,
        chain: &Chain,
        granule: u64,
    ) -> Result<Self> {
        let executor = Executor::Virtual(Order::Greedy);
        let device = Device::builder().host(HostConfig::new().executor(executor)).open()?;
        let (layout, own) = (input.layout(), target.rows_of_whole());
        let rows = own.end - own.start;
        let pipeline = chain.stages(Pipeline::on(&device).source(input), granule);
        let limit = for_chunks(options.memory)?;
        let needs = settings(options, input)
            .apply(pipeline, limit)
            .rows(std::iter::once(own).filter(|rows| !rows.is_empty()).collect())
            .sink(rows_to_fn(|_, _: &[u8]| Ok(())))
            .needs()?;
        let rows_in = needs.plan.chunks.iter().map(|chunk| chunk.input.end - chunk.input.start);
        let read = Bytes(rows_in.sum::<u64>() * layout.row_bytes);
        let written = Bytes(rows * target.layout().row_bytes);
        // The bytes of the input that belong to a row of the result.
        let share = layout.bytes()?.div_ceil(chain.output().layout().rows.max(1));
        // A run keeps a trace only if the memory limit has room for it.
        let has_room =
            limit.is_none_or(|limit| needs.pinned.0.saturating_add(needs.trace.0) <= limit.0);
        Ok(Self {
            rows,
            read,
            written,
            chunks: needs.plan.chunks.len(),
            chunk: Bytes(needs.plan.chunk_rows.min(needs.plan.rows_max()) * share),
            slots: needs.plan.depth.min(needs.plan.chunks.len()),
            pinned: needs.pinned,
            trace: has_room.then_some(needs.trace),
            device: needs.device,
            copies: Calibration::measure(&device, MODELLED_BYTES)?.bound(read, written),
        })
    }

    fn words(&self) -> String {
        let Self { read, written, chunks, chunk, slots, pinned, device, copies, .. } = self;
        let trace = self
            .trace
            .map_or_else(|| NO_TRACE.to_owned(), |bytes| format!("about {bytes} for the trace"));
        format!(
            "reads {read}, writes {written} in {}\n\
             chunks: {chunks} of {chunk}, {slots} in flight (a run on a GPU measures first, and may choose others)\n\
             memory of the host: {pinned} page-locked, {trace}\n\
             memory of the device: {device}\n\
             time: at least {copies} for the copies of a modelled H200; reading, writing and kernels are not included",
            count(self.rows, "row"),
        )
    }
}

/// Prints the plan of a job on a modelled H200.
pub(super) fn show(
    options: &MapOptions,
    input: &Input,
    target: &Target,
    chain: &Chain,
    granule: u64,
) -> Result<ExitCode> {
    let figures = PlanFigures::of(options, input, target, chain, granule)?;
    let space = target.space()?;
    let refused = refused(options, target);
    let mut plan = json!({
        "input": options.input.to_string_lossy(),
        "output": target.path().to_string_lossy(),
        "output_format": target.format().name(),
        "operation": chain.description(),
        "left_out": left_out(input, Some(target)),
        "rows": figures.rows,
        "bytes_in": figures.read.0,
        "bytes_out": figures.written.0,
        "chunks": figures.chunks,
        "chunk_bytes": figures.chunk.0,
        "slots": figures.slots,
        "pinned_bytes": figures.pinned.0,
        "trace_bytes": figures.trace.map_or(0, |bytes| bytes.0),
        "disk_needed_bytes": space.map(|space| space.needed.0),
        "disk_free_bytes": space.map(|space| space.free.0),
        "device_bytes": figures.device.0,
        "copies_ns": figures.copies.0,
        "refused": refused,
    });
    let against = options.against.as_deref();
    let against =
        against.map(|path| PlanComparison::of(path, &options.fail_if, &plan)).transpose()?;
    let status = against.as_ref().map_or(ExitCode::SUCCESS, PlanComparison::exit_code);
    if options.json {
        plan["against"] = against.as_ref().map(PlanComparison::json).into();
        return print_json("map", &plan).map(|()| status);
    }
    print(job_words(target, chain))?;
    say_left_out(input, Some(target));
    print(figures.words())?;
    if let Some(Space { needed, free }) = space {
        let verdict = if needed <= free { "" } else { ": too little" };
        print(format_args!("disk of the output: {needed} needed, {free} free{verdict}"))?;
    }
    if let Some(cause) = refused {
        print(format_args!("the run will be refused: {cause}"))?;
    }
    against.iter().flat_map(PlanComparison::lines).try_for_each(print)?;
    Ok(status)
}
