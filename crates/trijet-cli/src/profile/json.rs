//! Profiles as JSON. Times are in nanoseconds.
#![forbid(unsafe_code)]

use super::device::Device;
use super::idle::Idle;
use super::process::Process;
use serde_json::{Value, json};

/// The profiles of all processes. `missing` is the reason why nothing was traced, if nothing was.
#[must_use]
pub fn json(processes: &[Process], missing: Option<&str>) -> Value {
    json!({
        "processes": processes.iter().map(process).collect::<Vec<_>>(),
        "missing": missing,
        "races": "not checked: a trace does not contain the accesses of kernels",
    })
}

fn process(one: &Process) -> Value {
    json!({
        "process": one.process,
        "command": one.command,
        "rank": one.rank,
        "clock": "CUPTI",
        "cupti_version": one.interface,
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
        "began_ns": one.began.0,
        "span_ns": one.span.0,
        "tracing_overhead_ns": {
            "cupti": one.overhead.0,
            "recorder": one.end.map(|end| end.own_time.0),
        },
        "devices": one.devices.iter().map(device).collect::<Vec<_>>(),
    })
}

fn device(one: &Device) -> Value {
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
            "key": finding.key,
            "title": finding.title,
            "count": finding.count,
            "cost_ns": finding.cost.0,
            "places_ns": finding.places.iter().map(|p| [p.start, p.end]).collect::<Vec<_>>(),
            "seen": finding.seen,
            "fix": finding.fix,
        })
    });
    let kernels = one.kernels.iter().map(|kernel| {
        json!({ "name": kernel.name, "total_ns": kernel.total.0, "launches": kernel.launches })
    });
    json!({
        "device": one.device,
        "began_ns": one.began.0,
        "elapsed_ns": one.elapsed.0,
        "busy_ns": one.busy.0,
        "limiting": one.limiting().map(|engine| engine.name),
        "streams": one.streams,
        "engines": engines.collect::<Vec<_>>(),
        "idle_ns": idle(&one.idle),
        "findings": findings.collect::<Vec<_>>(),
        "kernels": kernels.collect::<Vec<_>>(),
    })
}

fn idle(one: &Idle) -> Value {
    json!({
        "total": one.total.0,
        "gaps": one.gaps,
        "longest": one.longest.0,
        "waiting": one.waiting.0,
        "allocating": one.allocating.0,
        "copying": one.copying.0,
        "calling": one.calling.0,
        "elsewhere": one.elsewhere.0,
    })
}
