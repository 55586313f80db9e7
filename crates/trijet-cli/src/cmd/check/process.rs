//! A checked process: its findings beside a baseline, as text and as JSON.
#![forbid(unsafe_code)]

use super::baseline::{Baseline, BaselineEntry, FindingLevel, Standing, key};
use crate::args::OnlyFindings;
use crate::cmd::verdict;
use serde_json::{Value, json};
use std::fmt::Write;
use trijet::check::{Assume, Finding, Party};
use trijet_calls::Judged;
use trijet_ledger::base::ledger::{HostStep, OpKind};

/// Maximum number of possible conflicts that the text lists.
const POSSIBLE_MAX: usize = 10;
/// Maximum number of frames that the text has of a stack.
const FRAMES_MAX: usize = 4;

/// A process, without its findings that a baseline has.
pub(super) struct Sorted {
    pub(super) judged: Judged,
    /// The findings of the baseline that this process has, and the number of its findings that
    /// they stand for.
    pub(super) accepted: Vec<BaselineEntry>,
    accepted_findings: u64,
    /// The findings in the baseline that are listed, because their last day is over.
    expired: Vec<BaselineEntry>,
}

/// Takes the findings of a baseline from a process.
pub(super) fn sorted(mut judged: Judged, baseline: &mut Baseline) -> Sorted {
    let (mut accepted, mut expired, mut accepted_findings) = (Vec::new(), Vec::new(), 0);
    let mut is_listed = |key: &str| match baseline.standing(key) {
        Standing::New => true,
        Standing::Accepted(entry) => {
            accepted_findings += 1;
            if !accepted.contains(&entry) {
                accepted.push(entry);
            }
            false
        }
        Standing::Expired(entry) => {
            expired.push(entry);
            true
        }
    };
    let errors = { judged.errors.iter() }
        .map(|one| is_listed(&key(&judged, one, FindingLevel::of_error(&judged, one))));
    let errors: Vec<_> = errors.collect();
    let possible = judged.possible.iter();
    let possible =
        possible.map(|one| is_listed(&key(&judged, &one.finding, FindingLevel::Possible)));
    let possible: Vec<_> = possible.collect();
    let mut listed = errors.into_iter();
    judged.errors.retain(|_| listed.next().unwrap_or(true));
    let mut listed = possible.into_iter();
    judged.possible.retain(|_| listed.next().unwrap_or(true));
    Sorted { judged, accepted, accepted_findings, expired }
}

fn counted(count: u64, one: &str) -> String {
    trijet::trace::count(count, one)
}

/// The text about a process.
pub(super) fn text(sorted: &Sorted, only: Option<OnlyFindings>) -> String {
    let Sorted { judged: one, accepted, expired, .. } = sorted;
    let beside = |finding: &Finding, level| {
        let key = key(one, finding, level);
        let over = expired.iter().find(|entry| entry.key == key);
        let over = over.map(|entry| format!("  no longer in the baseline: {}\n", entry.words()));
        beside(one, finding) + &over.unwrap_or_default()
    };
    let mut text = format!("process {}: {}\n", one.process, one.command);
    for finding in &one.errors {
        text += &finding.text(&one.names);
        text += &beside(finding, FindingLevel::of_error(one, finding));
        text.push('\n');
    }
    for found in one.possible.iter().take(POSSIBLE_MAX) {
        let finding = &found.finding;
        let beside = beside(finding, FindingLevel::Possible);
        let _infallible = write!(text, "{}{beside}", possible(one, finding));
        if found.pairs > 1 {
            let _infallible = writeln!(text, "  the first of {} such pairs", found.pairs);
        }
        text.push('\n');
    }
    if let Some(more) = one.possible.len().checked_sub(POSSIBLE_MAX).filter(|more| *more > 0) {
        let _infallible = writeln!(
            text,
            "and {}; --json has all\n",
            counted(more as u64, "more possible conflict")
        );
    }
    if only.is_none() {
        for entry in accepted {
            let _infallible = writeln!(text, "in the baseline: {} ({})", entry.key, entry.words());
        }
    }
    text + &summary(sorted)
}

/// The text of a finding with the lines beside it.
pub(super) fn whole_text(one: &Judged, finding: &Finding, level: FindingLevel) -> String {
    let words = match level {
        FindingLevel::Declared | FindingLevel::Seen => finding.text(&one.names),
        FindingLevel::Possible => possible(one, finding),
    };
    words + &beside(one, finding)
}

/// The text of a possible conflict, which is no error.
fn possible(one: &Judged, finding: &Finding) -> String {
    let words = finding.text(&one.names);
    words.strip_prefix("error").map_or(words.clone(), |rest| format!("possible{rest}"))
}

/// The lines beside a finding: the origin of the memory, and the stacks of the calls.
fn beside(one: &Judged, finding: &Finding) -> String {
    let mut text = String::new();
    if let (Some(origin), Some(block)) = (one.origin(finding), finding.block) {
        let _infallible = writeln!(text, "  {}: {origin}", one.names.block(block));
    }
    for party in finding.first.iter().chain([&finding.second]) {
        let Some(stack) = one.stack(party) else { continue };
        let when = match party.kind {
            OpKind::Host(HostStep::Access) => " at",
            _ if stack.is_of_first_launch => "'s kernel was first launched from",
            _ => " called from",
        };
        for (number, frame) in stack.frames.iter().take(FRAMES_MAX).enumerate() {
            let head = if number == 0 { format!("#{}{when}", party.op) } else { "from".to_owned() };
            let _infallible = writeln!(text, "  {head} {frame}");
        }
    }
    text
}

/// The lines about the whole process: the number of findings, and what was not seen.
fn summary(sorted: &Sorted) -> String {
    let Sorted { judged: one, accepted_findings: accepted, .. } = sorted;
    let mut text = match (one.errors.len() as u64, one.is_whole()) {
        (0, true) if *accepted > 0 && one.is_capped => {
            "there are too many errors to keep, and only some are compared with the baseline\n"
                .to_owned()
        }
        (0, true) if *accepted > 0 => {
            format!("no new error; {} in the baseline\n", counted(*accepted, "finding"))
        }
        (0, true) => {
            let edge = match one.assume {
                Assume::DriverObserved => {
                    "a documented CUDA edge or one that drivers were seen to keep"
                }
                _ => "a documented CUDA edge",
            };
            let what = match one.seen_kernels + one.seen_graphs {
                0 => "copies, fills and frees of this run",
                _ => "copies, fills, frees and seen kernels of this run",
            };
            format!("every conflict among the {what} is ordered by {edge}\n")
        }
        (0, false) => "no error in what was recorded, which is not the whole run\n".to_owned(),
        (errors, _) => format!("{}\n", counted(errors, "error")),
    };
    text += &what_was_seen(one);
    if one.unknown_graphs > 0 {
        let _infallible = writeln!(
            text,
            "{} of {} of graphs have nodes that were not examined",
            one.unknown_graphs,
            launches(one.graphs),
        );
    }
    if one.merged_graphs > 0 {
        let _infallible = writeln!(
            text,
            "{} of {} of graphs counted as one operation: the order of the nodes was not examined",
            one.merged_graphs,
            launches(one.graphs),
        );
    }
    if one.value_waits > 0 {
        let _infallible = writeln!(
            text,
            "{} of streams for values in memory, each counted as a wait for all streams",
            counted(one.value_waits, "wait"),
        );
    }
    for trouble in &one.troubles {
        let _infallible = writeln!(text, "not recorded: {trouble}");
    }
    match one.lost {
        None => text += "the record of the process has no end: calls at its end may be missing\n",
        Some(0) => {}
        Some(lost) => {
            let _infallible =
                writeln!(text, "{} lost: the recorder had no room", counted(lost, "call"));
        }
    }
    text
}

/// `1 launch`, `2 launches`.
fn launches(count: u64) -> String {
    counted(count, "launch").replace("launchs", "launches")
}

/// The lines about the calls, and about the kernels that were seen and those that were not.
fn what_was_seen(one: &Judged) -> String {
    let calls = counted(one.calls, "call");
    let possible = counted(one.possible.len() as u64, "possible conflict");
    let unseen = one.kernels - one.seen_kernels;
    let mut text = format!(
        "{calls} recorded; what {} of kernels read and write was not seen ({} without an address \
         among the arguments); {possible}\n",
        launches(unseen),
        one.kernels_without_addresses,
    );
    if one.seen_kernels + one.seen_graphs > 0 {
        let _infallible = writeln!(
            text,
            "{} of kernels and {} of graphs were seen, in parts of 256 bytes",
            launches(one.seen_kernels),
            launches(one.seen_graphs),
        );
    }
    if one.kernels_without_maps > 0 && !one.possible.is_empty() {
        text += "no load or no store by a tensor map was seen; the Compute Sanitizer API shows loads \
                 from version 13.3 on, and perhaps no store, so addresses among the arguments that were \
                 not seen count as possible\n";
    }
    text
}

pub(super) fn process_json(sorted: &Sorted) -> Value {
    let one = &sorted.judged;
    let finding = |finding: &Finding, level| {
        let mut value = verdict::finding(finding, &one.names);
        let frames = |party: Option<&Party>| {
            let stack = party.and_then(|party| one.stack(party));
            stack.map_or(&[][..], |stack| &stack.frames)
        };
        value["stacks"] = json!([frames(finding.first.as_ref()), frames(Some(&finding.second))]);
        value["origin"] = one.origin(finding).into();
        value["key"] = key(one, finding, level).into();
        value["level"] = level.word().into();
        value
    };
    let errors = one.errors.iter().map(|error| finding(error, FindingLevel::of_error(one, error)));
    let accepted = sorted.accepted.iter().map(BaselineEntry::json);
    let possible = one.possible.iter().map(|found| {
        let mut value = finding(&found.finding, FindingLevel::Possible);
        value["pairs"] = found.pairs.into();
        value["severity"] = "possible".into();
        value["text"] = self::possible(one, &found.finding).into();
        value
    });
    json!({
        "process": one.process,
        "command": one.command,
        "errors": errors.collect::<Vec<_>>(),
        "errors_more": one.more,
        "possible": possible.collect::<Vec<_>>(),
        "accepted": accepted.collect::<Vec<_>>(),
        "calls": one.calls,
        "kernels": one.kernels,
        "kernels_seen": one.seen_kernels,
        "kernels_without_tensor_copies": one.kernels_without_maps,
        "kernels_without_addresses": one.kernels_without_addresses,
        "graphs": one.graphs,
        "graphs_seen": one.seen_graphs,
        "graphs_unknown": one.unknown_graphs,
        "graphs_merged": one.merged_graphs,
        "value_waits": one.value_waits,
        "calls_lost": one.lost,
        "complete": one.lost.is_some(),
        "troubles": one.troubles,
    })
}
