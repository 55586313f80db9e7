//! `trijet map --plan`: prints what a job would read and write, the memory that it would need, and
//! its minimum time. Nothing is created, and no GPU is needed.
#![forbid(unsafe_code)]

use super::opening::settings;
use super::words::{job_words, left_out, say_left_out};
use crate::args::MapOptions;
use crate::cmd::document::print_json;
use crate::cmd::print;
use serde_json::json;
use std::process::ExitCode;
use trijet::pipeline::{Calibration, rows_to_fn};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::trace::count;
use trijet::{Bytes, Device, Pipeline, Result, Source};
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

/// Prints the plan of a job on a modelled H200.
pub(super) fn show(
    options: &MapOptions,
    input: &Input,
    target: &Target,
    chain: &Chain,
    granule: u64,
) -> Result<ExitCode> {
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
    let time = Calibration::measure(&device, MODELLED_BYTES)?.bound(read, written);
    // The bytes of the input that belong to a row of the result.
    let share = layout.bytes()?.div_ceil(chain.output().layout().rows.max(1));
    let chunk = Bytes(needs.plan.chunk_rows.min(needs.plan.rows_max()) * share);
    let (chunks, slots) = (needs.plan.chunks.len(), needs.plan.depth.min(needs.plan.chunks.len()));
    // A run keeps a trace only if the memory limit has room for it.
    let has_room =
        limit.is_none_or(|limit| needs.pinned.0.saturating_add(needs.trace.0) <= limit.0);
    let trace = has_room.then_some(needs.trace);
    let space = target.space()?;
    let refused = refused(options, target);
    if options.json {
        let plan = json!({
            "input": options.input.to_string_lossy(),
            "output": target.path().to_string_lossy(),
            "output_format": target.format().name(),
            "operation": chain.description(),
            "left_out": left_out(input, Some(target)),
            "rows": rows,
            "bytes_in": read.0,
            "bytes_out": written.0,
            "chunks": chunks,
            "chunk_bytes": chunk.0,
            "slots": slots,
            "pinned_bytes": needs.pinned.0,
            "trace_bytes": trace.map_or(0, |bytes| bytes.0),
            "disk_needed_bytes": space.map(|space| space.needed.0),
            "disk_free_bytes": space.map(|space| space.free.0),
            "device_bytes": needs.device.0,
            "copies_ns": time.0,
            "refused": refused,
        });
        return print_json("map", &plan).map(|()| ExitCode::SUCCESS);
    }
    let trace_words =
        trace.map_or_else(|| NO_TRACE.to_owned(), |bytes| format!("about {bytes} for the trace"));
    print(job_words(target, chain))?;
    say_left_out(input, Some(target));
    print(format_args!(
        "reads {read}, writes {written} in {}\n\
         chunks: {chunks} of {chunk}, {slots} in flight (a run on a GPU measures first, and may choose others)\n\
         memory of the host: {} page-locked, {trace_words}\n\
         memory of the device: {}\n\
         time: at least {time} for the copies of a modelled H200; reading, writing and kernels are not included",
        count(rows, "row"),
        needs.pinned,
        needs.device,
    ))?;
    if let Some(Space { needed, free }) = space {
        let verdict = if needed <= free { "" } else { ": too little" };
        print(format_args!("disk of the output: {needed} needed, {free} free{verdict}"))?;
    }
    if let Some(cause) = refused {
        print(format_args!("the run will be refused: {cause}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
