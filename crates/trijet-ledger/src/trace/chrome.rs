//! A trace as Chrome JSON with the names of Kineto, PyTorch's profiler, so that tools for Kineto's
//! traces can read it: categories, `args.stream`, `args.device`, `args.correlation`, and an arrow
//! `ac2g` from each call to the operation that it enqueued.
//!
//! The correlation of an operation is its index plus 1. Calls have the names of the CUDA runtime,
//! because tools look for these names, although trijet calls the driver. In this format the slices
//! of one thread must nest. So operations of a stream that overlap get different values of `tid`,
//! and `args.stream` is the stream. Kineto has no host functions; they get the category
//! `user_annotation`. Equal traces give equal bytes.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

use super::json::string;
use super::tracks::{Shows, engine_name, kind_name, span, times, track_name, tracks};
use crate::base::ledger::{
    Engine, HostStep, LedgerNote, MemoryCall, Op, OpKind, Place, StreamMark, StreamWork, Waited,
};
use std::fmt::Write;

/// The `pid` of the host threads. The `pid` of a device is the number of the device, as in Kineto.
const HOST: u32 = 1_000_000;
/// The difference between the values of `tid` of two rows of one stream.
const ROW: usize = 1_000_000;

/// The trace as Chrome JSON.
///
/// ```
/// let text = trijet::trace::chrome::trace(&[]);
/// assert!(text.contains("\"traceEvents\""));
/// ```
#[must_use]
pub fn trace(ops: &[Op]) -> String {
    let mut events = Vec::new();
    let mut devices: Vec<u32> = ops.iter().map(|op| op.device.0).collect();
    devices.sort_unstable();
    devices.dedup();
    for device in &devices {
        events.push(process(*device, &format!("device {device}")));
    }
    if ops.iter().any(|op| op.call.is_some()) {
        events.push(process(HOST, "host"));
    }
    for track in tracks(ops) {
        let (process, thread) = match track.shows {
            Shows::Engine(..) => continue,
            Shows::Stream(device, lane) => (device.0, u64::from(lane.0)),
            Shows::Thread(thread) => (HOST, thread),
        };
        let name = track_name(ops, &track);
        for (tid, row) in (thread..).step_by(ROW).zip(&track.rows) {
            events.push(meta("thread_name", process, tid, &name));
            for &index in row {
                let Some(at) = times(&ops[index], track.shows) else { continue };
                let place = SlicePosition { process, tid, at };
                event(&mut events, &ops[index], index, track.shows, place);
            }
        }
    }
    let devices: Vec<String> = devices.iter().map(|id| format!("{{\"id\": {id}}}")).collect();
    format!(
        "{{\n\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n\"deviceProperties\": [{}],\n\
         \"traceEvents\": [\n{}\n]\n}}\n",
        devices.join(", "),
        events.join(",\n")
    )
}

/// The position of a slice in the file: its process, its thread, and its times.
#[derive(Clone, Copy)]
struct SlicePosition {
    process: u32,
    tid: u64,
    at: (u64, u64),
}

fn process(pid: u32, name: &str) -> String {
    meta("process_name", pid, 0, name)
}

fn meta(what: &str, pid: u32, tid: u64, name: &str) -> String {
    let name = string(name);
    format!(
        "{{\"ph\": \"M\", \"name\": \"{what}\", \"pid\": {pid}, \"tid\": {tid}, \
         \"args\": {{\"name\": {name}}}}}"
    )
}

/// A time in microseconds, the unit of the format, with all nanoseconds as decimals.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn event(events: &mut Vec<String>, op: &Op, index: usize, shows: Shows, place: SlicePosition) {
    let SlicePosition { process, tid, at: (begin, end) } = place;
    let on_host = matches!(shows, Shows::Thread(_));
    let (category, name) = if on_host { call(op) } else { (category(op), device_name(op)) };
    events.push(format!(
        "{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": {}, \"pid\": {process}, \
         \"tid\": {tid}, \"ts\": {}, \"dur\": {}, \"args\": {{{}}}}}",
        string(&name),
        micros(begin),
        micros(end - begin),
        args(op, index, on_host)
    ));
    if op.call.is_some() && op.times.is_some() {
        let (phase, more) = if on_host { ("s", "") } else { ("f", ", \"bp\": \"e\"") };
        events.push(format!(
            "{{\"ph\": \"{phase}\", \"id\": {}, \"cat\": \"ac2g\", \"name\": \"ac2g\", \
             \"pid\": {process}, \"tid\": {tid}, \"ts\": {}{more}}}",
            index + 1,
            micros(begin)
        ));
    }
}

fn args(op: &Op, index: usize, on_host: bool) -> String {
    let id = index + 1;
    let mut args = format!("\"External id\": {id}, \"correlation\": {id}");
    let mut more = |name: &str, value: String| {
        write!(args, ", \"{name}\": {value}").expect("writing to a string");
    };
    if !on_host {
        more("device", op.device.0.to_string());
        more("stream", op.position.lane.0.to_string());
        if op.bytes > 0 {
            more("bytes", op.bytes.to_string());
            if let Some((begin, end)) = op.times.map(span).filter(|(begin, end)| begin < end) {
                let rate = op.bytes as f64 / (end - begin) as f64;
                more("memory bandwidth (GB/s)", rate.to_string());
            }
        }
    }
    more("kind", string(kind_name(op)));
    more("engine", string(engine_name(op.engine)));
    if op.position.seq > 0 {
        more("position", op.position.seq.to_string());
    }
    if let Some(chunk) = op.chunk {
        more("chunk", chunk.to_string());
    }
    if let Some(site) = &op.site {
        more("site", string(&site.to_string()));
    }
    args
}

fn category(op: &Op) -> &'static str {
    match op.kind {
        OpKind::Work(StreamWork::Kernel) => "kernel",
        OpKind::Work(StreamWork::Copy | StreamWork::CopyNow | StreamWork::Batch(_)) => "gpu_memcpy",
        OpKind::Work(StreamWork::Fill | StreamWork::FillNow) => "gpu_memset",
        OpKind::Work(StreamWork::Alloc | StreamWork::Free | StreamWork::HostFn)
        | OpKind::Mark(_)
        | OpKind::Memory(_)
        | OpKind::Host(_)
        | OpKind::Signal(_)
        | OpKind::Note(_) => "user_annotation",
    }
}

/// The name of an operation on the device: Kineto's name if there is one, and the label otherwise.
fn device_name(op: &Op) -> String {
    let host = op.accesses.iter().map(|access| access.place).find(|p| *p != Place::Device);
    let host = if host == Some(Place::Pageable) { "Pageable" } else { "Pinned" };
    match category(op) {
        "gpu_memcpy" => match op.engine {
            Engine::Upload => format!("Memcpy HtoD ({host} -> Device)"),
            Engine::Download => format!("Memcpy DtoH (Device -> {host})"),
            Engine::Peer => "Memcpy PtoP (Device -> Device)".to_owned(),
            Engine::Compute | Engine::Host | Engine::None | Engine::Communication => {
                "Memcpy DtoD (Device -> Device)".to_owned()
            }
        },
        "gpu_memset" => "Memset (Device)".to_owned(),
        _ => op.label.clone().into_owned(),
    }
}

/// The category and the name of a call of the host.
fn call(op: &Op) -> (&'static str, String) {
    let name = match &op.kind {
        OpKind::Work(StreamWork::Alloc) => "cudaMallocAsync",
        OpKind::Work(StreamWork::Free) => "cudaFreeAsync",
        OpKind::Work(StreamWork::Copy) => "cudaMemcpyAsync",
        OpKind::Work(StreamWork::CopyNow) => "cudaMemcpy",
        OpKind::Work(StreamWork::Batch(_)) => "cudaMemcpyBatchAsync",
        OpKind::Work(StreamWork::Fill) => "cudaMemsetAsync",
        OpKind::Work(StreamWork::FillNow) => "cudaMemset",
        OpKind::Work(StreamWork::Kernel) => "cudaLaunchKernel",
        OpKind::Work(StreamWork::HostFn) => "cudaLaunchHostFunc",
        OpKind::Mark(StreamMark::Record { .. }) => "cudaEventRecord",
        OpKind::Mark(StreamMark::Wait { .. }) => "cudaStreamWaitEvent",
        OpKind::Host(HostStep::Open) => "cudaStreamCreate",
        OpKind::Host(HostStep::Sync { what: Waited::Event(_) | Waited::Recorded(_), .. }) => {
            "cudaEventSynchronize"
        }
        OpKind::Host(HostStep::Sync { what: Waited::Stream, .. }) => "cudaStreamSynchronize",
        OpKind::Host(HostStep::Sync { what: Waited::Device, .. }) => "cudaDeviceSynchronize",
        OpKind::Memory(MemoryCall::AllocNow) => "cudaMalloc",
        OpKind::Memory(MemoryCall::FreeNow) => "cudaFree",
        OpKind::Memory(MemoryCall::FromHeap { .. }) => "alloc",
        OpKind::Memory(MemoryCall::ToHeap) => "free",
        OpKind::Host(HostStep::Load) => "cudaLibraryLoadData",
        OpKind::Host(HostStep::Release) => "cudaMemPoolTrimTo",
        OpKind::Note(LedgerNote::Gone { .. }) => "cudaEventDestroy",
        OpKind::Host(HostStep::Access | HostStep::Lent | HostStep::Begin | HostStep::Failed)
        | OpKind::Host(HostStep::Refused | HostStep::Fault { .. })
        | OpKind::Signal(_)
        | OpKind::Note(LedgerNote::Ran | LedgerNote::Settled { .. })
        | OpKind::Note(LedgerNote::Name { .. } | LedgerNote::ThreadGone) => {
            return ("user_annotation", op.label.clone().into_owned());
        }
    };
    ("cuda_runtime", name.to_owned())
}

#[cfg(test)]
mod tests;
