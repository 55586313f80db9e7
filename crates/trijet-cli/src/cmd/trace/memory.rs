//! The allocations of a traced program, as a trace that `trijet replay` reads.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use trijet::trace::activity::{ActivityKind, AllocationKind, Memory, ProcessTrace, SyncKind};
use trijet::{Error, ErrorKind, Result};
use trijet_bench::allocations::{Action, Row, Trace};

/// A call of the program.
enum Event {
    Allocate { address: u64, bytes: u64 },
    Free { address: u64 },
    Synchronize,
}

/// The numbers that a trace has for names of the program.
#[derive(Default)]
struct Numbers<K>(HashMap<K, u16>);

impl<K: std::hash::Hash + Eq> Numbers<K> {
    fn of(&mut self, key: K, what: &str) -> Result<u16> {
        let next = u16::try_from(self.0.len()).unwrap_or(u16::MAX);
        if next >= 256 && !self.0.contains_key(&key) {
            let cause = format!("the program has more than 256 {what}");
            return Err(Error::new(ErrorKind::InvalidValue, "save the allocations", cause));
        }
        Ok(*self.0.entry(key).or_insert(next))
    }
}

/// The allocations of device memory by all processes, and the waits of the host for streams. A free of memory that was
/// allocated before the trace began is left out.
///
/// # Errors
/// `InvalidValue` if there are none, or if there are more processes or streams than a trace can have.
pub(super) fn trace_of(processes: &[ProcessTrace]) -> Result<Trace> {
    let mut events: Vec<(u64, u32, (u32, u32), Event)> = Vec::new();
    for process in processes {
        let of_device = process.allocations.iter().filter(|one| one.memory == Memory::Device);
        events.extend(of_device.map(|one| {
            let event = match one.what {
                AllocationKind::Allocate => {
                    Event::Allocate { address: one.address, bytes: one.bytes }
                }
                AllocationKind::Free => Event::Free { address: one.address },
            };
            (one.at.0, process.process, (one.context, one.stream), event)
        }));
        let waits = process.activities.iter();
        let waits = waits.filter(|one| one.kind == ActivityKind::Sync(SyncKind::Stream));
        events.extend(waits.map(|one| {
            (one.end.0, process.process, (one.context, one.stream), Event::Synchronize)
        }));
    }
    events.sort_by_key(|event| event.0);
    let (mut trace, mut live) = (Trace::default(), HashMap::<(u32, u64), u32>::new());
    let (mut threads, mut streams) = (Numbers::default(), Numbers::default());
    for (_, process, of, event) in events {
        let thread = threads.of(process, "processes")?;
        let mut stream = || streams.of((process, of), "streams");
        let action = match event {
            Event::Allocate { address, bytes } => {
                let (id, stream) = (trace.allocations, stream()?);
                if let Some(id) = live.insert((process, address), id) {
                    // Its free is missing in the trace.
                    trace.rows.push(Row { thread, action: Action::Free { id, stream } });
                }
                trace.allocations += 1;
                Action::Allocate { id, bytes, stream }
            }
            Event::Free { address } => {
                let Some(id) = live.remove(&(process, address)) else { continue };
                Action::Free { id, stream: stream()? }
            }
            Event::Synchronize => Action::Synchronize { stream: stream()? },
        };
        trace.rows.push(Row { thread, action });
    }
    let count = |numbers: usize| u16::try_from(numbers).unwrap_or(u16::MAX);
    (trace.threads, trace.streams) = (count(threads.0.len()), count(streams.0.len()));
    if trace.allocations == 0 {
        let cause = "the program allocated no device memory while it was traced";
        return Err(Error::new(ErrorKind::InvalidValue, "save the allocations", cause));
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::Nanos;
    use trijet::trace::activity::Allocation;

    fn one(what: AllocationKind, address: u64, stream: u32, at: u64) -> Allocation {
        Allocation {
            what,
            memory: Memory::Device,
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
            Allocation { memory: Memory::Pinned, ..one(Allocate, 0x200, 2, 45) },
        ];
        let trace = trace_of(&[process.clone(), ProcessTrace { process: 8, ..process }])?;
        assert_eq!((trace.allocations, trace.streams, trace.threads), (6, 4, 2));
        let read = Trace::read(trace.text().as_bytes())?;
        assert_eq!(read.rows.len(), trace.rows.len(), "it is a trace");
        assert_eq!(trace.rows[0].action, Action::Allocate { id: 0, bytes: 4096, stream: 0 });
        let frees = trace.rows.iter().filter(|row| matches!(row.action, Action::Free { .. }));
        assert_eq!(frees.count(), 4, "one free of each process was lost, and one was of nothing");
        let error = trace_of(&[]).expect_err("nothing was allocated");
        assert!(error.to_string().contains("no device memory"), "{error}");
        Ok(())
    }
}
