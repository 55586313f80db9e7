//! Orders that ROCm's hip-tests (`catch/unit/stream`, `catch/unit/event`) and chipStar
//! (`tests/runtime`) state, and that `tests/cases` do not test.
//!
//! `tests/cases` test waits across streams, records before later work, host functions between
//! operations, queries of pending work, events without a record, and elapsed times
//! (`Unit_hipStreamWaitEvent_DifferentStreams`, `Unit_hipLaunchHostFunc_*`,
//! `Unit_hipStreamQuery_*`, `Unit_hipEventQuery_DifferentDevice`,
//! `Unit_hipEventSynchronize_NoEventRecord_Positive`, `TestHipLaunchHostFuncMultiStream`,
//! `TestStreamWaitEventOrdering`, `TestEventResetWarnFlood`, `TestRecordEventBlocking`). This
//! library does not offer captures, word values, masks of processors, and events that processes
//! share.
//!
//! Differences, which litmus programs have to settle:
//!
//! | program | it expects | we say | law |
//! |---|---|---|---|
//! | chipStar, `TestDefaultStreamImplicitSync` | a wait for a blocking stream without operations waits for the legacy stream | a race: it waits for the stream's own work | A9, A13 |
//! | chipStar, `TestMemcpyAsyncPageable` | a download to pageable memory is done at its return | a race: it may go on | A17 |

use super::stage::{
    LEN, blocking_streams, host_reads, ordinary, read_at_end, reads, sends, shared, values, writes,
    zeros, zeros_of,
};
use super::twins::Case;
use crate::mix;
use trijet::StreamOptions;
use trijet::check::{Conflict, FindingClass};
use trijet::testing::{self, MIX};

const RAW: FindingClass = FindingClass::Race(Conflict::Raw);

/// `TestDefaultStreamImplicitSync`: the faulty twin is chipStar's program. See the header.
pub(crate) fn a_wait_for_an_idle_blocking_stream_does_not_cover_the_legacy_stream() -> Case {
    Case {
        program: |device, twin| {
            let (stream, legacy) =
                (device.stream_with(StreamOptions::new().blocking())?, device.legacy_stream()?);
            let mut flag = shared(device, twin)?;
            writes(&legacy, flag.view_mut(), 1)?;
            if twin.has_edge() {
                legacy.synchronize()?
            } else {
                stream.synchronize()?
            }
            host_reads(device, &flag)
        },
        sees: vec![1, 1],
        faulty: Some(vec![RAW]),
    }
}

/// `TestEventRecordCircularDep`: two streams wait for each other in turn, and an event is recorded
/// again. The faulty twin, which is ours, lacks the second wait.
pub(crate) fn two_streams_may_wait_for_each_others_earlier_work() -> Case {
    Case {
        program: |device, twin| {
            let s = blocking_streams(device, 2)?;
            let (there, back) = (device.event()?, device.event()?);
            let (mut data, mut result) = (zeros(device, twin)?, zeros(device, twin)?);
            writes(&s[0], data.view_mut(), 1)?;
            there.record(&s[0])?;
            s[1].wait(&there)?;
            writes(&s[1], data.view_mut(), 2)?;
            back.record(&s[1])?;
            if twin.has_edge() {
                s[0].wait(&back)?;
            }
            there.record(&s[0])?;
            reads(&s[0], data.view(), result.view_mut())?;
            read_at_end(device, &result)
        },
        sees: vec![2, 2],
        faulty: Some(vec![RAW]),
    }
}

/// `TestMemcpyAsyncPageable`: the faulty twin is chipStar's program. See the header.
pub(crate) fn a_pageable_download_is_waited_for() -> Case {
    Case {
        program: |device, twin| {
            let s = blocking_streams(device, 2)?;
            let event = device.event()?;
            let (mut first, mut second) = (zeros(device, twin)?, zeros(device, twin)?);
            let source = ordinary(device, LEN, 5)?;
            let mut landed = twin.manual_unless_tracked(ordinary(device, LEN, 0)?);
            s[0].copy(&source, &mut first)?;
            event.record(&s[0])?;
            s[1].wait(&event)?;
            reads(&s[1], first.view(), second.view_mut())?;
            s[1].copy(&second, &mut landed)?;
            event.record(&s[1])?;
            s[1].wait(&event)?;
            if twin.has_edge() {
                event.synchronize()?;
            }
            host_reads(device, &landed)
        },
        sees: vec![5, 5],
        faulty: Some(vec![RAW]),
    }
}

/// `Unit_hipStreamWaitEvent_Default`: a stream may wait for its own event.
pub(crate) fn a_stream_that_waits_for_itself_goes_on() -> Case {
    Case {
        program: |device, twin| {
            let (stream, event) =
                (device.stream_with(StreamOptions::new().blocking())?, device.event()?);
            let mut data = shared(device, twin)?;
            writes(&stream, data.view_mut(), 1)?;
            event.record(&stream)?;
            stream.wait(&event)?;
            writes(&stream, data.view_mut(), 2)?;
            stream.synchronize()?;
            host_reads(device, &data)
        },
        sees: vec![2, 2],
        faulty: None,
    }
}

/// `Unit_hipStreamSynchronize_NullStreamSynchronization`: ten concurrent streams. One stream of the
/// faulty twin does not wait for the legacy stream.
pub(crate) fn a_wait_for_the_legacy_stream_covers_ten_streams() -> Case {
    const STREAMS: usize = 10;
    Case {
        program: |device, twin| {
            let mut s = blocking_streams(device, 10)?;
            if !twin.has_edge() {
                s[7] = device.stream()?;
            }
            let mut data = zeros_of::<u32>(device, twin, STREAMS)?;
            for (at, stream) in (0..).zip(&s) {
                writes(stream, data.slice_mut(at..=at), 9)?;
            }
            device.legacy_stream()?.synchronize()?;
            sends(device, &data)
        },
        sees: vec![9; 10],
        faulty: Some(vec![RAW]),
    }
}

/// `Unit_hipStreamSynchronize_NullStreamAndStreamPerThread`: the per-thread stream is a blocking
/// one (A15).
pub(crate) fn a_wait_for_the_legacy_stream_covers_the_per_thread_stream() -> Case {
    Case {
        program: |device, twin| {
            let (own, legacy) = (device.per_thread_stream()?, device.legacy_stream()?);
            let (mut data, mut other) = (shared(device, twin)?, zeros(device, twin)?);
            writes(&own, data.view_mut(), 1)?;
            writes(&legacy, other.view_mut(), 2)?;
            if twin.has_edge() {
                legacy.synchronize()?;
            }
            host_reads(device, &data)
        },
        sees: vec![1, 1],
        faulty: Some(vec![RAW]),
    }
}

/// `Unit_hipStreamDestroy_WithPendingWork`: the legacy stream waits for the work of a dropped
/// stream (A12). The faulty twin's stream is non-blocking.
pub(crate) fn a_wait_for_the_legacy_stream_covers_a_dropped_blocking_stream() -> Case {
    Case {
        program: |device, twin| {
            let blocking = twin.has_edge();
            let stream = if blocking {
                device.stream_with(StreamOptions::new().blocking())?
            } else {
                device.stream()?
            };
            let mut data = shared(device, twin)?;
            writes(&stream, data.view_mut(), 1)?;
            drop(stream);
            device.legacy_stream()?.synchronize()?;
            host_reads(device, &data)
        },
        sees: vec![1, 1],
        faulty: Some(vec![RAW]),
    }
}

/// `Unit_hipEventDestroy_Unfinished`, `Unit_hipEventDestroy_WithWaitingStream`: a wait stays when
/// its event is dropped (A12). The faulty twin does not wait.
pub(crate) fn a_wait_outlives_its_event() -> Case {
    Case {
        program: |device, twin| {
            let s = blocking_streams(device, 2)?;
            let event = device.event()?;
            let (mut data, mut result) = (zeros(device, twin)?, zeros(device, twin)?);
            writes(&s[0], data.view_mut(), 1)?;
            event.record(&s[0])?;
            if twin.has_edge() {
                s[1].wait(&event)?;
            }
            drop(event);
            reads(&s[1], data.view(), result.view_mut())?;
            read_at_end(device, &result)
        },
        sees: vec![1, 1],
        faulty: Some(vec![RAW]),
    }
}

/// `Unit_hipMemcpyAsync_H2H-H2D-D2H-H2PinMem` of `hipStreamLegacy`: synchronous copies follow each
/// other, whatever their memory is. The host does not wait for a copy within the device (A18): the
/// faulty twin reads the target in another stream.
pub(crate) fn synchronous_copies_follow_each_other() -> Case {
    Case {
        program: |device, twin| {
            let first = ordinary(device, LEN, 6)?;
            let (mut second, mut third) = (ordinary(device, LEN, 0)?, shared(device, twin)?);
            let (mut there, mut beside) = (zeros(device, twin)?, zeros(device, twin)?);
            device.copy_now(&first, &mut second)?;
            device.copy_now(&second, &mut third)?;
            device.copy_now(&third, &mut there)?;
            device.copy_now(&there, &mut beside)?;
            if twin.has_edge() {
                let mut landed = ordinary(device, LEN, 0)?;
                device.copy_now(&beside, &mut landed)?;
                values(&landed)
            } else {
                sends(device, &beside)
            }
        },
        sees: vec![6, 6],
        faulty: Some(vec![RAW]),
    }
}

/// `Unit_hipMultiStream_sameDevice`: streams are opened and dropped, each with a kernel that reads
/// and writes, and with a kernel of the legacy stream after it. The faulty twin's streams do not
/// wait for that kernel.
pub(crate) fn the_legacy_stream_orders_streams_that_come_and_go() -> Case {
    const STREAMS: u64 = 4;
    Case {
        program: |device, twin| {
            let (mut data, mut other) = (zeros_of(device, twin, 1)?, zeros_of(device, twin, 1)?);
            let (legacy, mut factor) = (device.legacy_stream()?, device.pinned::<u64>(1)?);
            factor.write()?.fill(5);
            for salt in 0..STREAMS {
                let blocking = twin.has_edge();
                let stream = if blocking {
                    device.stream_with(StreamOptions::new().blocking())?
                } else {
                    device.stream()?
                };
                stream.launch(&MIX, (salt, &factor, &mut data))?;
                legacy.launch(&MIX, (salt, &factor, &mut other))?;
            }
            let landed = device.pinned::<u64>(2)?;
            let (mut left, mut right) = landed.split(1);
            device.copy_now(&data, &mut left)?;
            device.copy_now(&other, &mut right)?;
            Ok([values(&left)?, values(&right)?].concat())
        },
        sees: {
            let mut data = [0];
            (0..STREAMS).for_each(|salt| mix(salt, &[5], &mut data));
            data.repeat(2)
        },
        // Each kernel races with the kernel of the stream before, and the last kernel with the
        // synchronous copy.
        faulty: Some(vec![RAW; 4]),
    }
}

/// `Unit_hipStreamAddCallback_MultipleThreads`: work that several threads enqueue in one stream
/// follows the earlier work of the stream (A1). In the faulty twin, which is ours, each thread has
/// its own stream.
pub(crate) fn a_stream_is_in_order_whichever_threads_use_it() -> Case {
    Case {
        program: |device, twin| {
            let stream = device.stream()?;
            let own = [device.stream()?, device.stream()?];
            let mut data = zeros(device, twin)?;
            let (mut left, mut right) = (device.pinned::<u32>(LEN)?, device.pinned::<u32>(LEN)?);
            writes(&stream, data.view_mut(), 4)?;
            let of = |thread: usize| if twin.has_edge() { &stream } else { &own[thread] };
            testing::script(
                device,
                vec![
                    Box::new(|| of(0).copy(&data, &mut left).expect("nothing is refused")),
                    Box::new(|| of(1).copy(&data, &mut right).expect("nothing is refused")),
                ],
            );
            device.synchronize()?;
            Ok([values(&left)?, values(&right)?].concat())
        },
        sees: vec![4; 4],
        faulty: Some(vec![RAW; 2]),
    }
}
