//! The tree of the findings as text for a terminal of 80 columns. The advice comes last. The name
//! of a value ends with its unit, as in the JSON, and the unit decides the format of the value.
#![forbid(unsafe_code)]

use super::tree::name_of;
use crate::cmd::queues::hardware_queues;
use serde_json::Value;
use std::fmt::{Display, Write};
use trijet::trace::count;
use trijet::{Bytes, Clock};
use trijet_tools::doctor::advice::kernels_overlap;
use trijet_tools::doctor::findings::{Findings, Path};
use trijet_tools::doctor::verdict::StreamVerdict;
use trijet_tools::origin::COMMIT;
use trijet_tools::stats::SPREAD_MAX;

/// Maximum number of columns of a line.
const WIDTH: usize = 79;
/// Maximum spread that is printed. A larger spread comes from a few interrupted samples.
const SPREAD_SHOWN_MAX: f64 = 9.99;
/// The reason why there is no advice without a GPU.
const NO_ADVICE: &str = "advice is given only for a GPU and its link, but here the processor was \
                         measured; `trijet map` chooses chunks and slots for a processor by itself";

/// Returns the text of a value. The arguments are the row and the name of the value.
type Words = fn(&Value, &str) -> String;

/// A column of a table.
struct Column<'a> {
    head: &'a str,
    key: &'static str,
    /// The width in characters. A negative number aligns the column to the left.
    width: isize,
    words: Words,
}

/// A column whose values are formatted by [`words`].
fn column<'a>(head: &'a str, key: &'static str, width: isize) -> Column<'a> {
    Column { head, key, width, words }
}

/// A text that grows by lines.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("a string takes every line");
    }

    /// Appends words in lines of at most `WIDTH` columns; the lines after the first are indented.
    fn wrapped(&mut self, first: &str, words: &str) {
        let mut line = first.to_owned();
        for word in words.split_whitespace() {
            if line.len() + word.len() + 1 > WIDTH {
                self.line(&line);
                line = " ".repeat(first.len().min(4));
            }
            if !line.ends_with(' ') && !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(line);
    }

    fn title(&mut self, title: &str) {
        self.line("");
        self.wrapped("", title);
    }

    /// Returns the rows of the section `key`, and adds the title of the section to the page. If the
    /// section has no rows, returns `None` and adds nothing.
    fn section<'a>(&mut self, tree: &'a Value, key: &str, title: &str) -> Option<Vec<&'a Value>> {
        let rows = rows(tree, key);
        (!rows.is_empty()).then(|| self.title(title)).map(|()| rows)
    }

    /// Adds a line with the heads of the columns, and a line for each row.
    fn table(&mut self, rows: &[&Value], columns: &[Column<'_>]) {
        let line = |text: &dyn Fn(&Column<'_>) -> String| {
            columns.iter().fold("  ".to_owned(), |line, column| {
                let (text, width) = (text(column), column.width.unsigned_abs());
                if column.width < 0 {
                    format!("{line}{text:<width$}")
                } else {
                    format!("{line}{text:>width$}")
                }
            })
        };
        self.line(line(&|column| column.head.to_owned()));
        rows.iter().for_each(|row| self.line(line(&|one| (one.words)(row, one.key))));
    }

    /// Adds a table with a line for each value of `down` and a column for each value of `across`. A
    /// cell has the value of `cell` in the row with these two values.
    fn matrix(&mut self, rows: &[&Value], down: &Column<'_>, across: &str, cell: &Column<'_>) {
        let (heads, first) = (each_once(rows, across), down.width.unsigned_abs());
        // Each head has at least two spaces before it.
        let wide = |head: &String| (head.len() + 2).max(cell.width.unsigned_abs());
        let line: String = heads.iter().map(|head| format!("{head:>0$}", wide(head))).collect();
        self.line(format_args!("  {:<first$}{line}", down.head));
        for name in each_once(rows, down.key) {
            let text = |head: &String| {
                let is_here =
                    |row: &&&Value| words(row, down.key) == name && words(row, across) == *head;
                let text = rows.iter().find(is_here).map(|row| (cell.words)(row, cell.key));
                format!("{:>1$}", text.as_deref().unwrap_or("-"), wide(head))
            };
            let line: String = heads.iter().map(text).collect();
            self.line(format_args!("  {name:<first$}{line}"));
        }
    }

    /// Adds a line with the number of noisy values and the row of the value with the largest
    /// spread, if any value is noisy. `keys` are the names of the examined values. The values with
    /// the names `of`, joined by `between`, identify the row.
    fn noise(&mut self, rows: &[&Value], keys: &[&str], of: &[&str], between: &str) {
        let spreads = rows.iter().flat_map(|row| {
            let spread = |key: &&str| row[*key]["spread"].as_f64();
            keys.iter().filter_map(spread).map(move |spread| (row, spread))
        });
        let noisy: Vec<_> = spreads.filter(|(_, spread)| *spread > SPREAD_MAX).collect();
        if let Some((row, worst)) = noisy.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
            let most = match *worst > SPREAD_SHOWN_MAX {
                true => "more than ten times the median".to_owned(),
                false => format!("{:.0} %", worst * 100.0),
            };
            let name: Vec<String> = of.iter().map(|key| words(row, key)).collect();
            let (count, name) = (noisy.len(), name.join(between));
            self.wrapped(
                "  ~",
                &format!(
                    "noisy: {count} with a spread (max - min) over 20 % of the median; at most {most} ({name})"
                ),
            );
        }
    }
}

/// The rows of the section `key` of the tree.
fn rows<'a>(tree: &'a Value, key: &str) -> Vec<&'a Value> {
    tree[key].as_array().into_iter().flatten().collect()
}

/// The texts of a value in all rows, each text once. Numbers are in ascending order.
fn each_once(rows: &[&Value], key: &str) -> Vec<String> {
    let (mut rows, mut once) = (rows.to_vec(), Vec::new());
    rows.sort_by_key(|row| row[key].as_u64());
    for text in rows.iter().map(|row| words(row, key)) {
        if !once.contains(&text) {
            once.push(text);
        }
    }
    once
}

/// A number with three significant digits.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// A time in microseconds, or in milliseconds if it is 1000 us or more.
fn micros(us: f64) -> String {
    if us >= 999.5 { format!("{} ms", short(us / 1e3)) } else { format!("{} us", short(us)) }
}

fn nanos(ns: f64) -> String {
    if ns >= 999.5 { micros(ns / 1e3) } else { format!("{ns:.0} ns") }
}

/// The usual text of a value. A measured value is its median with the unit, after a `~` if it is
/// noisy. A missing value is a dash.
fn words(row: &Value, key: &str) -> String {
    let value = &row[key];
    if let Some(median) = value["median"].as_f64() {
        let mark = if value["spread"].as_f64() > Some(SPREAD_MAX) { "~" } else { "" };
        let median = match key {
            _ if key.ends_with("_ns") => nanos(median),
            _ if key.ends_with("_us") => micros(median),
            _ if key.ends_with("_share") => format!("{:.0} %", median * 100.0),
            _ => format!("{median:.1}"),
        };
        return format!("{mark}{median}");
    }
    match (value.as_u64(), value.as_str()) {
        (Some(bytes), _) if key.ends_with("_bytes") => Bytes(bytes).to_string(),
        (Some(number), _) if key == "streams" => format!("{number} streams"),
        (Some(number), _) => number.to_string(),
        (_, Some(text)) if key == "path" => {
            let path = Path::ALL.into_iter().find(|path| name_of(*path) == text);
            path.map_or(text, |path| path.name()).to_owned()
        }
        (_, Some(text)) => text.to_owned(),
        _ => match value.as_array() {
            Some(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
            None => "-".to_owned(),
        },
    }
}

/// The median of a time, and its minimum and maximum in microseconds.
fn with_range(row: &Value, key: &str) -> String {
    let [min, max] = ["min", "max"].map(|end| row[key][end].as_f64().map(|ns| short(ns / 1e3)));
    let range = min.zip(max).map(|(min, max)| format!(" {min}..{max}"));
    words(row, key) + &range.unwrap_or_else(String::new)
}

/// The value of `key`, which is a number of repeats, a slash, and the number of all repeats.
fn repeats(row: &Value, key: &str) -> String {
    format!("{}/{}", row[key], row["repeats"])
}

/// Appends to `words` the number of repeats that gave the result of the row, unless all repeats
/// gave this result.
fn unless_all(row: &Value, words: &str) -> String {
    let is_all = row["agreeing_repeats"] == row["repeats"];
    if is_all { words.to_owned() } else { format!("{words} {}", repeats(row, "agreeing_repeats")) }
}

/// The whole report.
pub(super) fn report(f: &Findings, tree: &Value) -> String {
    let mut page = Page::default();
    header(f, &mut page);
    copies(tree, &mut page);
    calls(tree, &mut page);
    blocked(f, tree, &mut page);
    default_streams(tree, &mut page);
    limits(&tree["limits"], &mut page);
    queues(f, tree, &mut page);
    contention(tree, &mut page);
    allocations(tree, &mut page);
    chains(tree, &mut page);
    for (title, key) in [("Not applicable here", "not_applicable"), ("FAILED", "failed")] {
        for row in page.section(tree, key, title).into_iter().flatten() {
            page.wrapped("  ", &format!("{}: {}", words(row, "what"), words(row, "why")));
        }
    }
    if !f.on_gpu() {
        page.title("No advice");
        page.wrapped("  ", NO_ADVICE);
        return page.0;
    }
    page.title("Advice from these numbers (measured on this machine, not guaranteed)");
    rows(tree, "advice").iter().for_each(|row| page.wrapped("  -", &words(row, "text")));
    page.0
}

/// The text after the name of the device: the kind of device that was measured.
fn measured_words(f: &Findings) -> &'static str {
    match f.device.clock {
        Clock::Device => "measured on a GPU",
        Clock::Processor => "times of this machine's processor, not of a GPU",
        Clock::Model => "times of a model, not of a GPU",
    }
}

fn header(f: &Findings, page: &mut Page) {
    let info = &f.device;
    page.line(format_args!("{}: {}", info.name, measured_words(f)));
    if !f.on_gpu() {
        page.line(format_args!("  {}", count(u64::from(info.multiprocessors), "thread")));
    } else {
        let l2 = info.l2.map_or("unknown".to_owned(), |b| b.to_string());
        page.line(format_args!(
            "  cuda:{}, compute capability {}.{}, {} multiprocessors, {} copy engines, L2 {l2}, {}",
            f.ordinal,
            info.compute.0,
            info.compute.1,
            info.multiprocessors,
            info.copy_engines,
            info.memory
        ));
        let version = info.driver_version;
        page.line(format_args!(
            "  driver {} for CUDA {}.{}, stream priorities {} to {}, {}",
            f.kernel_driver.as_deref().unwrap_or("(version unknown)"),
            version / 1000,
            version % 1000 / 10,
            info.priorities.0,
            info.priorities.1,
            hardware_queues(info)
        ));
    }
    // The commit, shortened to 12 digits.
    let commit = COMMIT.get(..12).unwrap_or(COMMIT);
    page.line(format_args!("  {}, commit {commit}, took {:.1} s", f.date, f.elapsed_s));
    let yes = |reached| if reached { "yes" } else { "no" };
    for n in &f.neighbours {
        let (to, from) = (yes(n.reached), yes(n.reaches));
        let way = match n.reached && n.reaches {
            true => "",
            false => "; copies go through page-locked memory",
        };
        page.line(format_args!(
            "  cuda:{} {}: peer access to it {to}, from it {from}{way}",
            n.ordinal, n.name
        ));
    }
    for link in &f.links {
        let [alone, both, all, beside] = [&link.alone, &link.both, &link.all, &link.beside]
            .map(|rates| short(rates.quantile(0.5)));
        page.line(format_args!(
            "  cuda:{} to cuda:{}: {alone} GB/s, {both} both ways, {all} in all pairs at once, {beside} with host copies",
            link.from, link.to
        ));
    }
}

fn copies(tree: &Value, page: &mut Page) {
    let rows = rows(tree, "copies");
    let of = |path: Path| move |row: &&&Value| row["path"] == name_of(path);
    let between: Vec<&Value> =
        rows.iter().filter(|row| !of(Path::OnDevice)(row)).copied().collect();
    if between.is_empty() {
        return;
    }
    page.title("Copies by size, GB/s (medians of copies back to back; the bytes were verified)");
    let size = column("size", "size_bytes", -7);
    page.matrix(&between, &size, "path", &column("", "rate_gb_per_s", 9));
    if let Some(row) = rows.iter().find(of(Path::OnDevice)) {
        let rate = &row["rate_gb_per_s"];
        let speed = rate["median"].as_f64().map_or_else(String::new, short);
        let mark = if rate["spread"].as_f64() > Some(SPREAD_MAX) { "~" } else { "" };
        page.line(format_args!(
            "  within the device: {mark}{speed} GB/s, reads and writes together"
        ));
    }
    let busy = |path| {
        let large = rows.iter().filter(of(path)).max_by_key(|row| row["size_bytes"].as_u64());
        let share = large.and_then(|row| row["host_in_calls_share"]["median"].as_f64());
        share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))
    };
    let [up, pageable_up, pageable_down] =
        [Path::Upload, Path::PageableUpload, Path::PageableDownload].map(busy);
    page.wrapped("  ", &format!(
        "host time in the calls, largest size: pinned H2D {up}, pageable H2D {pageable_up}, pageable D2H {pageable_down}"
    ));
    page.noise(&rows, &["rate_gb_per_s"], &["path", "size_bytes"], " of ");
}

fn calls(tree: &Value, page: &mut Page) {
    let title = "Time per call, in a burst of calls (median, min to max)";
    let Some(rows) = page.section(tree, "calls", title) else { return };
    let columns = [
        column("call", "call", -27),
        Column { words: with_range, ..column("bare", "bare_host_ns", 20) },
        column("until done", "bare_until_device_done_ns", 11),
        Column { words: with_range, ..column("through trijet", "trijet_host_ns", 20) },
    ];
    page.table(&rows, &columns);
    page.wrapped(
        "  ",
        "bare, through trijet: host time (min..max in us); until done: until the device has completed a bare call",
    );
    page.noise(&rows, &columns.map(|column| column.key), &["call"], "");
}

fn blocked(f: &Findings, tree: &Value, page: &mut Page) {
    let rows = rows(tree, "blocking");
    let Some(first) = rows.first() else { return };
    let kernel = first["kernel_left_us"]["median"].as_f64().map_or_else(String::new, micros);
    page.title(&format!(
        "Calls that block: a kernel of {kernel} runs on stream a; then the call is made; then a \
         kernel is launched on stream b"
    ));
    for kind in each_once(&rows, "streams") {
        let head = format!("call, {kind} streams a and b");
        let of_kind: Vec<&Value> =
            rows.iter().filter(|row| row["streams"] == *kind).copied().collect();
        let columns = [
            column(&head, "call", -36),
            column("alone", "host_alone_us", 9),
            column("beside", "host_beside_kernel_us", 9),
            Column { words: |_, _| String::new(), ..column("", "", 1) },
            column("host", "host", -6),
            column("kernel on b", "stream_b", -13),
            Column { words: repeats, ..column("runs", "agreeing_repeats", 0) },
        ];
        page.table(&of_kind, &columns);
    }
    page.wrapped(
        "  ",
        "alone, beside: host time of the call without and with the kernel; runs: repeats that agree",
    );
    page.noise(&rows, &["host_alone_us", "host_beside_kernel_us"], &["call"], "");
    if !kernels_overlap(f) {
        page.wrapped(
            "  ",
            "kernels never ran concurrently here, so `held back` proves nothing about the calls",
        );
    }
}

fn default_streams(tree: &Value, page: &mut Page) {
    let title =
        "Default streams: does a kernel on the second stream wait for a kernel on the first?";
    let Some(rows) = page.section(tree, "default_streams", title) else { return };
    let waits: Words = |row, key| {
        let stream = words(row, key);
        let is = |verdict: StreamVerdict| stream == verdict.to_string();
        let word = match (is(StreamVerdict::Free), is(StreamVerdict::HeldBack)) {
            (true, _) => "no",
            (_, true) => "waits",
            _ => "unclear",
        };
        unless_all(row, word)
    };
    let cell = Column { words: waits, ..column("", "second_kernel", 13) };
    page.matrix(&rows, &column("first \\ second", "first", -22), "second", &cell);
    page.wrapped(
        "  ",
        "(legacy twice and per-thread twice are one stream; all other pairs are two streams)",
    );
}

fn limits(limits: &Value, page: &mut Page) {
    page.title("Limits");
    let launched = words(limits, "resident_grids_launched");
    let lines: [(&str, &dyn Fn(String) -> String); 5] = [
        ("resident_grids", &|n| {
            format!(
                "resident grids: {n} of {launched} one-block kernels ran at once, each on its own \
                 stream"
            )
        }),
        ("resident_grids_with_event_records", &|n| {
            format!("the same with an event record after each kernel: {n}")
        }),
        ("queue_depth_launches", &|n| {
            format!(
                "queue depth: a busy stream accepts {n} launches; the next launch blocks the host"
            )
        }),
        ("queue_launches_without_a_limit", &|n| {
            format!("queue depth: none of {n} launches on a busy stream blocked the host")
        }),
        ("stream_memory_bytes", &|n| format!("device memory of a stream: {n}")),
    ];
    for (key, line) in lines.iter().filter(|(key, _)| !limits[*key].is_null()) {
        page.line(format_args!("  {}", line(words(limits, key))));
    }
}

fn queues(f: &Findings, tree: &Value, page: &mut Page) {
    let title = "Shared hardware queues: kernels at once, each in its own stream with one \
                 operation after it";
    let Some(rows) = page.section(tree, "shared_hardware_queues", title) else { return };
    let at_once: Words = |row, key| {
        let is_all = row["agreeing_repeats"] == row["repeats"];
        unless_all(row, &(words(row, key) + if is_all { "" } else { " in" }))
    };
    let cell = Column { words: at_once, ..column("", "kernels_at_once", 16) };
    page.matrix(&rows, &column("after each kernel", "behind_each_kernel", -26), "streams", &cell);
    page.line(format_args!("  {}", hardware_queues(&f.device)));
}

fn contention(tree: &Value, page: &mut Page) {
    let title = "Contention: how much longer work takes beside other work than alone (results \
                 verified)";
    let Some(rows) = page.section(tree, "contention", title) else { return };
    let longer: Words = |row, key| {
        let is_noisy = |key: &str| row[key]["spread"].as_f64() > Some(SPREAD_MAX);
        let noisy = if is_noisy("alone_us") || is_noisy("beside_us") { "~" } else { "" };
        let at_least = if row["others_lasted"] == false { ">" } else { "" };
        // Without the sum, a small negative number is printed with its sign and without a digit.
        row[key].as_f64().map_or_else(String::new, |percent| {
            format!("{noisy}{at_least}{:.0} %", percent.round() + 0.0)
        })
    };
    let cell = Column { words: longer, ..column("", "longer_percent", 9) };
    page.matrix(&rows, &column("at once", "at_once", -31), "work", &cell);
    page.wrapped(
        "  ",
        "computing: a kernel that only computes; memory-bound: a kernel that is bound by device \
         memory; both fill the device",
    );
    if rows.iter().any(|row| row["others_lasted"] == false) {
        page.wrapped("  ", "> at least: the other work ended first");
    }
    page.noise(&rows, &["alone_us", "beside_us"], &["work", "at_once"], " in ");
}

fn allocations(tree: &Value, page: &mut Page) {
    let title = "Allocate and free, time of the pair (median)";
    let Some(rows) = page.section(tree, "allocations", title) else { return };
    page.matrix(&rows, &column("way", "way", -42), "size_bytes", &column("", "pair_ns", 9));
    if rows.iter().any(|row| words(row, "way").starts_with("cuMemAlloc")) {
        page.line("  (small cuMemAlloc: blocks of other live allocations may serve it)");
    }
    page.noise(&rows, &["pair_ns"], &["way", "size_bytes"], ", ");
}

fn chains(tree: &Value, page: &mut Page) {
    let title = "Chains of kernels: device time of each kernel, host time of each launch (results verified, except \
                 for empty kernels)";
    let Some(rows) = page.section(tree, "chains", title) else { return };
    let columns = [
        column("kernel", "kernel", -30),
        column("way", "way", -20),
        column("kernels", "kernels", 7),
        column("device", "device_per_kernel_ns", 10),
        column("host", "host_per_launch_ns", 10),
    ];
    page.table(&rows, &columns);
    page.noise(&rows, &columns.map(|column| column.key), &["kernel", "way"], ", ");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_with_three_digits_and_the_unit_that_fits() {
        let ours = [0.05, 2.35, 23.6, 561.4, 999.6, 23_600.0].map(micros);
        assert_eq!(ours, ["0.05 us", "2.35 us", "23.6 us", "561 us", "1.00 ms", "23.6 ms"]);
        assert_eq!([496.0, 73_000.0].map(nanos), ["496 ns", "73.0 us"]);
    }

    #[test]
    fn long_advice_breaks_at_the_width() {
        let mut page = Page::default();
        page.wrapped("  -", &"word ".repeat(60));
        assert!(page.0.lines().count() > 3 && page.0.lines().all(|line| line.len() <= WIDTH));
        assert!(page.0.starts_with("  - word word") && page.0.contains("\n   word"));
    }
}
