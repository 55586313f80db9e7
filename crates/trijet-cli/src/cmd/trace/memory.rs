//! The allocations of a traced program, as a trace that `trijet replay` reads.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use trijet::trace::activity::{ActivityKind, AllocationKind, MemoryKind, ProcessTrace, SyncKind};
use trijet::{Error, ErrorKind, Result};
use trijet_tools::allocations::{Action, DeviceTrace, Trace, TraceRow};

/// A call of the program.
enum Event {
    Allocate { device: u32, address: u64, bytes: u64 },
    Free { address: u64 },
    Synchronize,
}

/// The numbers of the streams in the trace of a device. A key is the number of the stream's context
/// and the number of the stream in the program. The value is the number of the stream in the trace.
#[derive(Default)]
struct Streams(HashMap<(u32, u32), u16>);

impl Streams {
    fn of(&mut self, stream: (u32, u32)) -> Result<u16> {
        let next = u16::try_from(self.0.len()).unwrap_or(u16::MAX);
        if next >= 256 && !self.0.contains_key(&stream) {
            let cause = "the program has more than 256 streams on a device";
            return Err(Error::new(ErrorKind::InvalidValue, "save the allocations", cause));
        }
        Ok(*self.0.entry(stream).or_insert(next))
    }
}

/// The trace of one device of a process, while it is being made.
#[derive(Default)]
struct OfDevice {
    trace: Trace,
    streams: Streams,
}

/// The allocations of device memory by all processes, and the waits of the host for streams. Each
/// device of each process has its own trace. Processes do not share memory that they allocate, even
/// on one GPU. Different processes may use the same number for different GPUs. A free is left out
/// if its memory was allocated before the trace began.
///
/// # Errors
/// `InvalidValue` if no process allocated device memory, or if a device has more streams than a
/// trace can have.
pub(crate) fn traces_of(processes: &[ProcessTrace]) -> Result<Vec<DeviceTrace>> {
    let mut traces = Vec::new();
    for (index, process) in processes.iter().enumerate() {
        let others = processes[..index].iter().filter(|other| other.process == process.process);
        let of_process = match (processes.len(), others.count()) {
            (1, _) => String::new(),
            (_, 0) => format!(" of process {}", process.process),
            // Two processes of different hosts may have the same process number.
            (_, before) => format!(" of process {} ({})", process.process, before + 1),
        };
        for (device, trace) in by_device(process)? {
            traces.push(DeviceTrace { device: format!("{device}{of_process}"), trace, failed: 0 });
        }
    }
    match traces.as_mut_slice() {
        [] => {
            let cause = "the program allocated no device memory while it was traced";
            return Err(Error::new(ErrorKind::InvalidValue, "save the allocations", cause));
        }
        // With one device, no name is needed.
        [one] => one.device.clear(),
        _ => {}
    }
    Ok(traces)
}

/// The calls of a process in the order of their times, each with the numbers of its context and its
/// stream.
fn events_of(process: &ProcessTrace) -> impl Iterator<Item = ((u32, u32), Event)> {
    let of_device = process.allocations.iter().filter(|one| one.memory == MemoryKind::Device);
    let allocations = of_device.map(|one| {
        let event = match one.what {
            AllocationKind::Allocate => {
                Event::Allocate { device: one.device, address: one.address, bytes: one.bytes }
            }
            AllocationKind::Free => Event::Free { address: one.address },
        };
        (one.at.0, (one.context, one.stream), event)
    });
    let waits = process.activities.iter();
    let waits = waits.filter(|one| one.kind == ActivityKind::Sync(SyncKind::Stream));
    let waits = waits.map(|one| (one.end.0, (one.context, one.stream), Event::Synchronize));
    let mut events: Vec<_> = allocations.chain(waits).collect();
    events.sort_by_key(|(at, ..)| *at);
    events.into_iter().map(|(_, of, event)| (of, event))
}

/// The traces of the devices on which a process allocated.
fn by_device(process: &ProcessTrace) -> Result<impl Iterator<Item = (u32, Trace)>> {
    let device_of: HashMap<u32, u32> =
        process.contexts.iter().map(|one| (one.context, one.device)).collect();
    let mut devices = BTreeMap::<u32, OfDevice>::new();
    // An address means the same memory on all devices of a process.
    let mut live = HashMap::<u64, (u32, u32)>::new();
    for (of, event) in events_of(process) {
        match event {
            Event::Allocate { device, address, bytes } => {
                // Memory with this address is still live, so the trace of the program lacks the
                // free of this memory.
                if let Some((device, id)) = live.remove(&address) {
                    let OfDevice { trace, streams } = devices.entry(device).or_default();
                    let action = Action::Free { id, stream: streams.of(of)? };
                    trace.rows.push(TraceRow { thread: 0, action });
                }
                let OfDevice { trace, streams } = devices.entry(device).or_default();
                let (id, stream) = (trace.allocations, streams.of(of)?);
                live.insert(address, (device, id));
                trace.allocations += 1;
                let action = Action::Allocate { id, bytes, stream };
                trace.rows.push(TraceRow { thread: 0, action });
            }
            Event::Free { address } => {
                let Some((device, id)) = live.remove(&address) else { continue };
                let OfDevice { trace, streams } = devices.entry(device).or_default();
                let action = Action::Free { id, stream: streams.of(of)? };
                trace.rows.push(TraceRow { thread: 0, action });
            }
            Event::Synchronize => {
                let device = device_of.get(&of.0).and_then(|device| devices.get_mut(device));
                let Some(OfDevice { trace, streams }) = device else { continue };
                let action = Action::Synchronize { stream: streams.of(of)? };
                trace.rows.push(TraceRow { thread: 0, action });
            }
        }
    }
    Ok(devices.into_iter().map(|(device, OfDevice { mut trace, streams })| {
        let streams = u16::try_from(streams.0.len()).unwrap_or(u16::MAX);
        (trace.threads, trace.streams) = (1, streams);
        (device, trace)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::Nanos;
    use trijet::trace::activity::{Allocation, ContextInfo};
    use trijet_tools::allocations::{read_all, text_of};

    fn one(what: AllocationKind, address: u64, stream: u32, at: u64) -> Allocation {
        Allocation {
            what,
            memory: MemoryKind::Device,
            in_order: true,
            device: 0,
            context: 1,
            stream,
            correlation: 0,
            address,
            bytes: 4096,
            at: Nanos(at),
        }
    }

    #[test]
    fn allocations_become_rows_in_the_order_of_time() -> Result<()> {
        use AllocationKind::{Allocate, Free};
        let mut process = ProcessTrace { process: 7, ..ProcessTrace::default() };
        process.allocations = vec![
            one(Free, 0x100, 3, 30),
            one(Allocate, 0x100, 2, 10),
            one(Free, 0x900, 2, 5),
            one(Allocate, 0x100, 2, 40),
            one(Allocate, 0x100, 2, 50),
            Allocation { memory: MemoryKind::Pinned, ..one(Allocate, 0x200, 2, 45) },
        ];
        let traces = traces_of(&[process.clone(), ProcessTrace { process: 8, ..process }])?;
        let names: Vec<&str> = traces.iter().map(|one| one.device.as_str()).collect();
        assert_eq!(names, ["0 of process 7", "0 of process 8"]);
        for DeviceTrace { trace, .. } in &traces {
            assert_eq!((trace.allocations, trace.streams, trace.threads), (3, 2, 1));
            assert_eq!(trace.rows[0].action, Action::Allocate { id: 0, bytes: 4096, stream: 0 });
            let frees = trace.rows.iter().filter(|row| matches!(row.action, Action::Free { .. }));
            assert_eq!(
                frees.count(),
                2,
                "the missing free is added, and the free of an unknown address is left out"
            );
        }
        assert_eq!(read_all(text_of(&traces).as_bytes())?.devices, traces, "it is a trace");
        let error = traces_of(&[]).expect_err("nothing was allocated");
        assert!(error.to_string().contains("no device memory"), "{error}");
        Ok(())
    }

    /// In an earlier version, the peak of one device was the sum of the memory of two devices.
    #[test]
    fn each_device_of_a_process_has_a_trace_of_its_own() -> Result<()> {
        use AllocationKind::{Allocate, Free};
        let on = |device, context, one| Allocation { device, context, ..one };
        let context = |context, device| ContextInfo { context, device, null_stream: 0 };
        let mut process = ProcessTrace { process: 7, ..ProcessTrace::default() };
        process.contexts = vec![context(1, 0), context(2, 1)];
        process.allocations = vec![
            on(0, 1, one(Allocate, 0x100, 2, 10)),
            on(1, 2, one(Allocate, 0x200, 2, 20)),
            // During this free, the context of the other device was current.
            on(0, 1, one(Free, 0x200, 2, 30)),
        ];
        let traces = traces_of(&[process.clone()])?;
        let found: Vec<_> = traces
            .iter()
            .map(|one| (one.device.as_str(), one.trace.rows.len(), one.trace.peak()))
            .collect();
        assert_eq!(found, [("0", 1, 4096), ("1", 2, 4096)]);
        process.allocations.truncate(1);
        assert_eq!(traces_of(&[process])?[0].device, "", "one device needs no name");
        Ok(())
    }
}
