//! cusan: programs whose host thread reads the output of a kernel.
//!
//! Page-locked memory, which kernels and the host reach as well, stands for managed memory; the
//! order is the same. The type around a pointer makes no difference, because a launch declares the
//! memory that it uses: `14_cuda_functor` (captured by a lambda), `34_negative_array` (with a
//! negative index) and `35_struct_null` (in a structure with a null pointer) are `02_event` with
//! their own waits. `18_cuda_event_with_flags_query_busy_loop` differs from
//! `18_cuda_event_query_busy_loop` only in the way in which a thread blocks, which does not change
//! the order.

use super::stage::{host_reads, poll_until_ready, shared, writes, zeros};
use super::twins::Case;
use trijet::StreamOptions;
use trijet::check::{Conflict, FindingClass};

const RAW: FindingClass = FindingClass::Race(Conflict::Raw);

/// `02_event`, `14_cuda_functor`: a kernel of the legacy stream, and an event after it.
pub(crate) fn a_record_does_not_make_the_host_wait() -> Case {
    Case {
        program: |device, twin| {
            let (legacy, event) = (device.legacy_stream()?, device.event()?);
            let mut data = shared(device, twin)?;
            writes(&legacy, data.view_mut(), 7)?;
            event.record(&legacy)?;
            if twin.has_edge() {
                event.synchronize()?;
            }
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `34_negative_array`, `35_struct_null`.
pub(crate) fn a_launch_in_the_legacy_stream_is_not_done_at_its_return() -> Case {
    Case {
        program: |device, twin| {
            let legacy = device.legacy_stream()?;
            let mut data = shared(device, twin)?;
            writes(&legacy, data.view_mut(), 7)?;
            if twin.has_edge() {
                device.synchronize()?;
            }
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `17_cuda_stream_query_busy_loop`.
pub(crate) fn polling_a_stream_until_it_is_ready_is_a_wait() -> Case {
    Case {
        program: |device, twin| {
            let stream = device.stream_with(StreamOptions::new().blocking())?;
            let mut data = shared(device, twin)?;
            writes(&stream, data.view_mut(), 7)?;
            if twin.has_edge() {
                poll_until_ready(device, || stream.query(), || stream.synchronize())?;
            }
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `18_cuda_event_query_busy_loop`, `18_cuda_event_with_flags_query_busy_loop`.
pub(crate) fn polling_an_event_until_it_is_ready_is_a_wait() -> Case {
    Case {
        program: |device, twin| {
            let (stream, event) =
                (device.stream_with(StreamOptions::new().blocking())?, device.event()?);
            let mut data = shared(device, twin)?;
            writes(&stream, data.view_mut(), 7)?;
            event.record(&stream)?;
            if twin.has_edge() {
                poll_until_ready(device, || event.query(), || event.synchronize())?;
            }
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `15_cuda_memset_sync`: the fill is an operation of the legacy stream, so the second stream
/// follows the first one (A13).
pub(crate) fn a_synchronous_fill_orders_blocking_streams() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (
                device.stream_with(StreamOptions::new().blocking())?,
                device.stream_with(StreamOptions::new().blocking())?,
            );
            let (mut data, mut other) = (shared(device, twin)?, shared(device, twin)?);
            let mut unrelated = shared(device, twin)?;
            writes(&first, data.view_mut(), 7)?;
            if twin.has_edge() {
                device.fill_now(&mut unrelated, 0)?;
            }
            writes(&second, other.view_mut(), 8)?;
            second.synchronize()?;
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `15_cuda_memset_sync_nonblocking`.
pub(crate) fn a_synchronous_fill_does_not_wait_for_a_non_blocking_stream() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) =
                (device.stream()?, device.stream_with(StreamOptions::new().blocking())?);
            let (mut data, mut other) = (shared(device, twin)?, shared(device, twin)?);
            let mut unrelated = shared(device, twin)?;
            writes(&first, data.view_mut(), 7)?;
            device.fill_now(&mut unrelated, 0)?;
            if twin.has_edge() {
                first.synchronize()?;
            }
            writes(&second, other.view_mut(), 8)?;
            second.synchronize()?;
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `20_cuda_default_stream_sync`.
pub(crate) fn a_wait_for_the_legacy_stream_covers_blocking_streams() -> Case {
    Case {
        program: |device, twin| {
            let (stream, legacy) =
                (device.stream_with(StreamOptions::new().blocking())?, device.legacy_stream()?);
            let (mut data, mut other) = (shared(device, twin)?, zeros(device, twin)?);
            writes(&stream, data.view_mut(), 7)?;
            writes(&legacy, other.view_mut(), 8)?;
            if twin.has_edge() {
                legacy.synchronize()?;
            }
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `23_cuda_default_stream_post_sync`: the work of the blocking stream follows the kernel of the
/// legacy stream, and the host waits for that work.
pub(crate) fn a_wait_for_later_work_of_a_blocking_stream_covers_the_legacy_stream() -> Case {
    Case {
        program: |device, twin| {
            let (stream, legacy) =
                (device.stream_with(StreamOptions::new().blocking())?, device.legacy_stream()?);
            let (mut data, mut other) = (shared(device, twin)?, zeros(device, twin)?);
            writes(&legacy, data.view_mut(), 7)?;
            writes(&stream, other.view_mut(), 8)?;
            if twin.has_edge() {
                stream.synchronize()?;
            }
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `23_cuda_default_stream_post_sync_nonblocking`.
pub(crate) fn a_wait_for_a_non_blocking_stream_does_not_cover_the_legacy_stream() -> Case {
    Case {
        program: |device, twin| {
            let (stream, legacy) = (device.stream()?, device.legacy_stream()?);
            let (mut data, mut other) = (shared(device, twin)?, zeros(device, twin)?);
            writes(&legacy, data.view_mut(), 7)?;
            writes(&stream, other.view_mut(), 8)?;
            stream.synchronize()?;
            if twin.has_edge() {
                device.synchronize()?;
            }
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `24_cuda_sync_stream_default_nonblocking`: the twins differ by the kind of the stream.
pub(crate) fn a_wait_for_the_legacy_stream_does_not_cover_non_blocking_streams() -> Case {
    Case {
        program: |device, twin| {
            let blocking = twin.has_edge();
            let stream = if blocking {
                device.stream_with(StreamOptions::new().blocking())?
            } else {
                device.stream()?
            };
            let mut data = shared(device, twin)?;
            writes(&stream, data.view_mut(), 7)?;
            device.legacy_stream()?.synchronize()?;
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `25_cuda_default_stream_double_sync`.
pub(crate) fn the_legacy_stream_carries_order_from_one_blocking_stream_to_another() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (
                device.stream_with(StreamOptions::new().blocking())?,
                device.stream_with(StreamOptions::new().blocking())?,
            );
            let legacy = device.legacy_stream()?;
            let (mut data, mut other) = (shared(device, twin)?, zeros(device, twin)?);
            writes(&first, data.view_mut(), 7)?;
            writes(&legacy, other.view_mut(), 1)?;
            writes(&second, other.view_mut(), 2)?;
            if twin.has_edge() {
                second.synchronize()?;
            }
            host_reads(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}
