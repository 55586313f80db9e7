//! Profiles as JSON. Times are in nanoseconds.
#![forbid(unsafe_code)]

use serde_json::{Value, json};
use trijet_ledger::profile::{
    DeviceEnvironment, DeviceProfile, FiguresOf, Gains, GraphTime, Idle, ProcessProfile, Profile,
    ProgramSteps, RangeTime, Rank, RankJob, StreamPair, ValueSpread,
};

/// The profile of a program. If nothing was traced, `missing` is the reason.
pub(crate) fn json(profile: &Profile, missing: Option<&str>) -> Value {
    json!({
        "processes": profile.processes.iter().map(process).collect::<Vec<_>>(),
        "jobs": profile.jobs.iter().map(job).collect::<Vec<_>>(),
        "missing": missing,
        // The command fills it in for a run with `--against`.
        "against": null,
        "races": "not checked: a trace does not contain the accesses of kernels",
    })
}

fn process(one: &ProcessProfile) -> Value {
    let contradicting = one.contradictions.iter().map(|found| {
        json!({
            "key": found.key,
            "law": found.law,
            "count": found.count,
            "examples": found.examples,
        })
    });
    json!({
        "process": one.process,
        "command": one.command,
        "rank": one.rank,
        "clock": if one.tool.is_none() { "CUPTI" } else { "host" },
        "cupti_version": one.interface,
        "tool": one.tool,
        "troubles": one.troubles,
        "notes": one.notes,
        "complete": one.end.is_some(),
        "activities": one.activities,
        "activities_left_out": one.left_out,
        "dropped_activities": one.end.map(|end| end.dropped),
        "unknown_activities": one.end.map(|end| end.unknown),
        "declined_buffers": one.end.map(|end| end.declined),
        "calls": one.calls,
        "operations_without_times": one.untimed,
        "contradicting_records": contradicting.collect::<Vec<_>>(),
        "began_ns": one.began.0,
        "span_ns": one.span.0,
        "tracing_overhead": {
            "cupti_ns": one.overhead.0,
            "recorder_ns": one.end.map(|end| end.own_time.0),
        },
        "ranges": one.ranges.iter().map(range).collect::<Vec<_>>(),
        "graphs": one.graphs.iter().map(graph).collect::<Vec<_>>(),
        "devices": one.devices.iter().map(device).collect::<Vec<_>>(),
    })
}

fn range(one: &RangeTime) -> Value {
    json!({
        "name": one.name,
        "ranges": one.ranges,
        "open_ns": one.open.0,
        "operations": one.operations,
        "gpu_busy_ns": one.ran.0,
    })
}

fn graph(one: &GraphTime) -> Value {
    let names = one
        .names
        .iter()
        .map(|node| json!({ "name": node.name, "nodes": node.nodes, "total_ns": node.total.0 }));
    json!({
        "graph": one.graph,
        "launches": one.launches,
        "nodes": one.nodes,
        "edges": one.edges,
        "median_launch_ns": one.launch.0,
        "gpu_busy_ns": one.busy.0,
        "by_name": names.collect::<Vec<_>>(),
    })
}

fn environment(one: &DeviceEnvironment) -> Value {
    let spread = |one: Option<ValueSpread>| {
        one.map(|one| json!({ "least": one.least, "median": one.median, "most": one.most }))
    };
    let reasons = one
        .reasons
        .iter()
        .map(|reason| json!({ "key": reason.key, "text": reason.text, "samples": reason.samples }));
    json!({
        "clock_samples": one.samples,
        "sm_clock_mhz": spread(one.sm),
        "memory_clock_mhz": spread(one.memory),
        "temperature_celsius": spread(one.temperature),
        "power_mw": spread(one.power),
        "power_limit_mw": one.power_limit,
        "fan_percent": spread(one.fan),
        "low_clock_reasons": reasons.collect::<Vec<_>>(),
        "clock_fall": one.fall.map(|fall| json!({
            "from_mhz": fall.from,
            "to_mhz": fall.to,
            "at_ns": fall.at.0,
        })),
    })
}

fn job(one: &RankJob) -> Value {
    let by_name = one.by_name.iter().map(|kernel| {
        json!({ "name": kernel.name, "kernels": kernel.count, "exposed_ns": kernel.exposed.0 })
    });
    json!({
        "communicators": one.communicators,
        "collectives": one.collectives,
        "late_collectives": one.late,
        "kernels": one.kernels,
        "unmatched_kernels": one.unmatched,
        "by_name": by_name.collect::<Vec<_>>(),
        "ranks": one.ranks.iter().map(rank).collect::<Vec<_>>(),
    })
}

fn rank(one: &Rank) -> Value {
    let waited = one.waited.iter().map(|waited| {
        json!({
            "rank_index": waited.rank,
            "collectives": waited.collectives,
            "time_ns": waited.time.0,
        })
    });
    json!({
        "name": one.name,
        "rank": one.number,
        "process": one.process,
        "device": one.device,
        "communication_ns": one.communication.0,
        "exposed_ns": one.exposed.0,
        "waiting_ns": one.waiting.0,
        "transfer_ns": one.transfer.0,
        "unknown_ns": one.unknown.0,
        "last_in": one.last,
        "late_ns": one.late.0,
        "awaited_ns": one.awaited.0,
        "waited_for_one": waited.collect::<Vec<_>>(),
        "waited_for_several_ns": one.several.0,
    })
}

fn device(one: &DeviceProfile) -> Value {
    let engines = one.engines.iter().map(|engine| {
        json!({
            "name": engine.name,
            "busy_ns": engine.busy.0,
            "operations": engine.operations,
            "bytes": engine.bytes.0,
        })
    });
    let findings = one.findings.iter().map(|finding| {
        json!({
            "key": finding.rule.name(),
            "title": finding.rule.title(),
            "count": finding.count,
            "cost_ns": finding.cost.0,
            "gain_ns": finding.gain.map(|gain| gain.0),
            "places_ns": finding.places.iter().map(|p| [p.start, p.end]).collect::<Vec<_>>(),
            "seen": finding.seen,
            "fix": finding.fix,
        })
    });
    let kernels = one.kernels.iter().map(|kernel| {
        json!({ "name": kernel.name, "total_ns": kernel.total.0, "launches": kernel.launches })
    });
    let losses = one.losses();
    let lost = losses
        .iter()
        .map(|loss| json!({ "cause": loss.cause, "text": loss.what, "time_ns": loss.time.0 }));
    json!({
        "device": one.device,
        "steps": one.steps.as_ref().map(steps),
        "figures_of": match one.extent {
            FiguresOf::Steps => "steps",
            FiguresOf::Whole => "whole",
        },
        "began_ns": one.began.0,
        "elapsed_ns": one.elapsed.0,
        "busy_ns": one.busy.0,
        "limiting": one.limiting().map(|engine| engine.name),
        "longest_engine": one.longest().map(|engine| engine.name),
        "lower_bound_ns": one.longest().map(|engine| engine.busy.0),
        "lost": lost.collect::<Vec<_>>(),
        "streams": one.streams,
        "kernel_stream": one.kernel_stream.map(|only| json!({
            "stream": only.stream,
            "kernels": only.kernels,
            "copies": only.copies,
        })),
        "stream_pairs": one.stream_pairs.iter().map(stream_pair).collect::<Vec<_>>(),
        "engines": engines.collect::<Vec<_>>(),
        "idle": idle(&one.idle),
        "findings": findings.collect::<Vec<_>>(),
        "gains": one.gains.as_ref().map(gains),
        "kernels": kernels.collect::<Vec<_>>(),
        "environment": one.environment.as_ref().map(environment),
    })
}

fn gains(one: &Gains) -> Value {
    let together = one.together.iter().map(|one| {
        let rules: Vec<&str> = one.rules.iter().map(|rule| rule.name()).collect();
        json!({ "keys": rules, "gain_ns": one.gain.0 })
    });
    json!({
        "measured_ns": one.measured.0,
        "replayed_ns": one.replayed.0,
        "error": one.error(),
        "together": together.collect::<Vec<_>>(),
    })
}

fn stream_pair(one: &StreamPair) -> Value {
    json!({
        "streams": one.streams,
        "ran_ns": one.ran.map(|time| time.0),
        "together_ns": one.together.0,
        "enqueued_ns": one.enqueued.0,
        "verdict": one.verdict.key(),
    })
}

fn steps(one: &ProgramSteps) -> Value {
    let times = &one.times;
    json!({
        "range": one.range,
        "count": one.count,
        "different": one.different,
        "different_ns": one.different_time.0,
        "kernels_per_step": one.kernels,
        "first_kernel": one.first_kernel,
        "stream": one.stream,
        "began_ns": one.began.0,
        "elapsed_ns": one.elapsed.0,
        "before_ns": one.before.0,
        "busy_before_ns": one.busy_before.0,
        "after_ns": one.after.0,
        "time_per_step": {
            "median_ns": times.median.0,
            "least_ns": times.least.0,
            "p10_ns": times.tenth.0,
            "p90_ns": times.ninetieth.0,
            "most_ns": times.most.0,
            "spread_percent": times.spread(),
        },
    })
}

fn idle(one: &Idle) -> Value {
    json!({
        "total_ns": one.total.0,
        "gaps": one.gaps,
        "longest_ns": one.longest.0,
        "short_gaps_ns": one.short.0,
        "waiting_ns": one.waiting.0,
        "allocating_ns": one.allocating.0,
        "copying_ns": one.copying.0,
        "calling_ns": one.calling.0,
        "elsewhere_ns": one.elsewhere.0,
    })
}
