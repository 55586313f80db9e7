#![forbid(unsafe_code)]

use super::super::tracks::samples::op;
use super::*;
use crate::base::id::{BlockId, DeviceId, LaneId, Position};
use crate::base::ledger::{Access, Asked, Mode, OrderedBy, Site, SourceOrder, WaitOutcome};
use serde_json::Value;

fn events(ops: &[Op]) -> Vec<Value> {
    let text = trace(ops);
    let read: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    read["traceEvents"].as_array().unwrap().clone()
}

/// First the category and the name of the slice of the operation on the device. Second the category
/// and the name of the slice of the call. `None` if there is no such slice.
fn slices(op: Op) -> [Option<(String, String)>; 2] {
    let events = events(&[op]);
    let word = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    [0, HOST].map(|process| {
        let mut found = events.iter().filter(|e| e["ph"] == "X" && e["pid"] == process);
        let slice = found.next().map(|event| (word(event, "cat"), word(event, "name")));
        assert!(found.next().is_none(), "one slice per process");
        slice
    })
}

#[test]
fn every_kind_has_the_names_that_kineto_gives_it() {
    fn event(kind: impl Into<OpKind>) -> (OpKind, Engine) {
        (kind.into(), Engine::None)
    }
    let work = |work, engine| (OpKind::Work(work), engine);
    let on = Position { lane: LaneId(0), seq: 1 };
    let sync = |what| event(HostStep::Sync { what, outcome: WaitOutcome::Complete });
    let upload = "Memcpy HtoD (Pinned -> Device)";
    for ((kind, engine), device, call) in [
        (work(StreamWork::Alloc, Engine::Compute), "user_annotation op", "cudaMallocAsync"),
        (work(StreamWork::Free, Engine::Compute), "user_annotation op", "cudaFreeAsync"),
        (
            work(StreamWork::Copy, Engine::Upload),
            &*format!("gpu_memcpy {upload}"),
            "cudaMemcpyAsync",
        ),
        (
            work(StreamWork::Copy, Engine::Download),
            "gpu_memcpy Memcpy DtoH (Device -> Pinned)",
            "cudaMemcpyAsync",
        ),
        (
            work(StreamWork::Copy, Engine::Peer),
            "gpu_memcpy Memcpy PtoP (Device -> Device)",
            "cudaMemcpyAsync",
        ),
        (
            work(StreamWork::Copy, Engine::Compute),
            "gpu_memcpy Memcpy DtoD (Device -> Device)",
            "cudaMemcpyAsync",
        ),
        (work(StreamWork::CopyNow, Engine::Upload), &*format!("gpu_memcpy {upload}"), "cudaMemcpy"),
        (
            work(StreamWork::Batch(SourceOrder::Stream), Engine::Upload),
            &*format!("gpu_memcpy {upload}"),
            "cudaMemcpyBatchAsync",
        ),
        (work(StreamWork::Fill, Engine::Compute), "gpu_memset Memset (Device)", "cudaMemsetAsync"),
        (work(StreamWork::FillNow, Engine::Compute), "gpu_memset Memset (Device)", "cudaMemset"),
        (work(StreamWork::Kernel, Engine::Compute), "kernel op", "cudaLaunchKernel"),
        (work(StreamWork::HostFn, Engine::Host), "user_annotation op", "cudaLaunchHostFunc"),
        (event(StreamMark::Record { event: 1, by: Asked::User }), "", "cudaEventRecord"),
        (event(StreamMark::Wait { event: 1, on, by: Asked::User }), "", "cudaStreamWaitEvent"),
        (event(HostStep::Open), "", "cudaStreamCreate"),
        (sync(Waited::Event(1)), "", "cudaEventSynchronize"),
        (sync(Waited::Stream), "", "cudaStreamSynchronize"),
        (sync(Waited::Device), "", "cudaDeviceSynchronize"),
        (event(HostStep::Access), "", "op"),
    ] {
        let mut op = op(kind, engine, 3, 1, (10, 20));
        if engine == Engine::None {
            op.times = None;
        }
        let category =
            if kind == OpKind::Host(HostStep::Access) { "user_annotation" } else { "cuda_runtime" };
        let wanted = device.split_once(' ').map(|(cat, name)| (cat.to_owned(), name.to_owned()));
        let call = (category.to_owned(), call.to_owned());
        assert_eq!(slices(op), [wanted, Some(call)], "{kind:?} on {engine:?}");
    }
}

#[test]
fn a_copy_has_the_arguments_that_tools_read() {
    let mut copy = op(StreamWork::Copy, Engine::Download, 7, 4, (1500, 3500));
    (copy.bytes, copy.chunk, copy.device) = (4000, Some(2), DeviceId(1));
    copy.site = Some(Site { file: "a \"b\".rs".into(), line: 1, column: 2 });
    let place = Place::Pageable;
    copy.accesses.push(Access {
        block: BlockId(1),
        place,
        range: 0..1,
        mode: Mode::Write,
        ordered: OrderedBy::Library,
    });
    let events = events(&[copy]);
    let slice = events.iter().find(|e| e["cat"] == "gpu_memcpy").unwrap();
    assert_eq!(slice["name"], "Memcpy DtoH (Device -> Pageable)");
    assert_eq!((&slice["pid"], &slice["tid"]), (&Value::from(1), &Value::from(7)));
    assert_eq!((slice["ts"].as_f64(), slice["dur"].as_f64()), (Some(1.5), Some(2.0)));
    let args = &slice["args"];
    for (name, value) in [
        ("stream", 7),
        ("device", 1),
        ("correlation", 1),
        ("External id", 1),
        ("bytes", 4000),
        ("chunk", 2),
        ("position", 4),
    ] {
        assert_eq!(args[name], value, "{name}");
    }
    assert_eq!(args["memory bandwidth (GB/s)"].as_f64(), Some(2.0));
    assert_eq!(args["site"], "a \"b\".rs:1:2");
}

#[test]
fn an_arrow_leads_from_each_call_to_its_operation() {
    let kernel = |lane, seq, times| op(StreamWork::Kernel, Engine::Compute, lane, seq, times);
    let ops = [kernel(0, 1, (10, 20)), kernel(1, 1, (30, 40))];
    let events = events(&ops);
    for (id, tid, called, began) in [(1, 0, 0.005, 0.01), (2, 1, 0.025, 0.03)] {
        let end = |phase: &str| {
            let is = |e: &&Value| e["cat"] == "ac2g" && e["ph"] == phase && e["id"] == id;
            let found: Vec<_> = events.iter().filter(is).collect();
            assert_eq!(found.len(), 1, "{phase} of {id}");
            (found[0]["pid"].as_u64(), found[0]["tid"].as_u64(), found[0]["ts"].as_f64())
        };
        assert_eq!(end("s"), (Some(u64::from(HOST)), Some(0), Some(called)));
        assert_eq!(end("f"), (Some(0), Some(tid), Some(began)));
    }
}

#[test]
fn slices_of_one_thread_never_overlap() {
    let kernel = |seq, times| op(StreamWork::Kernel, Engine::Compute, 3, seq, times);
    let events = events(&[kernel(1, (10, 20)), kernel(2, (15, 30))]);
    let kernels: Vec<_> = events.iter().filter(|e| e["cat"] == "kernel").collect();
    let tids: Vec<_> = kernels.iter().map(|e| e["tid"].as_u64().unwrap()).collect();
    assert_eq!(tids, [3, 3 + ROW as u64]);
    assert!(kernels.iter().all(|e| e["args"]["stream"] == 3));
}

#[test]
fn any_label_is_text() {
    let mut kernel = op(StreamWork::Kernel, Engine::Compute, 0, 1, (0, 1));
    let label = "void f<int>(\"x\\y\")\n\u{1}\u{2028}é</script>";
    kernel.label = label.into();
    let events = events(&[kernel]);
    assert_eq!(events.iter().find(|e| e["cat"] == "kernel").unwrap()["name"], label);
}

#[test]
fn an_empty_trace_is_valid() {
    assert!(events(&[]).is_empty());
}
