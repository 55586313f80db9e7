//! `trijet map`: applies an operation to an array that may be larger than the GPU's memory.
#![forbid(unsafe_code)]

mod claims;
pub(super) mod devices;
mod opening;
mod plan;
mod plan_against;
mod rows_done;
mod stream;
mod words;

use self::opening::{needs_one, open_input, rank_of, settings, with_way};
use self::rows_done::RowsDone;
use self::words::{
    Done, explain, lost_words, say_done, say_finished, say_needs_gpu, unlocked_words,
};
use super::print_stderr;
use super::stop::{self, cancel_on_signals};
use crate::args::{MapOptions, is_stream};
use crate::ranks::OwnRank;
use crate::timeline;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use trijet::{Error, ErrorKind, Result, Source};
use trijet_io::{Durability, Fingerprint, Input, Output, Start, Target};
use trijet_io::{file_error, refuse_sources};
use trijet_map::{Chain, Job, Origin, Step, beside_chunks};
use trijet_tools::command::usage::failed;

/// Returns an error if `--skip-bad` is set and an operation computes other images from the rows of
/// a damaged image.
fn check_skipping(options: &MapOptions, chain: &Chain) -> Result<()> {
    if !options.skip_bad || chain.is_per_image() {
        return Ok(());
    }
    let cause = "--skip-bad cannot be used with an operation that reads other images, or with a \
                 kernel with --halo: it would compute the images next to a damaged image from the \
                 rows of the damaged image";
    Err(Error::new(ErrorKind::InvalidValue, "map", cause))
}

/// The files that the run reads.
fn sources(options: &MapOptions) -> Vec<&Path> {
    let mut sources = vec![options.input.as_path()];
    sources.extend(options.steps.all().iter().flat_map(Step::files));
    sources
}

/// Describes the file of the timeline, before the run starts. A file that cannot be written is then
/// an error before the run, and not at its end.
fn open_trace(options: &MapOptions, input: &Input, out: &Path) -> Result<Option<timeline::Target>> {
    let Some(path) = &options.trace else { return Ok(None) };
    let target = timeline::Target::new(path, options.existing(), &sources(options))?;
    let target = target.beside(out)?;
    if input.layout().rows == 0 {
        let cause = "there is nothing to trace, because the input has no elements";
        return Err(file_error::refused("trace", path, cause));
    }
    Ok(Some(target))
}

fn start_of(options: &MapOptions) -> Start {
    match (options.resume, options.unverified, options.restart) {
        (true, false, _) => Start::Resume,
        (true, true, _) => Start::ResumeUnverified,
        (false, _, true) => Start::Restart,
        (false, _, false) => Start::New,
    }
}

/// The output, or the part of the output that this process writes.
fn target_of(
    options: &MapOptions,
    input: &Input,
    chain: &Chain,
    rank: Option<&OwnRank>,
) -> Result<Target> {
    refuse_sources("create", &options.output, &sources(options))?;
    let describe = if options.raw { Target::or_headerless } else { Target::new };
    let target = describe(&options.output, chain.output_of_part()?, input)?;
    let target = match &options.state {
        Some(state) => target.in_state(state)?,
        None => target,
    };
    if options.claim {
        let granule = chain.granule(target.granule());
        return Ok(target.with_claims(granule));
    }
    match rank {
        None if options.overwrite => Ok(target.overwrite()),
        None => Ok(target),
        Some(rank) if options.overwrite || options.skip_bad => {
            let option = if options.overwrite { "--overwrite" } else { "--skip-bad" };
            let cause = format!("{option} needs a job of one process, but this is {rank}");
            Err(Error::new(ErrorKind::InvalidValue, "map", cause))
        }
        Some(rank) => {
            let granule = chain.granule(target.granule());
            Ok(target.of_shard(rank.shard, granule))
        }
    }
}

fn open_output(
    options: &MapOptions,
    input: &Input,
    target: &Target,
    run: &Fingerprint,
) -> Result<Output> {
    let durability = if options.no_sync { Durability::InMemory } else { Durability::OnDisk };
    let output = Output::open(target, run, start_of(options))?.durability(durability);
    let output = match options.memory {
        Some(limit) => output.host_memory(beside_chunks(limit)),
        None => output,
    };
    let output = if options.skip_bad { output.skipping(input) } else { output };
    output.check_space()?;
    if !output.is_locked() {
        print_stderr(unlocked_words(target));
    }
    Ok(output)
}

/// The number of this process on its host, if a launcher has set it.
fn local_of(rank: Option<&OwnRank>) -> Option<u64> {
    rank.and_then(|rank| rank.local)
}

/// Reports which part of the job this process does, and the number of rows that an earlier run has
/// done.
fn say_start(options: &MapOptions, output: &Output, target: &Target, rank: Option<&OwnRank>) {
    if let Some(rank) = rank {
        let (own, all) = (target.rows(), target.layout().rows);
        print_stderr(format_args!("{rank}: rows {}..{} of {all}", own.start, own.end));
    }
    if !output.lost().is_empty() {
        print_stderr(lost_words(output, target));
    } else if options.resume && output.done().count() == 0 {
        print_stderr("there is nothing to resume: the run starts from the beginning");
    }
}

/// The exit status of a run that SIGTERM has stopped, and that the same job continues: "temporary
/// failure, try again" of `sysexits.h`.
const AGAIN: u8 = 75;

pub(crate) fn run(options: &MapOptions) -> Result<ExitCode> {
    let can_continue = !is_stream(&options.input) && !is_stream(&options.output);
    match run_once(options) {
        Err(error)
            if can_continue && error.kind() == ErrorKind::Cancelled && stop::is_terminated() =>
        {
            let _status = failed(&error);
            Ok(ExitCode::from(AGAIN))
        }
        ran => ran,
    }
}

fn run_once(options: &MapOptions) -> Result<ExitCode> {
    if is_stream(&options.output) {
        return stream::run(options);
    }
    // Processes that claim rows need no rank, and may have any variables.
    let rank = if options.claim { None } else { rank_of(options)? };
    if let (true, Some(rank)) = (is_stream(&options.input), &rank) {
        return Err(needs_one("process", format_args!("this is {rank}")));
    }
    let input = open_input(options)?;
    let chain = Arc::new(Chain::new(options.steps.all(), &Origin::of(&input))?);
    let input = if chain.reads_as_stored() { input.as_stored() } else { input };
    let target = target_of(options, &input, &chain, rank.as_ref())?;
    let trace = open_trace(options, &input, target.path())?;
    let granule = chain.granule(target.granule());
    check_skipping(options, &chain)?;
    if options.plan {
        return plan::show(options, &input, &target, &chain, granule);
    }
    let needed = Arc::clone(&chain);
    let fingerprint = Fingerprint::new(&input, &chain.description(), &target)
        .input_rows(move |rows| needed.input_rows(rows));
    let fingerprint = if options.same_input { fingerprint.same_input() } else { fingerprint };
    if options.claim {
        return claims::run(options, &input, &target, &chain, &fingerprint);
    }
    if !options.resume {
        target.check_free()?;
    } else if target.is_finished(&fingerprint)? {
        return say_finished(options, &target, &chain);
    }
    let cancel = cancel_on_signals("after the chunks in flight")?;
    // The pages of the output are created while the devices start. The start takes half a second.
    let mut output = open_output(options, &input, &target, &fingerprint)?.begin_ahead();
    let devices = devices::open(options.device, local_of(rank.as_ref()), &options.check)?;
    match devices.iter().try_for_each(|device| chain.load(device)) {
        Err(error) if error.kind() == ErrorKind::NoDevice => {
            drop(output);
            return say_needs_gpu(error, &chain);
        }
        outcome => outcome?,
    }
    if input.is_stream() && devices.len() > 1 {
        return Err(needs_one("device", "--device all has several"));
    }
    if let (Some(trace), true) = (&options.trace, devices.len() > 1) {
        let cause = "a timeline shows one device only; choose a device with --device";
        return Err(file_error::refused("trace", trace, cause));
    }
    let job = Job::new(&chain, &devices, input.layout(), granule, settings(options, &input))?;
    say_start(options, &output, &target, rank.as_ref());
    let todo = job.todo(&output);
    let kept = todo.kept;
    let bar = RowsDone::new(todo.count() + kept, kept);
    let ran = job.run(&input, &mut output, &todo.rows, &cancel, &|rows| bar.add(rows));
    bar.clear();
    let reports = match ran {
        Ok(reports) => reports,
        Err(error) => return Err(explain(with_way(error, options), &input, output, &target)),
    };
    let is_complete = output.is_complete();
    let done = Done {
        options,
        input: &input,
        target: &target,
        chain: &chain,
        trace,
        rank,
        kept,
        damaged: input.damaged(),
        is_complete,
    };
    say_done(&reports, devices, &done).map_err(|error| error.context(done.words()))
}
