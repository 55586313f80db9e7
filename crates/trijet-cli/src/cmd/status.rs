//! `trijet status`: the state of a job of `trijet map`, from the files beside its output.
#![forbid(unsafe_code)]

use super::document::print_json;
use super::print;
use crate::args::StatusOptions;
use serde_json::{Value, json};
use std::fs;
use std::ops::Range;
use trijet::trace::count;
use trijet::{Error, ErrorKind, Result};
use trijet_io::{JobStatus, JournalStatus, ProcessStatus, shown};

/// Prints the state of a job.
pub(crate) fn run(options: &StatusOptions) -> Result<()> {
    let (out, state) = (&options.output, options.state.as_deref());
    if let Some(job) = JobStatus::read(out, state)? {
        return if options.json {
            print_json("status", &json_of(options, &job))
        } else {
            say(&job)
        };
    }
    let journals = JournalStatus::read(out, state)?;
    let is_there = fs::symlink_metadata(out).is_ok();
    if journals.is_empty() && !is_there {
        let cause = format!("{}: neither the output nor a job that writes it exists", shown(out));
        return Err(Error::new(ErrorKind::InvalidValue, "status", cause));
    }
    if options.json {
        return print_json("status", &json_of_journals(options, &journals));
    }
    for one in &journals {
        print(words_of(one))?;
    }
    match is_there {
        true => print(format_args!("{} has its final name", shown(out))),
        false => Ok(()),
    }
}

fn say(job: &JobStatus) -> Result<()> {
    let JobStatus { operation, rows, rows_done, rows_taken, processes } = job;
    print(format_args!(
        "{operation}: {rows_done} of {rows} rows are done, {rows_taken} are taken"
    ))?;
    processes.iter().try_for_each(|process| print(words(process)))
}

/// The line about a process.
fn words(state: &ProcessStatus) -> String {
    let ProcessStatus { host, process, activity, rows, rows_done, seconds, error, .. } = state;
    let named: Vec<String> = rows.iter().map(named).collect();
    let on =
        if named.is_empty() { String::new() } else { format!(" on rows {}", named.join(", ")) };
    let cause = error.as_ref().map_or(String::new(), |error| format!(": {error}"));
    let done = count(*rows_done, "row");
    format!("process {process} on {host}: {activity}{on}, {done} done in {seconds} s{cause}")
}

fn named(rows: &Range<u64>) -> String {
    format!("{}..{}", rows.start, rows.end)
}

/// The line about a journal.
fn words_of(one: &JournalStatus) -> String {
    let who =
        one.shard.map_or("the job".to_owned(), |(index, of)| format!("shard {index} of {of}"));
    let state = match (one.is_finished, one.is_running) {
        (true, _) => "is finished",
        (false, Some(true)) => "is running",
        (false, Some(false)) => "is stopped; --resume continues it",
        (false, None) => "may be running, which a file system without locks does not show",
    };
    format!("{who} ({}): {} done, and {state}", one.operation, count(one.rows_done, "row"))
}

fn json_of(options: &StatusOptions, job: &JobStatus) -> Value {
    let process = |one: &ProcessStatus| {
        let rows: Vec<[u64; 2]> = one.rows.iter().map(|rows| [rows.start, rows.end]).collect();
        json!({
            "host": one.host,
            "process": one.process,
            "activity": one.activity,
            "rows": rows,
            "rows_done": one.rows_done,
            "elapsed_s": one.seconds,
            "error": one.error,
            "beat": one.beat,
        })
    };
    json!({
        "output": options.output.to_string_lossy(),
        "complete": fs::symlink_metadata(&options.output).is_ok(),
        "operation": job.operation,
        "rows": job.rows,
        "rows_done": job.rows_done,
        "rows_taken": job.rows_taken,
        "processes": job.processes.iter().map(process).collect::<Vec<_>>(),
        "shards": [],
    })
}

fn json_of_journals(options: &StatusOptions, journals: &[JournalStatus]) -> Value {
    let shard = |one: &JournalStatus| {
        let [index, of] = one.shard.map_or([0, 1], |(index, of)| [index, of]);
        json!({
            "index": index,
            "count": of,
            "rows_done": one.rows_done,
            "finished": one.is_finished,
            "running": one.is_running,
        })
    };
    json!({
        "output": options.output.to_string_lossy(),
        "complete": fs::symlink_metadata(&options.output).is_ok(),
        "operation": journals.first().map(|one| one.operation.clone()),
        "rows": null,
        "rows_done": journals.iter().map(|one| one.rows_done).sum::<u64>(),
        "rows_taken": 0,
        "processes": [],
        "shards": journals.iter().map(shard).collect::<Vec<_>>(),
    })
}
