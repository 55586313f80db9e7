//! The texts of the command: the list of the benchmarks, the description of a benchmark, and
//! results.
#![forbid(unsafe_code)]

use super::options::BenchOptions;
use crate::benchmarks::{BENCHMARKS, Benchmark};
use crate::results::{COLUMNS, Results, Row, number};
use serde_json::{Value, json};
use trijet::Result;
use trijet_tools::command::document::print_json;
use trijet_tools::command::print::{print, print_text};
use trijet_tools::command::verdict::Live;

/// The list of the benchmarks, as JSON.
pub(super) fn all() -> Value {
    let one = |one: &Benchmark| json!({ "name": one.name, "measures": one.measures });
    json!({ "benchmarks": BENCHMARKS.iter().map(one).collect::<Vec<_>>() })
}

/// The list of the benchmarks, as text.
pub(super) fn list() -> String {
    let lines = BENCHMARKS.iter().map(|one| format!("{:<11}{}\n", one.name, one.measures));
    lines.collect::<String>() + "\n`trijet-bench NAME --help` describes one of them."
}

/// The measurement of a benchmark, its parameters and its columns.
pub(super) fn description(Benchmark { name, measures, definition, .. }: &Benchmark) -> String {
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

/// Prints the results: as CSV, as JSON, or for people.
pub(super) fn results(
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

/// The results as text: their origin, a table, and the notes.
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

/// A row, as text. The bound is printed as a share of the median.
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
