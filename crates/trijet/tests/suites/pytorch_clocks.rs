//! The clocks of PyTorch's CUDA sanitizer: the fifteen cases of its event handler.
//!
//! A tensor is a buffer of one word. Streams are non-blocking, as in PyTorch. A kernel that reads a
//! tensor writes the read value to a buffer that only its stream uses. A kernel that reads and
//! writes hashes, so the result shows every order.
//!
//! `test_deleted_record` loses a record in three ways. Only one of them can be written here: the
//! event is dropped, and another event is waited for. A dropped event cannot be named, and no two
//! live events share a handle.

use super::stage::{read_at_end, streams, zeros_of};
use super::twins::{Case, Seen, Twin};
use crate::mix;
use trijet::check::{Conflict, FindingClass};
use trijet::testing::MIX;
use trijet::{Buffer, Device, Event, Result, Stream};

const RAW: FindingClass = FindingClass::Race(Conflict::Raw);
const WAR: FindingClass = FindingClass::Race(Conflict::War);

/// The word that a kernel hashes into a tensor.
const FACTOR: u64 = 0x0101_0101_0101_0101;

/// The words that reading kernels have seen.
#[derive(Default)]
struct Sinks(Vec<Buffer<u64>>);

impl Sinks {
    /// Enqueues a kernel that reads `tensor`.
    #[track_caller]
    fn read(&mut self, stream: &Stream, tensor: &Buffer<u64>) -> Result<()> {
        let mut sink = stream.alloc::<u64>(1)?;
        stream.fill_bytes(&mut sink, 0)?;
        stream.launch(&MIX, (0, tensor, &mut sink))?;
        self.0.push(sink);
        Ok(())
    }

    /// The words that were read, then the words of `tensors`.
    fn collect(&self, device: &Device, tensors: &[Buffer<u64>]) -> Result<Seen> {
        let all = self.0.iter().chain(tensors);
        let all: Vec<Seen> = all.map(|one| read_at_end(device, one)).collect::<Result<_>>()?;
        Ok(all.concat())
    }
}

/// Enqueues a kernel that reads and writes `tensor`.
#[track_caller]
fn changes(
    stream: &Stream,
    salt: u64,
    factor: &Buffer<u64>,
    tensor: &mut Buffer<u64>,
) -> Result<()> {
    stream.launch(&MIX, (salt, factor, tensor))
}

fn factor(device: &Device) -> Result<Buffer<u64>> {
    let stream = device.stream()?;
    let mut factor = stream.alloc::<u64>(1)?;
    stream.fill_bytes(&mut factor, 1)?;
    device.synchronize()?;
    Ok(factor)
}

fn tensor(device: &Device, twin: Twin) -> Result<Buffer<u64>> {
    zeros_of(device, twin, 1)
}

/// Makes `waiter` wait for the work that `stream` holds.
fn orders(device: &Device, stream: &Stream, waiter: &Stream) -> Result<()> {
    let event = device.event()?;
    event.record(stream)?;
    waiter.wait(&event)
}

/// The value that a reader of a tensor with this value sees.
fn read_of(value: u64) -> u64 {
    let mut sink = [0];
    mix(0, &[value], &mut sink);
    sink[0]
}

/// The value of a tensor after these changes.
fn after(salts: &[u64]) -> u64 {
    let mut tensor = [0];
    salts.iter().for_each(|salt| mix(*salt, &[FACTOR], &mut tensor));
    tensor[0]
}

/// `test_empty_kernel_launch`.
pub(crate) fn a_launch_over_nothing_conflicts_with_nothing() -> Case {
    Case {
        program: |device, twin| {
            let s = streams(device, 2)?;
            let (none, mut some) = (zeros_of::<u64>(device, twin, 0)?, tensor(device, twin)?);
            let mut nothing = zeros_of::<u64>(device, twin, 0)?;
            changes(&s[0], 1, &factor(device)?, &mut some)?;
            changes(&s[1], 2, &none, &mut nothing)?;
            read_at_end(device, &some)
        },
        sees: vec![after(&[1])],
        faulty: None,
    }
}

/// `test_simple_passing`.
pub(crate) fn two_streams_may_read_one_tensor() -> Case {
    Case {
        program: |device, twin| {
            let (s, x, mut sinks) = (streams(device, 2)?, tensor(device, twin)?, Sinks::default());
            sinks.read(&s[0], &x)?;
            sinks.read(&s[1], &x)?;
            sinks.collect(device, &[])
        },
        sees: vec![read_of(0); 2],
        faulty: None,
    }
}

/// `test_simple_error`, `test_simple_sync`.
pub(crate) fn a_writer_waits_for_the_reader_of_another_stream() -> Case {
    Case {
        program: |device, twin| {
            let (s, mut x) = (streams(device, 2)?, tensor(device, twin)?);
            let (factor, mut sinks) = (factor(device)?, Sinks::default());
            sinks.read(&s[0], &x)?;
            if twin.has_edge() {
                orders(device, &s[0], &s[1])?;
            }
            changes(&s[1], 1, &factor, &mut x)?;
            sinks.collect(device, &[x])
        },
        sees: vec![read_of(0), after(&[1])],
        faulty: Some(vec![WAR]),
    }
}

/// `test_reads_check_last_write`: the first reader does not stand for the second.
pub(crate) fn each_reader_waits_for_the_last_write() -> Case {
    Case {
        program: |device, twin| {
            let (s, mut x) = (streams(device, 3)?, tensor(device, twin)?);
            let (factor, mut sinks) = (factor(device)?, Sinks::default());
            let written = device.event()?;
            changes(&s[0], 1, &factor, &mut x)?;
            written.record(&s[0])?;
            s[1].wait(&written)?;
            sinks.read(&s[1], &x)?;
            if twin.has_edge() {
                s[2].wait(&written)?;
            }
            sinks.read(&s[2], &x)?;
            sinks.collect(device, &[])
        },
        sees: vec![read_of(after(&[1])); 2],
        faulty: Some(vec![RAW]),
    }
}

/// `test_branch_sync`.
pub(crate) fn a_reader_that_writes_waits_for_the_other_readers() -> Case {
    Case {
        program: |device, twin| {
            let (s, mut x) = (streams(device, 3)?, tensor(device, twin)?);
            let (factor, mut sinks) = (factor(device)?, Sinks::default());
            let written = device.event()?;
            changes(&s[0], 1, &factor, &mut x)?;
            written.record(&s[0])?;
            s[1].wait(&written)?;
            s[2].wait(&written)?;
            sinks.read(&s[1], &x)?;
            sinks.read(&s[2], &x)?;
            if twin.has_edge() {
                orders(device, &s[2], &s[1])?;
            }
            changes(&s[1], 2, &factor, &mut x)?;
            sinks.collect(device, &[x])
        },
        sees: vec![read_of(after(&[1])), read_of(after(&[1])), after(&[1, 2])],
        faulty: Some(vec![WAR]),
    }
}

/// `test_chain_sync`. The faulty twin, which is ours, lacks one link.
pub(crate) fn order_goes_through_a_chain_of_streams() -> Case {
    Case {
        program: |device, twin| {
            const LINKS: usize = 10;
            let (s, mut x) = (streams(device, LINKS + 1)?, tensor(device, twin)?);
            let (factor, mut sinks) = (factor(device)?, Sinks::default());
            sinks.read(&s[0], &x)?;
            for link in 0..LINKS {
                if twin.has_edge() || link != LINKS / 2 {
                    orders(device, &s[link], &s[link + 1])?;
                }
            }
            changes(&s[LINKS], 1, &factor, &mut x)?;
            sinks.collect(device, &[x])
        },
        sees: vec![read_of(0), after(&[1])],
        faulty: Some(vec![WAR]),
    }
}

/// `test_expired_record`: the second reader comes after the record.
pub(crate) fn a_record_does_not_stand_for_later_readers() -> Case {
    Case {
        program: |device, twin| {
            let (s, mut x) = (streams(device, 2)?, tensor(device, twin)?);
            let (factor, mut sinks) = (factor(device)?, Sinks::default());
            let event = device.event()?;
            sinks.read(&s[0], &x)?;
            event.record(&s[0])?;
            sinks.read(&s[0], &x)?;
            if twin.has_edge() {
                event.record(&s[0])?;
            }
            s[1].wait(&event)?;
            changes(&s[1], 1, &factor, &mut x)?;
            sinks.collect(device, &[x])
        },
        sees: vec![read_of(0), read_of(0), after(&[1])],
        faulty: Some(vec![WAR]),
    }
}

/// `test_deleted_record`: the record is lost with its event, unless the wait was issued before
/// (A12).
pub(crate) fn a_new_event_does_not_stand_for_the_record_of_a_dropped_one() -> Case {
    Case {
        program: |device, twin| {
            let (s, mut x) = (streams(device, 2)?, tensor(device, twin)?);
            let (factor, mut sinks) = (factor(device)?, Sinks::default());
            let event = device.event()?;
            sinks.read(&s[0], &x)?;
            event.record(&s[0])?;
            if twin.has_edge() {
                s[1].wait(&event)?;
            }
            drop(event);
            s[1].wait(&device.event()?)?;
            changes(&s[1], 1, &factor, &mut x)?;
            sinks.collect(device, &[x])
        },
        sees: vec![read_of(0), after(&[1])],
        faulty: Some(vec![WAR, FindingClass::WaitUnrecorded]),
    }
}

/// `test_all_reads_checked_failing`, `test_all_reads_checked_passing`. The faulty twin waits for
/// nine of ten readers.
pub(crate) fn a_writer_waits_for_all_readers() -> Case {
    Case {
        program: |device, twin| {
            const READERS: usize = 10;
            let (s, mut x) = (streams(device, READERS + 1)?, tensor(device, twin)?);
            let (factor, mut sinks) = (factor(device)?, Sinks::default());
            let events: Vec<Event> = (0..READERS).map(|_| device.event()).collect::<Result<_>>()?;
            for (reader, event) in s[1..].iter().zip(&events) {
                sinks.read(reader, &x)?;
                event.record(reader)?;
            }
            let waits = if twin.has_edge() { READERS } else { READERS - 1 };
            events[..waits].iter().try_for_each(|event| s[0].wait(event))?;
            changes(&s[0], 1, &factor, &mut x)?;
            sinks.collect(device, &[x])
        },
        sees: [vec![read_of(0); 10], vec![after(&[1])]].concat(),
        faulty: Some(vec![WAR]),
    }
}

/// `test_multiple_errors`: every tensor has its finding.
pub(crate) fn each_tensor_of_two_streams_has_its_own_finding() -> Case {
    Case {
        program: |device, twin| {
            let (s, factor) = (streams(device, 2)?, factor(device)?);
            let mut tensors: Vec<_> =
                (0..10).map(|_| tensor(device, twin)).collect::<Result<_>>()?;
            for x in &mut tensors {
                changes(&s[0], 1, &factor, x)?;
            }
            if twin.has_edge() {
                orders(device, &s[0], &s[1])?;
            }
            for x in &mut tensors {
                changes(&s[1], 2, &factor, x)?;
            }
            Sinks::default().collect(device, &tensors)
        },
        sees: vec![after(&[1, 2]); 10],
        faulty: Some(vec![RAW; 10]),
    }
}

/// `test_correct_state_merging`. After a wait, a stream follows its earlier work and the work that
/// it waited for. The faulty twin, which is ours, lacks the last wait.
pub(crate) fn a_wait_adds_to_the_earlier_order_of_its_stream() -> Case {
    Case {
        program: |device, twin| {
            let (s, factor) = (streams(device, 2)?, factor(device)?);
            let (mut x, mut y) = (tensor(device, twin)?, tensor(device, twin)?);
            let (first, second, third) = (device.event()?, device.event()?, device.event()?);
            changes(&s[0], 1, &factor, &mut x)?;
            changes(&s[1], 2, &factor, &mut y)?;
            first.record(&s[0])?;
            second.record(&s[1])?;
            changes(&s[0], 3, &factor, &mut x)?;
            changes(&s[1], 4, &factor, &mut y)?;
            s[1].wait(&first)?;
            s[0].wait(&second)?;
            third.record(&s[1])?;
            if twin.has_edge() {
                s[0].wait(&third)?;
            }
            changes(&s[0], 5, &factor, &mut x)?;
            changes(&s[0], 6, &factor, &mut y)?;
            Sinks::default().collect(device, &[x, y])
        },
        sees: vec![after(&[1, 3, 5]), after(&[2, 4, 6])],
        faulty: Some(vec![RAW]),
    }
}

/// `test_record_override`.
pub(crate) fn a_second_record_replaces_the_first() -> Case {
    Case {
        program: |device, twin| {
            let (s, mut x, y) = (streams(device, 3)?, tensor(device, twin)?, tensor(device, twin)?);
            let (factor, mut sinks) = (factor(device)?, Sinks::default());
            let (event, own) = (device.event()?, device.event()?);
            sinks.read(&s[0], &x)?;
            sinks.read(&s[1], &y)?;
            event.record(&s[0])?;
            if twin.has_edge() {
                own.record(&s[1])?
            } else {
                event.record(&s[1])?
            }
            s[2].wait(&event)?;
            changes(&s[2], 1, &factor, &mut x)?;
            sinks.collect(device, &[x])
        },
        sees: vec![read_of(0), read_of(0), after(&[1])],
        faulty: Some(vec![WAR]),
    }
}

/// `test_multiple_wait`. The faulty twin, which is ours, lacks the second wait.
pub(crate) fn one_event_is_waited_for_by_two_streams() -> Case {
    Case {
        program: |device, twin| {
            let (s, mut x) = (streams(device, 3)?, tensor(device, twin)?);
            let (factor, mut sinks) = (factor(device)?, Sinks::default());
            let event = device.event()?;
            changes(&s[0], 1, &factor, &mut x)?;
            event.record(&s[0])?;
            s[1].wait(&event)?;
            if twin.has_edge() {
                s[2].wait(&event)?;
            }
            sinks.read(&s[1], &x)?;
            sinks.read(&s[2], &x)?;
            sinks.collect(device, &[])
        },
        sees: vec![read_of(after(&[1])); 2],
        faulty: Some(vec![RAW]),
    }
}
