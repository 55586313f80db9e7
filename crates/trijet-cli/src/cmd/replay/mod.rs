//! `trijet replay`: repeats the allocations of a trace in the heap of a device, and shows the
//! addresses of the memory.
#![forbid(unsafe_code)]

use super::document::print_json;
use super::print;
use super::verdict::Live;
use crate::args::{ModeName, ReplayOptions};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::ExitCode;
use trijet::trace::count;
use trijet::trace::html::SHARED_STYLE;
use trijet::{Bytes, Device, Nanos, Result};
use trijet_io::{NewFile, file_error, shown};
use trijet_tools::allocations::picture::{Panel, of_caching};
use trijet_tools::allocations::replay::{Options, ReplayOutcome, replay};
use trijet_tools::allocations::{DeviceTrace, Text, Trace, read_all};
use trijet_tools::stats::Samples;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The names of the lines of the table. Each line has one figure for each allocator.
const FIGURES: [&str; 9] = [
    "an allocation, median",
    "an allocation, 99.9 %",
    "a free, median",
    "the whole run",
    "driver calls",
    "refused",
    "waits",
    "most held",
    "most held, of live",
];

/// The figures of an allocator in a replay.
struct Row {
    name: &'static str,
    /// The time of an allocation in nanoseconds: the median and the 99.9 % quantile. `None` for a
    /// model.
    allocate_ns: Option<(f64, f64)>,
    free_ns: Option<f64>,
    whole: Option<Nanos>,
    held_peak: u64,
    failed: u64,
    calls: u64,
    waits: u64,
}

fn median(samples: &Samples) -> Option<f64> {
    (samples.count() > 0).then(|| samples.quantile(0.5))
}

impl Row {
    fn of(name: &'static str, outcome: &ReplayOutcome) -> Self {
        let allocate = Samples::of(outcome.allocate_ns.clone());
        let free = Samples::of(outcome.free_ns.clone());
        let slowest = allocate.quantile(0.999);
        Self {
            name,
            allocate_ns: median(&allocate).map(|median| (median, slowest)),
            free_ns: median(&free),
            whole: Some(outcome.whole),
            held_peak: outcome.held_peak,
            failed: outcome.failed,
            calls: outcome.calls,
            waits: outcome.waits,
        }
    }

    fn of_model(panel: &Panel) -> Self {
        let Panel { held_peak, failed, driver_calls: calls, .. } = *panel;
        let name = "caching allocator (model)";
        let (allocate_ns, free_ns, whole) = (None, None, None);
        Self { name, allocate_ns, free_ns, whole, held_peak, failed, calls, waits: 0 }
    }

    /// The figures in the order of [`FIGURES`].
    fn cells(&self, peak: u64) -> [String; FIGURES.len()] {
        let ns = |value: Option<f64>| value.map_or("-".to_owned(), |ns| format!("{ns:.0} ns"));
        let ratio = if peak == 0 { 0.0 } else { self.held_peak as f64 / peak as f64 };
        [
            ns(self.allocate_ns.map(|(median, _)| median)),
            ns(self.allocate_ns.map(|(_, slow)| slow)),
            ns(self.free_ns),
            self.whole.map_or("-".to_owned(), |whole| whole.to_string()),
            self.calls.to_string(),
            self.failed.to_string(),
            self.waits.to_string(),
            Bytes(self.held_peak).to_string(),
            format!("{ratio:.3}"),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "allocate_ns": self.allocate_ns.map(|(median, _)| median),
            "allocate_p999_ns": self.allocate_ns.map(|(_, slow)| slow),
            "free_ns": self.free_ns,
            "whole_ns": self.whole.map(|whole| whole.0),
            "held_peak_bytes": self.held_peak,
            "refused": self.failed,
            "driver_calls": self.calls,
            "waits": self.waits,
        })
    }
}

/// The trace of one device of the program, replayed over the heap and over the model.
struct Replayed {
    /// The name of the device; empty if the trace names no device.
    device: String,
    trace: Trace,
    /// The number of allocator calls that failed in the traced program.
    failed: u64,
    rows: [Row; 2],
    panels: Vec<Panel>,
}

impl Replayed {
    /// Replays a trace on `device`, and records the picture if a page is wanted.
    fn of(traced: DeviceTrace, options: &ReplayOptions, device: &Device) -> Result<Self> {
        let DeviceTrace { device: name, trace, failed } = traced;
        let limit = options.limit.map(|limit| limit.0);
        let of_name = if name.is_empty() { String::new() } else { format!(", device {name}") };
        let mode = mode_name(options);
        let title = || format!("heap of {}, {mode}{of_name}", device.info().name);
        let picture = options.output.is_some().then(title);
        let outcome = replay(device, &trace, &Options { limit, picture })?;
        let mut caching = of_caching(&trace, limit);
        let rows = [Row::of("heap", &outcome), Row::of_model(&caching)];
        let mut panels = Vec::new();
        // The page shows the run whose figures are in the table.
        if let Some(panel) = outcome.panel {
            caching.name.push_str(&of_name);
            panels.extend([panel, caching]);
        }
        Ok(Self { device: name, trace, failed, rows, panels })
    }

    fn json(&self) -> Value {
        json!({
            "traced_device": self.device,
            "rows": self.trace.rows.len(),
            "allocations": self.trace.allocations,
            "streams": self.trace.streams,
            "threads": self.trace.threads,
            "live_peak_bytes": self.trace.peak(),
            "failed_in_program": self.failed,
            "allocators": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }
}

/// The mode of the heap, by its name for `--mode`.
fn mode_name(options: &ReplayOptions) -> &'static str {
    match options.mode {
        None | Some(ModeName::Speed) => "speed",
        Some(ModeName::Footprint) => "footprint",
        Some(ModeName::Deterministic) => "deterministic",
        Some(ModeName::NeverWait) => "never-wait",
    }
}

pub(crate) fn run(options: &ReplayOptions) -> Result<ExitCode> {
    let existing = options.overwrite.existing();
    let output = options.output.as_deref();
    let output = output.map(|path| NewFile::new("replay", path, existing, &[&options.file]));
    let output = output.transpose()?;
    let Text { devices: traces, cut } = read(&options.file)?;
    let device = super::open(options.device, &options.check)?;
    if let Some(mode) = options.mode {
        device.set_heap_mode(mode.into())?;
    }
    let replayed = traces.into_iter().map(|traced| Replayed::of(traced, options, &device));
    let replayed: Vec<Replayed> = replayed.collect::<Result<_>>()?;
    if let Some(output) = &output {
        let page = page(&options.file, &replayed);
        output.write(|file| file.write_all(page.as_bytes()))?;
    }
    let verdict = Live::of(&device);
    if options.json {
        let mut value = json!({
            "file": options.file.to_string_lossy(),
            "device": device.info().name,
            "cut_line": cut,
            "limit_bytes": options.limit.map(|limit| limit.0),
            "mode": mode_name(options),
            "page": options.output.as_ref().map(|page| page.to_string_lossy()),
            "traces": replayed.iter().map(Replayed::json).collect::<Vec<_>>(),
        });
        verdict.add_to(&mut value);
        print_json("replay", &value)?;
    } else {
        replayed.iter().try_for_each(|one| text(options, one))?;
        if let Some(line) = cut {
            print(format_args!("the last line ({line}) is cut off, and is not replayed"))?;
        }
        print("no kernel found the tag of another owner in its memory")?;
        if let Some(page) = &options.output {
            print(format_args!("page: {}", shown(page)))?;
        }
        verdict.print()?;
    }
    device.close()?;
    Ok(verdict.exit_code())
}

fn text(options: &ReplayOptions, replayed: &Replayed) -> Result<()> {
    let Replayed { device, trace, failed, rows, .. } = replayed;
    let peak = trace.peak();
    let of_device = if device.is_empty() { String::new() } else { format!(", device {device}") };
    print(format_args!(
        "{}{of_device}: {}, {} of at most {} at once, {}, {}",
        shown(&options.file),
        count(trace.rows.len() as u64, "call"),
        count(trace.allocations.into(), "allocation"),
        Bytes(peak),
        count(trace.streams.into(), "stream"),
        count(trace.threads.into(), "thread")
    ))?;
    if *failed > 0 {
        print(format_args!("not replayed: {} that failed in the program", count(*failed, "call")))?;
    }
    let [heap, caching] = rows;
    print(format_args!("{:<23}{:>12}{:>29}", "", heap.name, caching.name))?;
    let cells = heap.cells(peak).into_iter().zip(caching.cells(peak));
    FIGURES.iter().zip(cells).try_for_each(|(figure, (heap, caching))| {
        print(format_args!("{figure:<23}{heap:>12}{caching:>29}"))
    })
}

fn read(path: &Path) -> Result<Text> {
    let file = File::open(path).map_err(|error| file_error::io("replay", path, error))?;
    let read = read_all(BufReader::new(file));
    read.map_err(|error| error.context(shown(path).to_string()))
}

/// The page. Each `<` in the data is escaped, so that file names and device names cannot become
/// tags.
fn page(file: &Path, replayed: &[Replayed]) -> String {
    let title = file.to_string_lossy().into_owned();
    let rows = replayed.iter().map(|one| one.trace.rows.len()).max();
    let panel = |panel: &Panel, peak: u64| {
        let mut panel = json!(panel);
        panel["trace_peak"] = peak.into();
        panel
    };
    let of = |one: &'_ Replayed| {
        let peak = one.trace.peak();
        one.panels.iter().map(|one| panel(one, peak)).collect::<Vec<_>>()
    };
    let panels: Vec<Value> = replayed.iter().flat_map(of).collect();
    let data = json!({ "title": title, "rows": rows, "allocators": panels });
    let data = data.to_string().replace('<', "\\u003c");
    // The data are inserted last, because a name in them may contain a mark such as `/*STYLE*/`.
    let style = [SHARED_STYLE, STYLE].concat();
    let page = PAGE.replacen("/*STYLE*/", &style, 1).replacen("/*SCRIPT*/", SCRIPT, 1);
    page.replacen("/*DATA*/", &data, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_a_page_is_json_whatever_its_names_are() {
        let name = "</script><b>/*STYLE*/ \u{2028}";
        let text = "Action,Pointer,Size,Stream\nallocate,1,10,0\n";
        let trace = Trace::read(text.as_bytes()).expect("it is a trace");
        let caching = of_caching(&trace, None);
        let rows = [Row::of_model(&caching), Row::of_model(&caching)];
        let (device, panels) = (name.to_owned(), vec![caching]);
        let replayed = Replayed { device, trace, failed: 0, rows, panels };
        let page = page(Path::new(name), &[replayed]);
        let (_, data) =
            page.split_once("<script id=\"data\" type=\"application/json\">").expect("data");
        let (data, _) = data.split_once("</script>").expect("its end");
        let value: Value = serde_json::from_str(data).expect("it is JSON");
        assert_eq!(value["title"], name);
        assert_eq!(value["allocators"][0]["blocks"][0][1], 10);
        assert!(!page.contains("/*SCRIPT*/"));
    }
}
