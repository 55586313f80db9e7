//! A run's report as JSON.
#![forbid(unsafe_code)]

use serde_json::{Value, json};
use trijet::pipeline::Report;

pub(super) fn json(report: &Report) -> Value {
    let engine = |e: &trijet::pipeline::EngineReport| {
        json!({
            "name": e.name,
            "busy_ns": e.busy.0,
            "isolated_ns": e.isolated.map(|t| t.0),
            "contention": e.contention(),
        })
    };
    json!({
        "device": report.device,
        "clock": report.clock_words(),
        "clock_warnings": report.warnings(),
        "schedule": report.plan.schedule.name(),
        "chunks": report.plan.chunks.len(),
        "chunk_rows": report.plan.chunk_rows,
        "slots": report.plan.depth,
        "rows": report.rows,
        "bytes_in": report.bytes_in.0,
        "bytes_out": report.bytes_out.0,
        "elapsed_ns": report.elapsed.0,
        "wall_ns": report.wall.map(|t| t.0),
        "bound_ns": report.bound.map(|t| t.0),
        "efficiency": report.efficiency(),
        "overlap": report.overlap(),
        "engines": report.engines.iter().map(engine).collect::<Vec<_>>(),
        "limiting": report.limiting().map(|e| e.name),
        "idle_ns": {
            "fill": report.exposed.fill.0,
            "drain": report.exposed.drain.0,
            "dependency": report.exposed.dependency.0,
            "host": report.exposed.host.0,
        },
        "cold_setup_ns": report.cold.setup.0,
        "waits": report.ordering.waits,
        "records": report.ordering.records,
        "over_waits": report.ordering.over_waits,
    })
}
