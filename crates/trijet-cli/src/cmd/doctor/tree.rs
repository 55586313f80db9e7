//! The findings as one tree of sections, rows and values. The tree is printed as JSON, and the
//! module `text` prints it as text. The name of a measured value ends with its unit. A measured
//! value is `{median, min, max, samples, spread}`.
#![forbid(unsafe_code)]

use serde_json::{Map, Value, json};
use trijet::Clock;
use trijet_tools::doctor::advice::{Advice, derive};
use trijet_tools::doctor::findings::{
    Absent, Blocked, CallCost, Contention, Findings, Load, Path, Rate,
};
use trijet_tools::origin::COMMIT;
use trijet_tools::stats::Samples;

/// A measured value.
fn figure(samples: &Samples) -> Value {
    json!({
        "median": samples.quantile(0.5),
        "min": samples.quantile(0.0),
        "max": samples.quantile(1.0),
        "samples": samples.count(),
        "spread": samples.spread(),
    })
}

fn optional(samples: Option<&Samples>) -> Value {
    samples.filter(|s| s.count() > 0).map_or(Value::Null, figure)
}

/// The kind of device that was measured.
fn measured_on(f: &Findings) -> &'static str {
    match f.device.clock {
        Clock::Device => "a GPU",
        Clock::Processor => "the host device (CPU threads of this machine), not a GPU",
        Clock::Model => "the host device (a model's clock), not a GPU",
    }
}

/// The advice. There is no advice for a processor, because its memory needs no link.
fn advice(f: &Findings) -> Vec<Advice> {
    if f.on_gpu() { derive(f) } else { Vec::new() }
}

/// The whole tree.
pub(super) fn tree(f: &Findings) -> Value {
    let listed = |list: &[Absent]| {
        list.iter().map(|a| json!({ "what": a.what, "why": a.why })).collect::<Vec<_>>()
    };
    json!({
        "measured_on": measured_on(f),
        "date": f.date,
        "commit": COMMIT,
        "elapsed_s": f.elapsed_s,
        "device": device(f),
        "copies": f.rates.iter().map(rate).collect::<Vec<_>>(),
        "calls": f.calls.iter().map(call).collect::<Vec<_>>(),
        "blocking": f.blocked.iter().map(blocked).collect::<Vec<_>>(),
        "default_streams": f.pairs.iter().map(|p| json!({
            "first": p.first,
            "second": p.second,
            "second_kernel": p.stream.to_string(),
            "agreeing_repeats": p.agreeing.0,
            "repeats": p.agreeing.1,
        })).collect::<Vec<_>>(),
        "limits": limits(f),
        "shared_hardware_queues": f.queue_shares.iter().map(|row| json!({
            "behind_each_kernel": row.behind,
            "streams": row.streams,
            "kernels_at_once": row.at_once,
            "agreeing_repeats": row.agreeing.0,
            "repeats": row.agreeing.1,
        })).collect::<Vec<_>>(),
        "contention": f.contention.iter().map(contention).collect::<Vec<_>>(),
        "allocations": f.allocations.iter().map(|a| json!({
            "way": a.way,
            "size_bytes": a.bytes.0,
            "pair_ns": figure(&a.pair_ns),
        })).collect::<Vec<_>>(),
        "chains": f.chains.iter().map(|c| json!({
            "kernel": c.kernel,
            "way": c.way,
            "kernels": c.kernels,
            "device_per_kernel_ns": figure(&c.kernel_ns),
            "host_per_launch_ns": figure(&c.launch_ns),
        })).collect::<Vec<_>>(),
        "advice": advice(f).iter().map(|a| json!({
            "key": a.key,
            "value": a.value,
            "text": a.text,
            "noisy": a.noisy.iter().map(|(measurement, spread)| json!({
                "measurement": measurement,
                "spread_percent": spread,
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "not_applicable": listed(&f.absent),
        "failed": listed(&f.failed),
    })
}

fn device(f: &Findings) -> Value {
    let info = &f.device;
    json!({
        "name": info.name,
        "ordinal": f.ordinal,
        "compute_capability": [info.compute.0, info.compute.1],
        "multiprocessors": info.multiprocessors,
        "copy_engines": info.copy_engines,
        "hardware_queues": info.hardware_queues,
        "l2_bytes": info.l2.map(|b| b.0),
        "memory_bytes": info.memory.0,
        "stream_priorities": [info.priorities.0, info.priorities.1],
        "driver_version": info.driver_version,
        "kernel_driver": f.kernel_driver,
        "neighbours": f.neighbours.iter().map(|n| json!({
            "ordinal": n.ordinal,
            "name": n.name,
            "peer_access_to_it": n.reached,
            "peer_access_from_it": n.reaches,
        })).collect::<Vec<_>>(),
        "links": f.links.iter().map(|link| json!({
            "from": link.from,
            "to": link.to,
            "alone_gb_per_s": figure(&link.alone),
            "both_ways_gb_per_s": figure(&link.both),
            "all_pairs_gb_per_s": figure(&link.all),
            "all_pairs_and_host_gb_per_s": figure(&link.beside),
        })).collect::<Vec<_>>(),
    })
}

/// The name of a [`Path`] of copies in the tree.
pub(super) fn name_of(path: Path) -> &'static str {
    match path {
        Path::Upload => "h2d",
        Path::Download => "d2h",
        Path::Duplex => "duplex_each_way",
        Path::PageableUpload => "pageable_h2d",
        Path::PageableDownload => "pageable_d2h",
        Path::OnDevice => "on_device_read_and_written",
        Path::Peer => "peer",
    }
}

fn rate(rate: &Rate) -> Value {
    json!({
        "path": name_of(rate.path),
        "size_bytes": rate.bytes.0,
        "copies": rate.copies,
        "rate_gb_per_s": figure(&rate.gb_per_s),
        "host_in_calls_share": optional(Some(&rate.host_busy)),
        "submitted": rate.pattern,
    })
}

fn call(cost: &CallCost) -> Value {
    let mut value = Map::new();
    value.insert("call".to_owned(), cost.call.into());
    for (name, samples) in [
        ("bare_host_ns", &cost.bare_ns),
        ("bare_until_device_done_ns", &cost.bare_through_ns),
        ("trijet_host_ns", &cost.trijet_ns),
    ] {
        value.insert(name.to_owned(), optional(samples.as_ref()));
    }
    value.into()
}

fn blocked(row: &Blocked) -> Value {
    json!({
        "call": row.call,
        "streams": row.streams,
        "host_alone_us": figure(&row.alone_us),
        "host_beside_kernel_us": figure(&row.beside_us),
        "kernel_left_us": figure(&row.kernel_us),
        "host": row.host.to_string(),
        "stream_b": row.stream.to_string(),
        "agreeing_repeats": row.agreeing.0,
        "repeats": row.agreeing.1,
    })
}

fn contention(row: &Contention) -> Value {
    json!({
        "at_once": row.at_once.iter().copied().map(Load::name).collect::<Vec<_>>(),
        "work": row.load.name(),
        "alone_us": figure(&row.alone_us),
        "beside_us": figure(&row.beside_us),
        "longer_percent": row.longer_percent,
        "others_lasted": row.is_whole,
    })
}

fn limits(f: &Findings) -> Value {
    json!({
        "resident_grids": f.limits.resident_grids.map(|(resident, _)| resident),
        "resident_grids_launched": f.limits.resident_grids.map(|(_, launched)| launched),
        "resident_grids_with_event_records": f.limits.resident_recorded,
        "queue_depth_launches": f.limits.queue_depth.and_then(Result::ok),
        "queue_launches_without_a_limit": f.limits.queue_depth.and_then(Result::err),
        "stream_memory_bytes": f.limits.stream_bytes,
    })
}
