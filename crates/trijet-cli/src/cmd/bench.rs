//! `trijet bench`: lists the benchmarks, describes one, or runs it and prints its results.
#![forbid(unsafe_code)]

use super::document::print_json;
use super::progress::Progress;
use super::stop::cancel_on_signals;
use super::verdict::Live;
use super::{print, print_text};
use crate::args::{BenchOptions, Options};
use crate::ranks;
use clap::CommandFactory;
use serde_json::{Value, json};
use std::process::ExitCode;
use trijet::{Cancel, Error, ErrorKind, Result};
use trijet_bench::Setting;
use trijet_bench::benchmarks::{BENCHMARKS, Benchmark, named};
use trijet_bench::results::{COLUMNS, Results, Row, number};
use trijet_tools::command::device::{of_process, open_each};
use trijet_tools::progress::{Step, Steps};

pub(crate) fn run(options: &BenchOptions) -> Result<ExitCode> {
    let benchmark = options.name.as_deref().and_then(named);
    match (benchmark, options.help) {
        (Some(benchmark), true) => print(description(benchmark))?,
        (Some(benchmark), false) => return run_one(benchmark, options),
        (None, true) => print(help())?,
        (None, false) if options.json => print_json("bench", &json!({ "benchmarks": all() }))?,
        (None, false) => print(list())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The help of the command.
fn help() -> String {
    let mut root = Options::command();
    root.build();
    let bench = root.find_subcommand_mut("bench");
    bench.map_or_else(String::new, |bench| bench.render_long_help().to_string().trim_end().into())
}

/// The benchmarks, for programs.
fn all() -> Vec<Value> {
    BENCHMARKS.iter().map(|one| json!({ "name": one.name, "measures": one.measures })).collect()
}

/// The benchmarks, for people.
fn list() -> String {
    let lines = BENCHMARKS.iter().map(|one| format!("{:<11}{}\n", one.name, one.measures));
    lines.collect::<String>() + "\n`trijet bench NAME --help` describes one of them."
}

/// The measurement of a benchmark, its parameters and its columns.
fn description(Benchmark { name, measures, definition, .. }: &Benchmark) -> String {
    let mut text = format!("{name}: {measures}.\n\nParameters, which are fixed:\n\n");
    text.extend(with_whole_comments(definition).iter().map(|line| format!("  {line}\n")));
    text += "\nColumns of --csv, and fields of a row of --json:\n\n";
    text.extend(COLUMNS.map(|(column, has)| format!("  {column:<19}{has}\n")));
    text += "\nEach row of --csv begins with the device, the driver, the host, the date and the commit.";
    text
}

/// The lines of a definition. A comment of several lines becomes one line, which a terminal breaks
/// at its width.
fn with_whole_comments(definition: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in definition.trim_end().lines() {
        match (lines.last_mut(), line.strip_prefix("# ")) {
            (Some(before), Some(rest)) if before.starts_with("# ") => {
                before.push(' ');
                before.push_str(rest);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

fn run_one(benchmark: &Benchmark, options: &BenchOptions) -> Result<ExitCode> {
    // If the benchmark runs as several processes, each takes the GPU of its number on this host.
    let rank = if benchmark.is_for_ranks() { ranks::of_environment()? } else { None };
    let device = match &rank {
        Some(rank) => {
            let name = of_process(options.device, rank.local)?;
            open_each(&[name], &options.check)?.remove(0)
        }
        None => super::open(options.device, &options.check)?,
    };
    let progress = Progress::on_stderr();
    let mut show = |step: Step<'_>| progress.show(step);
    let cancel = match benchmark.has_files() {
        true => cancel_on_signals("when the programs in progress have ended")?,
        false => Cancel::new(),
    };
    let trijet = std::env::current_exe().map_err(|error| {
        let cause = format!("cannot find out where this command lies: {error}");
        Error::new(ErrorKind::Io, "bench", cause).caused_by(error)
    })?;
    let setting = Setting { device: &device, trijet, cancel };
    let results = benchmark.run(&setting, &mut Steps::new(&mut show))?;
    drop(progress);
    let verdict = Live::of(&device);
    // The first of several processes has the results.
    if !results.is_empty() {
        show_results(benchmark, &results, options, &verdict)?;
    }
    results.check_whole()?;
    if !options.json {
        verdict.print()?;
    }
    device.close()?;
    Ok(verdict.exit_code())
}

fn show_results(
    benchmark: &Benchmark,
    results: &Results,
    options: &BenchOptions,
    verdict: &Live,
) -> Result<()> {
    if options.csv {
        return print_text(results.to_string().trim_end());
    }
    if options.json {
        let mut value = json_of(benchmark, results);
        verdict.add_to(&mut value);
        return print_json("bench", &value);
    }
    print(text(benchmark, results))
}

fn json_of(benchmark: &Benchmark, results: &Results) -> Value {
    let row = |row: &Row| match row {
        Row::Figure { what, unit, samples, bound, note } => {
            let median = samples.quantile(0.5);
            json!({
                "what": what,
                "unit": unit,
                "median": median,
                "min": samples.quantile(0.0),
                "max": samples.quantile(1.0),
                "samples": samples.count(),
                "bound": bound,
                "bound_over_median": bound.map(|bound| bound / median),
                "note": note,
            })
        }
        Row::Note { what, note } => json!({ "what": what, "note": note }),
    };
    let mut value = json!({
        "benchmark": benchmark.name,
        "rows": results.rows().iter().map(row).collect::<Vec<_>>(),
    });
    for (name, fact) in results.facts() {
        value[name] = fact.into();
    }
    value
}

/// The results for people: their origin, a table, and the notes.
fn text(benchmark: &Benchmark, results: &Results) -> String {
    let [(_, device), (_, driver), (_, host), _, (_, commit)] = results.facts();
    let mut lines = vec![
        format!("{}: {}", benchmark.name, benchmark.measures),
        format!("on {device}; driver {driver}; {host}; commit {commit}"),
    ];
    let (figures, notes): (Vec<_>, Vec<_>) =
        results.rows().iter().partition(|row| matches!(row, Row::Figure { .. }));
    if !figures.is_empty() {
        let [a, b, c, d, e] = ["median", "min", "max", "unit", "bound"];
        lines.push(String::new());
        lines.push(format!("{a:>11}{b:>11}{c:>11} {d:<9}{e:>6}  figure"));
    }
    lines.extend(figures.into_iter().chain(notes).map(line));
    lines.join("\n")
}

/// A row for people. The bound is a share of the median.
fn line(row: &Row) -> String {
    match row {
        Row::Figure { what, unit, samples, bound, note } => {
            let median = samples.quantile(0.5);
            let [min, max] = [0.0, 1.0].map(|share| number(samples.quantile(share)));
            let share = bound.map_or_else(String::new, |b| format!("{:.0} %", b / median * 100.0));
            let note = if note.is_empty() { String::new() } else { format!("; {note}") };
            format!("{:>11}{min:>11}{max:>11} {unit:<9}{share:>6}  {what}{note}", number(median))
        }
        Row::Note { what, note } => format!("{what}: {note}"),
    }
}
