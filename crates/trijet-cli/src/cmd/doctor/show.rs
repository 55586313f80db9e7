//! The findings as text of at most 80 columns. The advice comes last.
#![forbid(unsafe_code)]

use crate::cmd::queues::hardware_queues;
use std::fmt::{Display, Write};
use trijet::trace::count;
use trijet::{Bytes, Clock};
use trijet_tools::doctor::advice::{self, Advice};
use trijet_tools::doctor::findings::{AllocPair, BlockingPair, Findings, Path, Rate};
use trijet_tools::doctor::verdict::StreamVerdict;
use trijet_tools::origin::COMMIT;
use trijet_tools::stats::Samples;

/// Maximum number of columns of a line.
const WIDTH: usize = 79;

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

    /// Adds a line with the noisy figures of a table.
    fn noisy<'a>(&mut self, figures: impl Iterator<Item = (String, &'a Samples)>) {
        let noisy: Vec<_> = figures.filter(|(_, samples)| samples.is_noisy()).collect();
        let worst = noisy.iter().max_by(|a, b| a.1.spread().total_cmp(&b.1.spread()));
        if let Some((name, samples)) = worst {
            let words = format!(
                "noisy: {} with a spread (max - min) over 20 % of the median; at most {} ({name})",
                noisy.len(),
                spread(samples)
            );
            self.wrapped("  ~", &words);
        }
    }

    fn title(&mut self, title: &str) {
        self.line("");
        self.wrapped("", title);
    }
}

/// The kind of device that was measured.
pub(super) fn measured_on(f: &Findings) -> &'static str {
    match f.device.clock {
        Clock::Device => "a GPU",
        Clock::Processor => "the host device (CPU threads of this machine), not a GPU",
        Clock::Model => "the host device (a model's clock), not a GPU",
    }
}

/// The same, after the name of the device.
fn measured_words(f: &Findings) -> &'static str {
    match f.device.clock {
        Clock::Device => "measured on a GPU",
        Clock::Processor => "times of this machine's processor, not of a GPU",
        Clock::Model => "times of a model, not of a GPU",
    }
}

/// The reason why there is no advice without a GPU.
const NO_ADVICE: &str = "advice is about a GPU and its link, and here the processor was measured; `trijet map` chooses chunks \
                         and slots for it by itself";

/// The advice. There is none for a processor, because its memory needs no link.
pub(super) fn advice(f: &Findings) -> Vec<Advice> {
    if f.on_gpu() { advice::derive(f) } else { Vec::new() }
}

/// Maximum spread that is printed, in percent. A larger spread comes from a few interrupted
/// samples.
const SPREAD_MAX: f64 = 999.0;

/// A spread in words.
fn spread(samples: &Samples) -> String {
    let percent = samples.spread() * 100.0;
    if percent > SPREAD_MAX {
        "more than ten times the median".to_owned()
    } else {
        format!("{percent:.0} %")
    }
}

/// The whole report.
pub(super) fn report(f: &Findings) -> String {
    let mut page = Page::default();
    header(f, &mut page);
    copies(f, &mut page);
    calls(f, &mut page);
    blocked(f, &mut page);
    matrix(f, &mut page);
    limits(f, &mut page);
    queues(f, &mut page);
    allocations(f, &mut page);
    chains(f, &mut page);
    for (title, list) in [("Not applicable here", &f.absent), ("FAILED", &f.failed)] {
        if !list.is_empty() {
            page.title(title);
            for absent in list {
                page.wrapped("  ", &format!("{}: {}", absent.what, absent.why));
            }
        }
    }
    if !f.on_gpu() {
        page.title("No advice");
        page.wrapped("  ", NO_ADVICE);
        return page.0;
    }
    page.title("Advice from these numbers (measured on this machine, not guaranteed)");
    for advice in advice(f) {
        page.wrapped("  -", &advice.text);
    }
    page.0
}

fn header(f: &Findings, page: &mut Page) {
    let info = &f.device;
    page.line(format_args!("{}: {}", info.name, measured_words(f)));
    if !f.on_gpu() {
        page.line(format_args!("  {}", count(u64::from(info.multiprocessors), "thread")));
    } else {
        let l2 = f.l2.map_or("unknown".to_owned(), |b| b.to_string());
        page.line(format_args!(
            "  cuda:{}, compute capability {}.{}, {} multiprocessors, {} copy engines, L2 {l2}, {}",
            f.ordinal,
            info.compute.0,
            info.compute.1,
            info.multiprocessors,
            info.copy_engines,
            info.memory
        ));
        let queues = hardware_queues(info);
        let (version, kernel) = (info.driver_version, f.kernel_driver.as_deref());
        page.line(format_args!(
            "  driver {} for CUDA {}.{}, stream priorities {} to {}, {queues}",
            kernel.unwrap_or("(version unknown)"),
            version / 1000,
            version % 1000 / 10,
            info.priorities.0,
            info.priorities.1
        ));
    }
    // The commit, shortened as git does it.
    let commit = COMMIT.get(..12).unwrap_or(COMMIT);
    page.line(format_args!("  {}, commit {commit}, took {:.1} s", f.date, f.elapsed_s));
    let yes = |reached| if reached { "yes" } else { "no" };
    for n in &f.neighbours {
        let (to, from) = (yes(n.reached), yes(n.reaches));
        page.line(format_args!(
            "  cuda:{} {}: peer access to it {to}, from it {from}{}",
            n.ordinal,
            n.name,
            if n.reached && n.reaches { "" } else { "; copies go through page-locked memory" }
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

fn median(samples: &Samples) -> f64 {
    samples.quantile(0.5)
}

/// The text of a figure, with a mark if it is noisy.
fn marked(text: String, samples: &Samples) -> String {
    if samples.is_noisy() { format!("~{text}") } else { text }
}

fn copies(f: &Findings, page: &mut Page) {
    let paths: Vec<Path> = Path::ALL
        .into_iter()
        .filter(|p| *p != Path::OnDevice && f.rates.iter().any(|r| r.path == *p))
        .collect();
    if paths.is_empty() {
        return;
    }
    page.title("Copies by size, GB/s (medians of copies back to back; the bytes were verified)");
    // There are at least two spaces before each name.
    let wide = |path: &Path| (path.name().len() + 2).max(9);
    let heads: String = paths.iter().map(|p| format!("{:>1$}", p.name(), wide(p))).collect();
    page.line(format_args!("  {:<7}{heads}", "size"));
    let mut sizes: Vec<Bytes> =
        f.rates.iter().filter(|r| r.path != Path::OnDevice).map(|rate| rate.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        let cells: String = paths
            .iter()
            .map(|p| (p, f.rates.iter().find(|r| r.path == *p && r.bytes == size)))
            .map(|(p, rate)| {
                let cell = rate.map_or("-".to_owned(), |r| {
                    marked(format!("{:.1}", median(&r.gb_per_s)), &r.gb_per_s)
                });
                format!("{cell:>0$}", wide(p))
            })
            .collect();
        page.line(format_args!("  {:<7}{cells}", size.to_string()));
    }
    if let Some(rate) = f.rates.iter().find(|r| r.path == Path::OnDevice) {
        let speed = median(&rate.gb_per_s);
        page.line(format_args!(
            "  within the device: {} GB/s, reads and writes together",
            marked(short(speed), &rate.gb_per_s)
        ));
    }
    let busy = |path| {
        let large = f.rates.iter().filter(|r| r.path == path).max_by_key(|r| r.bytes);
        large.map_or("-".to_owned(), |r| format!("{:.0} %", median(&r.host_busy) * 100.0))
    };
    let words = format!(
        "host time in the calls, largest size: pinned H2D {}, pageable H2D {}, pageable D2H {}",
        busy(Path::Upload),
        busy(Path::PageableUpload),
        busy(Path::PageableDownload)
    );
    page.wrapped("  ", &words);
    let name = |rate: &Rate| format!("{} of {}", rate.path.name(), rate.bytes);
    page.noisy(f.rates.iter().map(|rate| (name(rate), &rate.gb_per_s)));
}

fn calls(f: &Findings, page: &mut Page) {
    if f.calls.is_empty() {
        return;
    }
    page.title("Time per call, in a burst of calls (median, min to max)");
    let heads = ["bare", "until done", "through trijet"];
    page.line(format_args!("  {:<27}{:>20}{:>11}{:>20}", "call", heads[0], heads[1], heads[2]));
    let cell = |samples: &Option<Samples>, range: bool| match samples {
        None => "-".to_owned(),
        Some(s) if range => format!(
            "{} {}..{}",
            marked(nanos(median(s)), s),
            short(s.quantile(0.0) / 1e3),
            short(s.quantile(1.0) / 1e3)
        ),
        Some(s) => marked(nanos(median(s)), s),
    };
    for cost in &f.calls {
        page.line(format_args!(
            "  {:<27}{:>20}{:>11}{:>20}",
            cost.call,
            cell(&cost.bare_ns, true),
            cell(&cost.bare_through_ns, false),
            cell(&cost.trijet_ns, true)
        ));
    }
    page.wrapped(
        "  ",
        "bare, through trijet: host time (min..max in us); until done: until the device has completed a bare call",
    );
    page.noisy(f.calls.iter().flat_map(|cost| {
        let all = [&cost.bare_ns, &cost.bare_through_ns, &cost.trijet_ns];
        all.into_iter().flatten().map(|samples| (cost.call.to_owned(), samples))
    }));
}

fn blocked(f: &Findings, page: &mut Page) {
    if f.blocked.is_empty() {
        return;
    }
    let kernel = f.blocked.first().map_or(0.0, |b| median(&b.kernel_us));
    page.title(&format!(
        "What calls block: a kernel of {} runs on a; then the call is made; then a kernel on b",
        micros(kernel)
    ));
    let mut kinds: Vec<&str> = Vec::new();
    for row in &f.blocked {
        if !kinds.contains(&row.streams) {
            kinds.push(row.streams);
        }
    }
    for kind in kinds {
        page.line(format_args!(
            "  {:<36}{:>9}{:>9} {:<6}{:<13}runs",
            format!("call, {kind} streams a and b"),
            "alone",
            "beside",
            "host",
            "kernel on b"
        ));
        for row in f.blocked.iter().filter(|row| row.streams == kind) {
            page.line(format_args!(
                "  {:<36}{:>9}{:>9} {:<6}{:<13}{}/{}",
                row.call,
                marked(micros(median(&row.alone_us)), &row.alone_us),
                marked(micros(median(&row.beside_us)), &row.beside_us),
                row.host,
                row.stream,
                row.agreeing.0,
                row.agreeing.1
            ));
        }
    }
    page.wrapped(
        "  ",
        "alone, beside: host time of the call without and with the kernel; runs: repeats that agree",
    );
    page.noisy(f.blocked.iter().flat_map(|row| {
        [&row.alone_us, &row.beside_us].map(|samples| (row.call.clone(), samples))
    }));
    if !advice::kernels_overlap(f) {
        page.wrapped(
            "  ",
            "kernels never ran concurrently here, so `held back` proves nothing about the calls",
        );
    }
}

fn matrix(f: &Findings, page: &mut Page) {
    if f.pairs.is_empty() {
        return;
    }
    page.title(
        "Default streams: does a kernel on the second stream wait for a kernel on the first?",
    );
    let mut kinds: Vec<&str> = f.pairs.iter().map(|p| p.first).collect();
    kinds.dedup();
    let heads: String = kinds.iter().map(|k| format!("{k:>13}")).collect();
    page.line(format_args!("  {:<22}{heads}", "first \\ second"));
    let word = |pair: &BlockingPair| {
        let word = match pair.stream {
            StreamVerdict::Free => "no",
            StreamVerdict::HeldBack => "waits",
            StreamVerdict::IssuedAfter | StreamVerdict::Unclear => "unclear",
        };
        let (agree, all) = pair.agreeing;
        if agree == all { word.to_owned() } else { format!("{word} {agree}/{all}") }
    };
    for first in &kinds {
        let cells: String = kinds
            .iter()
            .filter_map(|second| f.pairs.iter().find(|p| p.first == *first && p.second == *second))
            .map(|pair| format!("{:>13}", word(pair)))
            .collect();
        page.line(format_args!("  {first:<22}{cells}"));
    }
    page.wrapped(
        "  ",
        "(legacy twice and per-thread twice are one stream; all other pairs are two streams)",
    );
}

fn limits(f: &Findings, page: &mut Page) {
    page.title("Limits");
    if let Some((resident, launched)) = f.limits.resident_grids {
        page.line(format_args!(
            "  resident grids: {resident} of {launched} one-block kernels on as many streams"
        ));
    }
    if let Some(recorded) = f.limits.resident_recorded {
        page.line(format_args!("  the same with an event record after each kernel: {recorded}"));
    }
    match f.limits.queue_depth {
        Some(Ok(depth)) => page.line(format_args!(
            "  queue depth: a busy stream takes {depth} launches; the next one blocks the host"
        )),
        Some(Err(all)) => page.line(format_args!(
            "  queue depth: none of {all} launches on a busy stream blocked the host"
        )),
        None => {}
    }
    if let Some(bytes) = f.limits.stream_bytes {
        page.line(format_args!("  device memory of a stream: {}", Bytes(bytes)));
    }
}

fn queues(f: &Findings, page: &mut Page) {
    let mut sizes: Vec<u64> = f.queue_shares.iter().map(|row| row.streams).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() {
        return;
    }
    page.title(
        "Shared hardware queues: kernels at once, a stream for each, and one operation behind it",
    );
    let heads: String =
        sizes.iter().map(|size| format!("{:>16}", format!("{size} streams"))).collect();
    page.line(format_args!("  {:<26}{heads}", "behind each kernel"));
    for row in f.queue_shares.iter().filter(|row| row.streams == sizes[0]) {
        let of_kind = f.queue_shares.iter().filter(|other| other.behind == row.behind);
        let cells: String = of_kind
            .map(|cell| {
                let (agree, all) = cell.agreeing;
                let runs = if agree == all { String::new() } else { format!(" in {agree}/{all}") };
                format!("{:>16}", format!("{}{runs}", cell.at_once))
            })
            .collect();
        page.line(format_args!("  {:<26}{cells}", row.behind));
    }
    page.line(format_args!("  {}", hardware_queues(&f.device)));
}

fn allocations(f: &Findings, page: &mut Page) {
    if f.allocations.is_empty() {
        return;
    }
    page.title("Allocate and free, time of the pair (median)");
    let mut sizes: Vec<Bytes> = f.allocations.iter().map(|a| a.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let heads: String = sizes.iter().map(|b| format!("{:>9}", b.to_string())).collect();
    page.line(format_args!("  {:<42}{heads}", "way"));
    let mut ways: Vec<&str> = Vec::new();
    for pair in &f.allocations {
        if !ways.contains(&pair.way) {
            ways.push(pair.way);
        }
    }
    for way in ways {
        let cells: String = sizes
            .iter()
            .map(|size| f.allocations.iter().find(|a| a.way == way && a.bytes == *size))
            .map(|pair| pair.map(|p| marked(nanos(median(&p.pair_ns)), &p.pair_ns)))
            .map(|cell| cell.unwrap_or("-".to_owned()))
            .map(|cell| format!("{cell:>9}"))
            .collect();
        page.line(format_args!("  {way:<42}{cells}"));
    }
    if f.allocations.iter().any(|a| a.way.starts_with("cuMemAlloc")) {
        page.line("  (small cuMemAlloc: blocks of other live allocations may serve it)");
    }
    let name = |a: &AllocPair| format!("{}, {}", a.way, a.bytes);
    page.noisy(f.allocations.iter().map(|a| (name(a), &a.pair_ns)));
}

fn chains(f: &Findings, page: &mut Page) {
    if f.chains.is_empty() {
        return;
    }
    page.title(
        "Chains of kernels: device time of each kernel, host time of each launch (results verified, except \
         for empty kernels)",
    );
    page.line(format_args!(
        "  {:<30}{:<20}{:>7}{:>10}{:>10}",
        "kernel", "way", "kernels", "device", "host"
    ));
    for chain in &f.chains {
        page.line(format_args!(
            "  {:<30}{:<20}{:>7}{:>10}{:>10}",
            chain.kernel,
            chain.way,
            chain.kernels,
            marked(nanos(median(&chain.kernel_ns)), &chain.kernel_ns),
            marked(nanos(median(&chain.launch_ns)), &chain.launch_ns)
        ));
    }
    page.noisy(f.chains.iter().flat_map(|chain| {
        let name = format!("{}, {}", chain.kernel, chain.way);
        [&chain.kernel_ns, &chain.launch_ns].map(|samples| (name.clone(), samples))
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet_tools::doctor::findings::QueueShare;

    #[test]
    fn times_print_with_three_digits_and_the_unit_that_fits() {
        let ours = [0.05, 2.35, 23.6, 561.4, 999.6, 23_600.0].map(micros);
        assert_eq!(ours, ["0.05 us", "2.35 us", "23.6 us", "561 us", "1.00 ms", "23.6 ms"]);
        assert_eq!([496.0, 73_000.0].map(nanos), ["496 ns", "73.0 us"]);
    }

    #[test]
    fn shared_queues_have_a_row_for_each_operation_and_a_column_for_each_number_of_streams() {
        let device = trijet::Device::open(trijet::Select::Host(0)).unwrap();
        let mut f = Findings::new(device.info().clone(), 0);
        f.device.hardware_queues = Some(8);
        let mut row = |behind, streams, at_once, agree| {
            let agreeing = (agree, 7);
            f.queue_shares.push(QueueShare { behind, streams, at_once, agreeing });
        };
        [("nothing", 16), ("a memset", 8)].into_iter().for_each(|(behind, twice)| {
            row(behind, 8, 8, 7);
            row(behind, 16, twice, 6);
        });
        let mut page = Page::default();
        queues(&f, &mut page);
        let lines: Vec<Vec<&str>> =
            page.0.lines().map(|line| line.split_whitespace().collect()).collect();
        let table = &lines[lines.len() - 4..];
        assert_eq!(table[0][3..], ["8", "streams", "16", "streams"]);
        assert_eq!(table[1], ["nothing", "8", "16", "in", "6/7"]);
        assert_eq!(table[2], ["a", "memset", "8", "8", "in", "6/7"]);
        assert_eq!(table[3].last(), Some(&"8"), "{}", page.0);
        assert!(page.0.lines().all(|line| line.len() <= WIDTH), "{}", page.0);
    }

    #[test]
    fn long_advice_breaks_at_the_width() {
        let mut page = Page::default();
        page.wrapped("  -", &"word ".repeat(60));
        assert!(page.0.lines().count() > 3 && page.0.lines().all(|line| line.len() <= WIDTH));
        assert!(page.0.starts_with("  - word word") && page.0.contains("\n   word"));
    }

    #[test]
    fn noisy_figures_are_marked_and_counted() {
        let samples = |values: [f64; 5]| {
            let mut samples = Samples::default();
            values.into_iter().for_each(|value| samples.push(value));
            samples
        };
        let quiet = samples([50.0, 55.0, 52.5, 54.0, 51.0]);
        let noisy = samples([50.0, 50.0, 50.0, 49.9, 192.4]);
        assert_eq!(marked("52.5".to_owned(), &quiet), "52.5");
        assert_eq!(marked("50.0".to_owned(), &noisy), "~50.0");
        let mut page = Page::default();
        page.noisy([("a".to_owned(), &quiet)].into_iter());
        assert_eq!(page.0, "", "nothing is noisy");
        page.noisy([("a".to_owned(), &quiet), ("b".to_owned(), &noisy)].into_iter());
        assert!(page.0.starts_with("  ~ noisy: 1 with a spread "), "{}", page.0);
        assert!(page.0.contains("at most 285 %") && page.0.ends_with("(b)\n"), "{}", page.0);
    }
}
