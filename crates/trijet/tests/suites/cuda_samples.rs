//! The programs of cuda-samples about streams, events and allocation in stream order.
//!
//! The programs compute little and rely on order. Here a kernel hashes, so a kernel that runs
//! twice, not at all or out of order leaves other words, and the results are compared word for
//! word.
//!
//! `streamOrderedAllocationP2P` needs two devices and `streamOrderedAllocationIPC` two processes:
//! they are left out.
//!
//! One difference, which is a fault of the sample:
//!
//! | program | cuda-samples expects | we say | law |
//! |---|---|---|---|
//! | `simpleMultiCopy`, built with `SIMULATE_IO` | the input of a slot is free before its event is waited for | a race with the upload | A16 |

use super::stage::{
    blocking_streams, host_reads, host_writes, read_at_end, sends, shared_of, streams, zeros_of,
};
use super::twins::{Case, Seen};
use crate::{mix, words};
use trijet::check::{Conflict, FindingClass};
use trijet::testing::MIX;
use trijet::{Buffer, Bytes, Device, Event, PinnedBuffer, Result, StreamOptions};

const RAW: FindingClass = FindingClass::Race(Conflict::Raw);
const WAR: FindingClass = FindingClass::Race(Conflict::War);

/// Page-locked, tracked memory with these words.
fn source(device: &Device, values: &[u64]) -> Result<PinnedBuffer<u64>> {
    let mut source = device.pinned::<u64>(values.len())?;
    source.write()?.copy_from_slice(values);
    Ok(source)
}

/// A tracked device buffer with these words, without pending work.
fn constant(device: &Device, values: &[u64]) -> Result<Buffer<u64>> {
    let stream = device.stream()?;
    let mut buffer = stream.alloc::<u64>(values.len())?;
    stream.copy(&source(device, values)?, &mut buffer)?;
    device.synchronize()?;
    Ok(buffer)
}

/// The words of `y` after hashing `x` into it, once for each salt.
fn mixed(salts: impl IntoIterator<Item = u64>, x: &[u64], mut y: Seen) -> Seen {
    salts.into_iter().for_each(|salt| mix(salt, x, &mut y));
    y
}

/// Splits a buffer into parts of one element each.
fn elements<S>(mut buffer: Buffer<u64, S>) -> Vec<Buffer<u64, S>> {
    let mut parts = Vec::new();
    while buffer.len() > 1 {
        let (first, rest) = buffer.split(1);
        parts.push(first);
        buffer = rest;
    }
    parts.push(buffer);
    parts
}

/// `simpleStreams`: a synchronous fill, kernels and downloads of parts in four streams, and an
/// event of the legacy stream that the host waits for. All order comes from the legacy stream (A13,
/// A14). The faulty twin's streams do not wait for the legacy stream.
pub(crate) fn an_event_of_the_legacy_stream_covers_four_blocking_streams() -> Case {
    const STREAMS: usize = 4;
    const ROUNDS: u64 = 3;
    Case {
        program: |device, twin| {
            let factor = constant(device, &words(1, 1))?;
            let make = if twin.has_edge() { blocking_streams } else { streams };
            let (s, legacy, stop) =
                (make(device, STREAMS)?, device.legacy_stream()?, device.event()?);
            let mut data = zeros_of::<u64>(device, twin, STREAMS)?;
            let mut landed = elements(shared_of::<u64>(device, twin, STREAMS)?);
            device.fill_now(&mut data, 0xff)?;
            let mut data = elements(data);
            for round in 0..ROUNDS {
                for (stream, part) in s.iter().zip(&mut data) {
                    stream.launch(&MIX, (round, &factor, part))?;
                }
                for ((stream, part), target) in s.iter().zip(&data).zip(&mut landed) {
                    stream.copy(part, target)?;
                }
            }
            stop.record(&legacy)?;
            stop.synchronize()?;
            let seen: Vec<Seen> =
                landed.iter().map(|part| host_reads(device, part)).collect::<Result<_>>()?;
            Ok(seen.concat())
        },
        sees: vec![mixed(0..ROUNDS, &words(1, 1), vec![u64::MAX])[0]; STREAMS],
        // The fill and the first kernel of each stream race, and so do the last download of each
        // stream and the host.
        faulty: Some(vec![RAW; 2 * STREAMS]),
    }
}

/// The slots of `simpleMultiCopy`.
struct Slots {
    input: Vec<PinnedBuffer<u64>>,
    uploaded: Vec<Buffer<u64>>,
    computed: Vec<Buffer<u64>>,
    output: Vec<PinnedBuffer<u64>>,
    done: Vec<Event>,
}

/// `simpleMultiCopy`: two slots in turn. The host writes the input of the next round into its slot
/// when the event of the slot is complete. The sample, like the faulty twin, writes it before it
/// waits.
pub(crate) fn a_slot_is_filled_again_after_its_event() -> Case {
    const SLOTS: usize = 2;
    const ROUNDS: u64 = 4;
    Case {
        program: |device, twin| {
            let s = blocking_streams(device, SLOTS)?;
            let mut slots = Slots {
                input: (0..2).map(|_| shared_of(device, twin, 1)).collect::<Result<_>>()?,
                uploaded: (0..2).map(|_| zeros_of(device, twin, 1)).collect::<Result<_>>()?,
                computed: (0..2).map(|_| zeros_of(device, twin, 1)).collect::<Result<_>>()?,
                output: (0..2).map(|_| shared_of(device, twin, 1)).collect::<Result<_>>()?,
                done: (0..2).map(|_| device.event()).collect::<Result<_>>()?,
            };
            for (event, stream) in slots.done.iter().zip(&s) {
                event.record(stream)?;
            }
            let (mut this, mut seen) = (0, Seen::new());
            for round in 0..ROUNDS {
                let next = (this + 1) % SLOTS;
                if round >= SLOTS as u64 {
                    seen.extend(host_reads(device, &slots.output[this])?);
                }
                if !twin.has_edge() {
                    host_writes(device, &mut slots.input[next], 10 + round)?;
                }
                slots.done[next].synchronize()?;
                if twin.has_edge() {
                    host_writes(device, &mut slots.input[next], 10 + round)?;
                }
                s[this].launch(&MIX, (1, &slots.uploaded[this], &mut slots.computed[this]))?;
                s[next].copy(&slots.input[next], &mut slots.uploaded[next])?;
                s[this].copy(&slots.computed[this], &mut slots.output[this])?;
                slots.done[this].record(&s[this])?;
                this = next;
            }
            device.synchronize()?;
            for output in &slots.output {
                seen.extend(host_reads(device, output)?);
            }
            Ok(seen)
        },
        sees: {
            let first = mixed([1], &[0], vec![0]);
            let second = mixed([1], &[10], vec![0]);
            let third = mixed([1], &[11], first.clone());
            let fourth = mixed([1], &[12], second.clone());
            [first, second, third, fourth].concat()
        },
        // Each slot is filled a second time.
        faulty: Some(vec![WAR; 2]),
    }
}

/// `simpleHyperQ`: pairs of kernels in streams, and a kernel of the legacy stream that reads the
/// result of each (A13). The faulty twin's streams do not wait for the legacy stream.
pub(crate) fn a_kernel_of_the_legacy_stream_comes_after_all_blocking_streams() -> Case {
    const STREAMS: usize = 3;
    Case {
        program: |device, twin| {
            let factor = constant(device, &words(2, 1))?;
            let make = if twin.has_edge() { blocking_streams } else { streams };
            let (s, legacy) = (make(device, STREAMS)?, device.legacy_stream()?);
            let mut clocks = zeros_of::<u64>(device, twin, 2 * STREAMS)?;
            let mut sum = zeros_of::<u64>(device, twin, 2 * STREAMS)?;
            for (stream, at) in s.iter().zip((0..).step_by(2)) {
                stream.launch(&MIX, (1, &factor, &mut clocks.slice_mut(at..=at)))?;
                stream.launch(&MIX, (2, &factor, &mut clocks.slice_mut(at + 1..at + 2)))?;
            }
            legacy.launch(&MIX, (3, &clocks, &mut sum))?;
            let mut landed = device.pinned::<u64>(2 * STREAMS)?;
            device.copy_now(&sum, &mut landed)?;
            Ok(landed.read()?.to_vec())
        },
        sees: {
            let of = |salt| mixed([salt], &words(2, 1), vec![0]);
            let clocks = [of(1), of(2)].concat().repeat(STREAMS);
            mixed([3], &clocks, vec![0; 2 * STREAMS])
        },
        faulty: Some(vec![RAW; 2 * STREAMS]),
    }
}

/// `streamOrderedAllocation`, its first half: allocations, copies, a kernel and frees in one
/// stream. The faulty twin, which is ours, downloads in another stream without a wait.
pub(crate) fn frees_may_be_enqueued_before_the_download_is_complete() -> Case {
    const LEN: usize = 3;
    Case {
        program: |device, twin| {
            let (s, other) = (device.stream()?, device.stream()?);
            let (a, b) = (source(device, &words(3, LEN))?, source(device, &words(4, LEN))?);
            let mut c = device.pinned::<u64>(LEN)?;
            let (mut on_a, mut on_b) = (s.alloc::<u64>(LEN)?, s.alloc::<u64>(LEN)?);
            let on_c = s.alloc::<u64>(LEN)?;
            s.synchronize()?;
            let mut on_c = twin.manual_unless_tracked(on_c);
            s.copy(&a, &mut on_a)?;
            s.copy(&b, &mut on_b)?;
            s.copy(&on_b, &mut on_c)?;
            s.launch(&MIX, (1, &on_a, &mut on_c))?;
            drop((on_a, on_b));
            let to = if twin.has_edge() { &s } else { &other };
            to.copy(&on_c, &mut c)?;
            drop(on_c);
            to.synchronize()?;
            Ok(c.read()?.to_vec())
        },
        sees: mixed([1], &words(3, LEN), words(4, LEN)),
        faulty: Some(vec![RAW]),
    }
}

/// `streamOrderedAllocation`, its second half: with a high release threshold, a program that waits
/// in each round takes no more memory from the system after the first round.
pub(crate) fn repeated_allocations_take_no_more_memory_after_the_first_round() -> Case {
    const LEN: usize = 1 << 18;
    Case {
        program: |device, _| {
            device.keep_memory(Bytes(u64::MAX))?;
            let (s, a) = (device.stream()?, source(device, &words(5, LEN))?);
            let mut c = device.pinned::<u64>(LEN)?;
            let mut reserved = Vec::new();
            for round in 0..4 {
                let (mut on_a, mut on_c) = (s.alloc::<u64>(LEN)?, s.alloc::<u64>(LEN)?);
                s.copy(&a, &mut on_a)?;
                s.fill_bytes(&mut on_c, 0)?;
                s.launch(&MIX, (round, &on_a, &mut on_c))?;
                drop(on_a);
                s.copy(&on_c, &mut c)?;
                drop(on_c);
                s.synchronize()?;
                reserved.push(device.memory_stats()?.reserved);
            }
            assert!(reserved.iter().all(|now| *now == reserved[0]), "{reserved:?}");
            let expected = mixed([3], &words(5, LEN), vec![0; 1 << 18]);
            assert_eq!(&*c.read()?, &expected);
            Ok(Seen::new())
        },
        sees: Seen::new(),
        faulty: None,
    }
}

/// `StreamPriorities`: a stream of high and one of low priority copy chunk by chunk.
pub(crate) fn streams_of_two_priorities_compute_apart() -> Case {
    const CHUNKS: usize = 4;
    Case {
        program: |device, twin| {
            let (low, high) = (
                device.stream_with(StreamOptions::new().priority(0))?,
                device.stream_with(StreamOptions::new().priority(-1))?,
            );
            let x = constant(device, &words(6, CHUNKS))?;
            let mut to_low = zeros_of::<u64>(device, twin, CHUNKS)?;
            let mut to_high = zeros_of::<u64>(device, twin, CHUNKS)?;
            let (end_low, end_high) = (device.event()?, device.event()?);
            for at in 0..CHUNKS {
                low.launch(&MIX, (1, x.slice(at..=at), &mut to_low.slice_mut(at..=at)))?;
                high.launch(&MIX, (2, x.slice(at..=at), &mut to_high.slice_mut(at..=at)))?;
            }
            end_low.record(&low)?;
            end_high.record(&high)?;
            end_low.synchronize()?;
            end_high.synchronize()?;
            Ok([sends(device, &to_low)?, sends(device, &to_high)?].concat())
        },
        sees: {
            let of = |salt| mixed([salt], &words(6, CHUNKS), vec![0; 4]);
            [of(1), of(2)].concat()
        },
        faulty: None,
    }
}

/// `StreamPriorities`, with an order that it does not rely on (A43): the stream of high priority
/// gets its work first, and the other one reads the result.
pub(crate) fn a_priority_is_no_order() -> Case {
    Case {
        program: |device, twin| {
            let (low, high) = (
                device.stream_with(StreamOptions::new().priority(0))?,
                device.stream_with(StreamOptions::new().priority(-1))?,
            );
            let x = constant(device, &words(7, 1))?;
            let mut first = zeros_of::<u64>(device, twin, 1)?;
            let mut second = zeros_of::<u64>(device, twin, 1)?;
            let event = device.event()?;
            high.launch(&MIX, (1, &x, &mut first))?;
            if twin.has_edge() {
                event.record(&high)?;
                low.wait(&event)?;
            }
            low.launch(&MIX, (2, &first, &mut second))?;
            read_at_end(device, &second)
        },
        sees: mixed([2], &mixed([1], &words(7, 1), vec![0]), vec![0]),
        faulty: Some(vec![RAW]),
    }
}
