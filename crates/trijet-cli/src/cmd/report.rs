//! The report of a run as JSON.
#![forbid(unsafe_code)]

use crate::key::key;
use serde_json::{Value, json};
use trijet::check::lint::Lint;
use trijet::pipeline::{Advice, Calibration, ChunkChoice, EngineReport, Limits, MemoryUse};
use trijet::trace::TimeSource;
use trijet::trace::exposed::{DeviceMetrics, Exposure, RouteMetrics};
use trijet::trace::gaps::Cause;
use trijet::trace::host_engines::HostSummary;
use trijet::trace::limit::Limit;
use trijet::trace::summary::{Audience, EngineSummary, Loss, Pair, Summary};
use trijet::{Bytes, Clock, Nanos, Report};

pub(crate) fn json(report: &Report) -> Value {
    let engine = |e: &EngineReport| {
        json!({
            "name": e.name,
            "busy_ns": e.busy.0,
            "isolated_ns": e.isolated.map(|t| t.0),
            "contention": e.contention,
        })
    };
    let limits = |limits: &Limits| {
        json!({
            "bound_ns": limits.bound.0,
            "with_copies_ns": limits.with_copies.0,
            "with_ends_ns": limits.with_ends.0,
            "of_copies_only": limits.of_copies_only,
            "reached": limits.reached(report.elapsed),
        })
    };
    json!({
        "device": report.device,
        "clock": clock(report),
        "clock_warnings": report.warnings(),
        "schedule": report.plan.schedule_name(),
        "chunks_chosen": chosen(report.plan.chunk_choice),
        "chunks": report.plan.chunks.len(),
        "chunk_rows": report.plan.chunk_rows,
        "slots": report.plan.depth.min(report.plan.chunks.len().max(1)),
        "rows": report.rows,
        "bytes_in": report.bytes_in.0,
        "bytes_out": report.bytes_out.0,
        "elapsed_ns": report.elapsed.0,
        "wall_ns": report.wall.map(|t| t.0),
        "bound_ns": report.bound.map(|t| t.0),
        "limits": report.limits.as_ref().map(limits),
        "efficiency": report.efficiency(),
        "overlap": report.overlap(),
        "engines": report.engines.iter().map(engine).collect::<Vec<_>>(),
        "limit": report.limit.map(Limit::key),
        "nearest_limits": report.limit.and_then(Limit::nearest),
        "advice": report.advice().iter().map(advice).collect::<Vec<_>>(),
        "device_memory": report.memory_use().map(|used| memory_use(&used)),
        "summary": report.summary().map(summary),
        "cold_setup_ns": report.cold.setup.0,
        "waits": report.ordering.waits,
        "records": report.ordering.records,
        "over_waits": report.ordering.over_waits,
    })
}

/// The use of device memory by the kernels of a run.
fn memory_use(used: &MemoryUse) -> Value {
    json!({
        "declared_bytes": used.bytes.0,
        "busy_ns": used.busy.0,
        "declared_bytes_per_s": used.bytes_per_s(),
        "memory_bytes_per_s": used.memory_bytes_per_s,
        "share": used.share(),
        "undeclared": used.undeclared,
    })
}

/// The key of the source of the times in a report.
fn clock(report: &Report) -> &'static str {
    match (report.clock, report.times) {
        (Clock::Device, TimeSource::Activity) => "cupti",
        (Clock::Device, _) => "events",
        (Clock::Processor, _) => "processor",
        (Clock::Model, _) => "model",
    }
}

/// The key of the rule that chose the size of the chunks.
fn chosen(choice: ChunkChoice) -> &'static str {
    match choice {
        ChunkChoice::Measurement => "measurement",
        ChunkChoice::Caller => "user",
        ChunkChoice::Memory => "memory",
        _ => "bytes",
    }
}

/// The times of copies over the link of a device.
pub(super) fn link(link: &Calibration) -> Value {
    json!({
        "measured_bytes": link.bytes.0,
        "upload_ns": link.upload.0,
        "download_ns": link.download.0,
        "both_ways_ns": link.duplex.0,
        "upload_bytes_per_s": per_second(link.bytes, link.upload),
        "download_bytes_per_s": per_second(link.bytes, link.download),
        "both_ways_bytes_per_s": per_second(link.bytes, link.duplex),
        "each_upload_ns": link.upload_copy.0,
        "each_download_ns": link.download_copy.0,
        "each_pair_ns": link.duplex_copy.0,
    })
}

/// Bytes per second; `None` if the time is 0.
fn per_second(bytes: Bytes, time: Nanos) -> Option<f64> {
    (time.0 > 0).then(|| bytes.0 as f64 / time.seconds())
}

fn advice(advice: &Advice) -> Value {
    json!({
        "change": advice.change.key(),
        "saves_ns": advice.saves.0,
        "bound": advice.bound.key(),
        "text": advice.text,
    })
}

fn exposure(Exposure { busy, exposed }: &Exposure) -> Value {
    json!({ "busy_ns": busy.0, "exposed_ns": exposed.0 })
}

/// The copies and the communication of a device.
fn device(of: &DeviceMetrics) -> Value {
    let route = |one: &RouteMetrics| {
        json!({
            "from": one.route.from.0,
            "to": one.route.to.0,
            "copies": one.copies,
            "bytes": one.bytes,
            "busy_ns": one.time.busy.0,
            "exposed_ns": one.time.exposed.0,
        })
    };
    json!({
        "device": of.device.0,
        "copies": exposure(&of.copies),
        "communication": exposure(&of.communication),
        "peer": of.routes.iter().map(route).collect::<Vec<_>>(),
    })
}

/// An engine of the host.
fn host_engine(host: &HostSummary) -> Value {
    json!({
        "name": host.engine.name(),
        "busy_ns": host.busy.0,
        "share": host.share,
        "exposed_ns": host.exposed.0,
    })
}

/// The key of a cause of idle time, and the key of an object that the cause names. In some causes,
/// the object is the part of the critical path in which the host was late. In other causes, it is
/// the object for which an operation waited. The second key is `None` if the cause names no object.
fn cause_keys(cause: &Cause) -> (String, Option<String>) {
    let words = cause.to_string();
    match (words.split_once(": "), words.strip_prefix("waiting for ")) {
        (Some((cause, of)), _) => (key(cause), Some(key(of))),
        (None, Some(of)) => ("waiting_for".to_owned(), Some(key(of))),
        (None, None) => (key(&words), None),
    }
}

fn loss(loss: &Loss) -> Value {
    let (cause, of) = cause_keys(&loss.cause);
    json!({
        "cause": cause,
        "of": of,
        "text": loss.cause.to_string(),
        "lost_ns": loss.time.0,
        "fix": loss.fix,
        "ops": loss.ops,
    })
}

/// The figures of the traced run: all figures that the text has, and the idle time of every engine
/// by cause.
fn summary(summary: &Summary) -> Value {
    let m = &summary.metrics;
    let engine = |e: &EngineSummary| {
        let idle = e.idle.iter().map(|(cause, time)| {
            let (cause, of) = cause_keys(cause);
            json!({ "cause": cause, "of": of, "time_ns": time.0 })
        });
        json!({
            "name": summary.engine_name(e.metrics.engine),
            "busy_ns": e.metrics.busy.0,
            "share": e.share,
            "work_ns": e.metrics.work.0,
            "isolated": e.metrics.isolated,
            "contention": e.metrics.contention,
            "exposed_ns": e.exposed.0,
            "idle": idle.collect::<Vec<_>>(),
        })
    };
    let pair = |pair: &Pair| {
        json!({
            "engines": pair.engines.map(|engine| summary.engine_name(engine)),
            "together_ns": pair.together.0,
            "share": pair.share,
            "verdict": pair.concurrency.to_string(),
        })
    };
    let is_author = summary.audience == Audience::Author;
    let lint = |lint: &Lint| {
        json!({
            "rule": lint.rule.name(),
            "saved_ns": lint.saved.0,
            "text": lint.text,
            "fix": is_author.then(|| lint.rule.fix()),
            "ops": lint.ops,
        })
    };
    let path = summary
        .path()
        .into_iter()
        .map(|(part, time)| json!({ "part": key(&part.to_string()), "time_ns": time.0 }));
    json!({
        "verdict": summary.verdict(),
        "elapsed_ns": m.elapsed().0,
        "bound_ns": m.efficiency.map(|_| m.bound.0),
        "efficiency": m.efficiency,
        "chunks": m.chunks,
        "finite_ns": m.finite.0,
        "finite_efficiency": m.finite_efficiency,
        "overlap": m.overlap,
        "concurrency": m.concurrency,
        "exposed_copy_ns": m.exposed_copy.0,
        "communication": exposure(&m.communication),
        "devices": m.devices.iter().map(device).collect::<Vec<_>>(),
        "hidden": m.hidden,
        "link_ns": summary.link.map(|t| t.0),
        "engines": summary.engines.iter().map(engine).collect::<Vec<_>>(),
        "host_engines": summary.host.iter().map(host_engine).collect::<Vec<_>>(),
        "at_once": summary.pairs.iter().map(pair).collect::<Vec<_>>(),
        "losses": summary.losses.iter().map(loss).collect::<Vec<_>>(),
        "critical_path": path.collect::<Vec<_>>(),
        "warnings": summary.lints.iter().map(lint).collect::<Vec<_>>(),
        "hazards": summary.hazards,
        "contradictions": summary.contradictions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::trace::dag::{Dag, Kernels};
    use trijet::trace::summary::{Settings, summarize};
    use trijet::trace::{DeviceId, Engine, LaneId, Op, Position, Route, StreamWork, Times};

    #[test]
    fn each_device_has_its_copies_its_communication_and_its_peer_copies_by_direction() {
        let work = |lane, engine, (begin, end)| Op {
            times: Some(Times { begin: Nanos(begin), end: Nanos(end) }),
            bytes: 64,
            ..Op::new(
                StreamWork::Copy,
                engine,
                DeviceId(1),
                Position { lane: LaneId(lane), seq: 1 },
            )
        };
        let mut ops = vec![
            work(0, Engine::Upload, (0, 10)),
            work(1, Engine::Compute, (5, 20)),
            work(2, Engine::Peer, (15, 30)),
        ];
        ops[2].route = Some(Route { from: DeviceId(1), to: DeviceId(0) });
        let dag = Dag::new(&ops, Kernels::Several);
        let json = super::summary(&summarize(&ops, &dag, &Settings::default(), Vec::new()));
        let peer = json!({
            "from": 1, "to": 0, "copies": 1, "bytes": 64, "busy_ns": 15, "exposed_ns": 10,
        });
        let device = json!({
            "device": 1,
            "copies": { "busy_ns": 10, "exposed_ns": 5 },
            "communication": { "busy_ns": 15, "exposed_ns": 10 },
            "peer": [peer],
        });
        assert_eq!(json["devices"], json!([device]));
        assert_eq!(
            (&json["exposed_copy_ns"], &json["communication"]["exposed_ns"]),
            (&json!(5), &json!(10))
        );
    }
}
