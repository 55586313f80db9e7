//! Derives advice from the findings. The text of each piece of advice has the numbers that led to
//! it. If these numbers were not measured, there is no such advice.
#![forbid(unsafe_code)]

use super::findings::{ChainLaunch, Findings, Path};
use super::measure::{
    CALL_HOP, CONTROL, GRAPH, OURS_0, OURS_MAX, PLAIN, STREAMED, THRESHOLD_0, THRESHOLD_MAX,
};
use super::verdict::{HostVerdict, StreamVerdict};
use crate::stats::Samples;
use trijet::Bytes;

/// Copies of a size count as fast if they have at least this share of the best rate.
const PEAK_SHARE: f64 = 0.95;
/// A pipeline gets one more slot if the next engine starts with a chunk too late. The delay is too
/// long if it is more than this fraction of the time that the copy of the chunk takes.
const HANDOVER_MAX: f64 = 0.02;
/// Copies in both directions at the same time are worthwhile if each direction has at least this
/// share of the rate that it has alone.
const DUPLEX_SHARE_MIN: f64 = 0.6;

/// The prefixes of the names of all rows about loading a kernel.
const LOADING: [&str; 3] = ["module load", "kernel look-up", "first launch"];

/// A piece of advice.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The key of the advice. It ends with the unit of the value.
    pub key: &'static str,
    /// The number that programs use. `None` if the advice has no number.
    pub value: Option<f64>,
    /// The advice in words. The text ends with the noisy figures on which the advice depends.
    pub text: String,
    /// The noisy figures on which the advice depends. Each has its name and its spread in percent.
    pub noisy: Vec<(String, f64)>,
}

impl Advice {
    /// Makes advice that depends on `figures`. The names of the noisy figures are appended to the
    /// text.
    fn resting_on<'a>(
        key: &'static str,
        value: f64,
        text: String,
        figures: impl IntoIterator<Item = (String, &'a Samples)>,
    ) -> Self {
        let noisy = figures.into_iter().filter(|(_, samples)| samples.is_noisy());
        let noisy: Vec<_> = noisy.map(|(name, s)| (name, (s.spread() * 100.0).round())).collect();
        let words: Vec<_> =
            noisy.iter().map(|(name, spread)| format!("{name} {spread} %")).collect();
        let text = match words.len() {
            0 => text,
            _ => format!("{text}; noisy, with a spread of: {}", words.join(", ")),
        };
        Self { key, value: Some(value), text, noisy }
    }
}

/// The smallest size for which this size and every larger size in `curve` have at least `share` of
/// the best rate. If the largest size does not have this rate, the result is the size with the best
/// rate.
///
/// ```
/// use trijet::Bytes;
/// use trijet_tools::doctor::advice::size_for;
/// let curve = [(Bytes(1), 10.0), (Bytes(2), 19.2), (Bytes(4), 20.0)];
/// assert_eq!(size_for(&curve, 0.95), Some(Bytes(2)));
/// ```
#[must_use]
pub fn size_for(curve: &[(Bytes, f64)], share: f64) -> Option<Bytes> {
    let best = curve.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let slow = curve.iter().rposition(|(_, rate)| *rate < share * best);
    let from = curve.get(slow.map_or(0, |at| at + 1));
    let fastest = || curve.iter().find(|(_, rate)| *rate == best);
    from.or_else(fastest).map(|(bytes, _)| *bytes)
}

/// The number of slots of a pipeline: one for each engine that is busy at the same time, and one
/// more if `handover_share` is large. `handover_share` is the time until the next engine starts
/// with a chunk, as a fraction of the time that the copy of the chunk takes.
#[must_use]
pub fn slots(duplex_pays: bool, handover_share: f64) -> u32 {
    let engines = if duplex_pays { 3 } else { 2 };
    engines + u32::from(handover_share > HANDOVER_MAX)
}

/// The paths of a pipeline's copies.
const LINK: [Path; 3] = [Path::Upload, Path::Download, Path::Duplex];

/// The rates in the table of copies for this path and this size.
fn cell(f: &Findings, path: Path, bytes: Bytes) -> Option<&Samples> {
    f.rates.iter().find(|rate| rate.path == path && rate.bytes == bytes).map(|rate| &rate.gb_per_s)
}

/// The rates in the table of copies for these paths and this size, each with a name.
fn cells<'a>(f: &'a Findings, paths: &[Path], bytes: Bytes) -> Vec<(String, &'a Samples)> {
    let named = |path: &Path| Some((format!("{} of {bytes}", path.name()), cell(f, *path, bytes)?));
    paths.iter().filter_map(named).collect()
}

/// The size of copies that decides the chunks and the slots. It is the smallest size in the table
/// of copies that is large enough for all paths in `LINK`.
fn chunk_size(f: &Findings) -> Option<Bytes> {
    LINK.into_iter()
        .map(|path| size_for(&f.curve(path), PEAK_SHARE))
        .try_fold(Bytes(0), |largest, size| size.map(|size| size.max(largest)))
}

fn chunk(f: &Findings) -> Option<Advice> {
    let bytes = chunk_size(f)?;
    let each = |path| size_for(&f.curve(path), PEAK_SHARE).map_or("-".into(), |b| b.to_string());
    let text = format!(
        "chunks of {bytes} or more (the numbers are in the row of {bytes}): the smallest sizes \
         at which copies \
         reach 95 % of their peak are H2D {}, D2H {}, both at once {}",
        each(Path::Upload),
        each(Path::Download),
        each(Path::Duplex)
    );
    Some(Advice::resting_on("chunk_bytes", bytes.0 as f64, text, cells(f, &LINK, bytes)))
}

fn slot_count(f: &Findings) -> Option<Advice> {
    let bytes = chunk_size(f)?;
    let rate = |path| cell(f, path, bytes).map(|samples| samples.quantile(0.5));
    let (up, down, both) = (rate(Path::Upload)?, rate(Path::Download)?, rate(Path::Duplex)?);
    let share = both / up.min(down);
    let hop = f.calls.iter().find(|c| c.call == CALL_HOP);
    let hop = hop.and_then(|c| c.bare_through_ns.as_ref());
    let hop_ns = hop.map(|samples| samples.quantile(0.5));
    let handover = hop_ns.map_or(0.0, |ns| ns / (bytes.0 as f64 / both));
    let count = slots(share >= DUPLEX_SHARE_MIN, handover);
    let duplex = format!(
        "in copies of {bytes}, each direction keeps {:.0} % of its rate while the other \
         direction copies",
        share * 100.0
    );
    let text = match hop_ns {
        Some(ns) => format!(
            "{count} slots: {duplex}, and handing a chunk to the next engine ({:.1} us) takes \
             {:.1} % of the time of its copy",
            ns / 1e3,
            handover * 100.0
        ),
        None => format!("{count} slots: {duplex}"),
    };
    let hop = hop.map(|samples| (CALL_HOP.to_owned(), samples));
    let figures = cells(f, &LINK, bytes).into_iter().chain(hop);
    Some(Advice::resting_on("slots", f64::from(count), text, figures))
}

fn pinned(f: &Findings) -> Option<Advice> {
    let bytes = Bytes(16 << 20);
    let rate = |path| cell(f, path, bytes).map(|samples| samples.quantile(0.5));
    let ratio = |fast, slow| Some(rate(fast)? / rate(slow)?);
    let up = ratio(Path::Upload, Path::PageableUpload)?;
    let down = ratio(Path::Download, Path::PageableDownload)?;
    let least = up.min(down);
    let verb =
        if up.max(down) > 1.2 { "page-lock what is copied" } else { "page-locking gains little" };
    let text = format!(
        "{verb}: {up:.1} times the pageable rate for uploads of {bytes}, {down:.1} for downloads"
    );
    let paths = [Path::Upload, Path::Download, Path::PageableUpload, Path::PageableDownload];
    Some(Advice::resting_on("pinned_over_pageable_ratio", least, text, cells(f, &paths, bytes)))
}

fn threshold(f: &Findings) -> Option<Advice> {
    let bytes = Bytes(1 << 20);
    let pair = |way| {
        let of = f.allocations.iter().find(|a| a.way == way && a.bytes == bytes)?;
        Some((format!("{way}, {bytes}"), &of.pair_ns))
    };
    let figures = match (pair(THRESHOLD_0), pair(THRESHOLD_MAX)) {
        (Some(zero), Some(max)) => [zero, max],
        _ => [pair(OURS_0)?, pair(OURS_MAX)?],
    };
    let [zero, max] = [0, 1].map(|at: usize| figures[at].1.quantile(0.5));
    let ratio = zero / max;
    let text = if ratio > 2.0 {
        format!(
            "keep the pool's release threshold at its maximum (trijet's default): a pair of \
             {bytes} takes {:.2} us, with threshold 0 and a synchronization {:.1} us",
            max / 1e3,
            zero / 1e3
        )
    } else {
        format!("the pool's release threshold makes little difference ({ratio:.1} times)")
    };
    Some(Advice::resting_on("pool_threshold_0_over_max_ratio", ratio, text, figures))
}

/// The names of the calls in the rows that satisfy `held`.
fn named(f: &Findings, held: impl Fn(&super::findings::Blocked) -> bool) -> Vec<String> {
    f.blocked.iter().filter(|b| held(b)).map(|b| b.call.clone()).collect()
}

/// Whether two kernels ran at the same time when no call was made between their launches. If they
/// did not, a delay of a kernel proves nothing about a call.
#[must_use]
pub fn kernels_overlap(f: &Findings) -> bool {
    let control = f.blocked.iter().find(|b| b.call == CONTROL);
    control.is_none_or(|b| b.stream == StreamVerdict::Free)
}

/// Whether the row is about loading a kernel.
fn is_loading(b: &super::findings::Blocked) -> bool {
    LOADING.iter().any(|name| b.call.starts_with(name))
}

fn load(f: &Findings) -> Option<Advice> {
    let rows: Vec<_> = f.blocked.iter().filter(|b| is_loading(b)).collect();
    let median = |b: &super::findings::Blocked| b.beside_us.quantile(0.5);
    let slowest_row = rows.iter().max_by(|a, b| median(a).total_cmp(&median(b)))?;
    let slowest = median(slowest_row);
    let overlap = kernels_overlap(f);
    let held = rows
        .iter()
        .filter(|b| overlap && b.stream == StreamVerdict::HeldBack || b.host == HostVerdict::Waits);
    let held: Vec<&str> = held.map(|b| b.call.as_str()).collect();
    let text = if !held.is_empty() {
        format!(
            "load every kernel before the pipeline (Device::load): these calls waited for the end \
             of running work: {}",
            held.join(", ")
        )
    } else if slowest > 100.0 {
        format!(
            "load every kernel before the pipeline (Device::load): a first use took the host \
             {:.1} ms",
            slowest / 1e3
        )
    } else {
        "first uses of kernels were as fast as later ones".to_owned()
    };
    let figures = [(slowest_row.call.clone(), &slowest_row.beside_us)];
    Some(Advice::resting_on("first_use_us", slowest, text, figures))
}

fn waiting_calls(f: &Findings) -> Option<Advice> {
    let waits = named(f, |b| b.host == HostVerdict::Waits && !is_loading(b));
    if f.blocked.is_empty() || waits.is_empty() {
        return None;
    }
    let text = format!(
        "avoid these calls in a running pipeline, because the host waited in them: {}",
        waits.join(", ")
    );
    Some(Advice::resting_on("calls_that_wait_count", waits.len() as f64, text, []))
}

fn holding_calls(f: &Findings) -> Option<Advice> {
    if !kernels_overlap(f) {
        let text = "use one stream for kernels: kernels on two streams did not run at once here";
        return Some(Advice::resting_on("kernels_at_once", 1.0, text.to_owned(), []));
    }
    let held = |b: &super::findings::Blocked| b.stream == StreamVerdict::HeldBack && !is_loading(b);
    let held: Vec<String> = f
        .blocked
        .iter()
        .filter(|b| held(b))
        .map(|b| format!("{} ({} streams)", b.call, b.streams))
        .collect();
    if held.is_empty() {
        return None;
    }
    let text = format!(
        "use non-blocking streams, because these calls held back other streams: {}",
        held.join(", ")
    );
    Some(Advice::resting_on("calls_that_hold_back_count", held.len() as f64, text, []))
}

fn streams(f: &Findings) -> Option<Advice> {
    let (resident, launched) = f.limits.resident_grids?;
    if resident >= launched || resident <= 1 {
        return None;
    }
    let recorded = f.limits.resident_recorded.filter(|recorded| *recorded < resident);
    let recorded = recorded.map_or(String::new(), |recorded| {
        format!(", but only {recorded} if an event was recorded after each kernel")
    });
    let cost = f.limits.stream_bytes.map_or(String::new(), |bytes| {
        format!("; each stream took {} of device memory", Bytes(bytes))
    });
    let text = format!("use few streams: at most {resident} kernels ran at once{recorded}{cost}");
    Some(Advice::resting_on("resident_grids", resident as f64, text, []))
}

fn launching(f: &Findings) -> Option<Advice> {
    let chain =
        |kernel: &str, way: &str| f.chains.iter().find(|c| c.kernel == kernel && c.way == way);
    let median = |c: &ChainLaunch| c.kernel_ns.quantile(0.5);
    let (streamed, in_graph) = (chain(PLAIN, STREAMED)?, chain(PLAIN, GRAPH)?);
    let (one, graph) = (median(streamed), median(in_graph));
    let dependent = f.chains.iter().filter(|c| c.kernel.starts_with("dependent"));
    let dependent = dependent.filter(|c| c.way == GRAPH);
    let least = dependent.min_by(|a, b| median(a).total_cmp(&median(b)));
    let more = least.map_or(String::new(), |c| {
        format!(", {:.2} us with dependent launches in the graph", median(c) / 1e3)
    });
    let text = format!(
        "kernels shorter than {:.1} us are bound by their launches; launch chains of them as a \
         graph: {:.2} us per kernel{more}",
        one / 1e3,
        graph / 1e3
    );
    let figures = [streamed, in_graph].into_iter().chain(least);
    let figures = figures.map(|c| (format!("{}, {}", c.kernel, c.way), &c.kernel_ns));
    Some(Advice::resting_on("launch_bound_below_ns", one, text, figures))
}

/// All advice for these findings.
#[must_use]
pub fn derive(findings: &Findings) -> Vec<Advice> {
    let rules = [
        chunk,
        slot_count,
        pinned,
        threshold,
        load,
        waiting_calls,
        holding_calls,
        streams,
        launching,
    ];
    rules.iter().filter_map(|rule| rule(findings)).collect()
}

#[cfg(test)]
mod tests;
