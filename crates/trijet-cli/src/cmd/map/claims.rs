//! `trijet map --claim`: this process takes rows of a job as they are free, until the output has
//! its final name.
#![forbid(unsafe_code)]

use super::devices;
use super::opening::{settings, with_way};
use super::rows_done::RowsDone;
use super::words::{add_job, job_words, say_finished, say_left_out, say_needs_gpu};
use crate::args::MapOptions;
use crate::cmd::document::print_json;
use crate::cmd::print;
use crate::cmd::stop::cancel_on_signals;
use crate::cmd::verdict::Live;
use crate::ranks;
use crate::values::MapReport;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use trijet::trace::count;
use trijet::{Error, ErrorKind, Result, Source};
use trijet_io::{ClaimOptions, ClaimedOutput, Fingerprint, Input, Target, shown};
use trijet_map::{Chain, Job, beside_chunks};

/// Takes part in a job until its output has its final name.
pub(super) fn run(
    options: &MapOptions,
    input: &Input,
    target: &Target,
    chain: &Chain,
    fingerprint: &Fingerprint,
) -> Result<ExitCode> {
    let cancel = cancel_on_signals("after the chunks in flight")?;
    let usual = ClaimOptions::default();
    let claim = ClaimOptions {
        lease: Duration::from_secs(options.lease),
        range_min: options.chunk.unwrap_or(usual.range_min),
    };
    // A process that needs a GPU and has none takes no rows.
    let devices = devices::open(options.device, ranks::local_of_environment(), &options.check)?;
    match devices.iter().try_for_each(|device| chain.load(device)) {
        Err(error) if error.kind() == ErrorKind::NoDevice => return say_needs_gpu(error, chain),
        outcome => outcome?,
    }
    if devices.len() > 1 {
        let cause = "--claim uses one device in each process; start a process for each GPU";
        return Err(Error::new(ErrorKind::InvalidValue, "map", cause));
    }
    let Some(output) = ClaimedOutput::open(target, fingerprint, claim, &cancel)? else {
        return say_finished(options, target, chain);
    };
    let mut output = match options.memory {
        Some(limit) => output.host_memory(beside_chunks(limit)),
        None => output,
    };
    let granule = chain.granule(target.granule());
    let job = Job::new(chain, &devices, input.layout(), granule, settings(options, input))?;
    let bar = RowsDone::new(target.layout().rows, output.rows_known());
    let ran = job.run_claimed(input, &mut output, &cancel, &|rows| bar.add(rows));
    bar.clear();
    let own = output.rows_done();
    if let Err(error) = ran {
        let error = with_way(error, options);
        let is_cancelled = error.kind() == ErrorKind::Cancelled;
        output.stop((!is_cancelled).then_some(&error));
        let out = shown(target.path());
        let words = format!(
            "{out} is not finished: this process has done {}, which are kept; the same command \
             continues",
            count(own, "row")
        );
        return Err(error.context(words));
    }
    drop(output);
    let verdict = Live::of_all(&devices)?;
    say(options, input, target, chain, own, &verdict)?;
    for device in devices {
        device.close()?;
    }
    Ok(verdict.exit_code())
}

/// Prints the end of the job.
fn say(
    options: &MapOptions,
    input: &Input,
    target: &Target,
    chain: &Chain,
    own: u64,
    verdict: &Live,
) -> Result<()> {
    let rows = target.layout().rows;
    if options.json {
        let mut value = json!({ "rows": own, "kept_rows": rows - own.min(rows), "complete": true });
        verdict.add_to(&mut value);
        add_job(&mut value, options, target, chain);
        return print_json("map", &value);
    }
    say_left_out(input, Some(target));
    if options.report == MapReport::None {
        return verdict.print_findings();
    }
    print(job_words(target, chain))?;
    print(format_args!("this process has done {own} of {rows} rows; the output is complete"))?;
    verdict.print()
}
