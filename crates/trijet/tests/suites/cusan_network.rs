//! cusan: the programs that pass device memory to MPI.
//!
//! This library sends no messages. [`sends`] has the effect of an MPI call on the order: it reads
//! the memory with the knowledge of the calling thread. The receiving process is left out.
//!
//! | program | here |
//! |---|---|
//! | `03_cuda_to_mpi`, `29_tsan_cuda_to_mpi`, `30_tsan_annotate_cuda_to_mpi` | one program |
//! | `26_malloc_pitch` | the same with rows that are padded, which this library does not allocate |
//! | `06_cuda_to_mpi_event`, `18_cuda_to_mpi_event_query_busy_loop` | each a case |
//! | `12_struct_ptr` | `11_cuda_to_mpi_struct_of_buff` with the structure in page-locked memory |
//!
//! One difference, which a litmus program has to settle:
//!
//! | program | cusan expects | we say | law |
//! |---|---|---|---|
//! | `08_cudamemcpy_to_mpi` | no race: the synchronous copy is complete at its return | a race: pageable memory is staged at the return, and the copy may still run | A18 |

use super::stage::{
    LEN, blocking_streams, ordinary, poll_until_ready, read_at_end, reads, sends, values, writes,
    zeros, zeros_of,
};
use super::twins::Case;
use trijet::StreamOptions;
use trijet::check::{Conflict, FindingClass};

const RAW: FindingClass = FindingClass::Race(Conflict::Raw);
const WAW: FindingClass = FindingClass::Race(Conflict::Waw);

/// `03_cuda_to_mpi`, `26_malloc_pitch`, `29_tsan_cuda_to_mpi`, `30_tsan_annotate_cuda_to_mpi`.
pub(crate) fn a_message_is_sent_after_a_wait_for_the_device() -> Case {
    Case {
        program: |device, twin| {
            let legacy = device.legacy_stream()?;
            let mut data = zeros(device, twin)?;
            writes(&legacy, data.view_mut(), 7)?;
            if twin.has_edge() {
                device.synchronize()?;
            }
            sends(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `04_mpi_to_cuda`: the kernel does not follow the writer of the message.
pub(crate) fn a_kernel_writes_after_the_message_has_arrived() -> Case {
    Case {
        program: |device, twin| {
            let (legacy, card) = (device.legacy_stream()?, device.stream()?);
            let mut data = zeros(device, twin)?;
            let mut message = device.pinned::<u32>(LEN)?;
            message.write()?.fill(1);
            card.copy(&message, &mut data)?;
            if twin.has_edge() {
                card.synchronize()?;
            }
            writes(&legacy, data.view_mut(), 7)?;
            card.synchronize()?;
            let mut landed = ordinary(device, LEN, 0)?;
            device.copy_now(&data, &mut landed)?;
            values(&landed)
        },
        sees: vec![7, 7],
        faulty: Some(vec![WAW]),
    }
}

/// `05_cuda_to_mpi_stream`.
pub(crate) fn a_message_is_sent_after_a_wait_for_the_stream() -> Case {
    Case {
        program: |device, twin| {
            let stream = device.stream_with(StreamOptions::new().blocking())?;
            let mut data = zeros(device, twin)?;
            writes(&stream, data.view_mut(), 7)?;
            if twin.has_edge() {
                stream.synchronize()?;
            }
            sends(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `06_cuda_to_mpi_event`.
pub(crate) fn a_message_is_sent_after_a_wait_for_the_event() -> Case {
    Case {
        program: |device, twin| {
            let (legacy, event) = (device.legacy_stream()?, device.event()?);
            let mut data = zeros(device, twin)?;
            writes(&legacy, data.view_mut(), 7)?;
            event.record(&legacy)?;
            if twin.has_edge() {
                event.synchronize()?;
            }
            sends(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `18_cuda_to_mpi_event_query_busy_loop`.
pub(crate) fn a_message_is_sent_when_the_event_is_ready() -> Case {
    Case {
        program: |device, twin| {
            let (stream, event) =
                (device.stream_with(StreamOptions::new().blocking())?, device.event()?);
            let mut data = zeros(device, twin)?;
            device.fill_now(&mut data, 0)?;
            writes(&stream, data.view_mut(), 7)?;
            event.record(&stream)?;
            if twin.has_edge() {
                poll_until_ready(device, || event.query(), || event.synchronize())?;
            }
            sends(device, &data)
        },
        sees: vec![7, 7],
        // The host does not wait for the synchronous fill either, but the kernel follows it.
        faulty: Some(vec![RAW]),
    }
}

/// `07_cuda_to_mpi_read`: the kernel and the message only read.
pub(crate) fn a_message_may_be_sent_while_a_kernel_reads() -> Case {
    Case {
        program: |device, twin| {
            let legacy = device.legacy_stream()?;
            let (mut data, mut result) = (zeros(device, twin)?, zeros(device, twin)?);
            writes(&legacy, data.view_mut(), 7)?;
            device.synchronize()?;
            reads(&legacy, data.view(), result.view_mut())?;
            let sent = sends(device, &data)?;
            device.synchronize()?;
            Ok([sent, read_at_end(device, &result)?].concat())
        },
        sees: vec![7, 7, 7, 7],
        faulty: None,
    }
}

/// `08_cudamemcpy_to_mpi`: the faulty twin is cusan's program, which uploads from pageable memory;
/// the mended one waits for the legacy stream as well. See the header.
pub(crate) fn a_message_waits_for_a_synchronous_upload_from_pageable_memory() -> Case {
    Case {
        program: |device, twin| {
            let mut data = zeros(device, twin)?;
            device.fill_now(&mut data, 0xff)?;
            device.synchronize()?;
            device.copy_now(&ordinary(device, LEN, 7)?, &mut data)?;
            if twin.has_edge() {
                device.legacy_stream()?.synchronize()?;
            }
            sends(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `08_cudamemcpy_to_mpi` from page-locked memory: the call waits for the copy (A18).
pub(crate) fn a_synchronous_upload_from_page_locked_memory_is_complete_at_return() -> Case {
    Case {
        program: |device, twin| {
            let mut data = zeros(device, twin)?;
            let mut source = device.pinned::<u32>(LEN)?;
            source.write()?.fill(7);
            device.copy_now(&source, &mut data)?;
            sends(device, &data)
        },
        sees: vec![7, 7],
        faulty: None,
    }
}

/// `11_cuda_to_mpi_struct_of_buff`, `12_struct_ptr`: kernels of two streams write two buffers, and
/// one of the buffers is sent.
pub(crate) fn a_message_waits_for_the_writers_of_its_buffer() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (
                device.stream_with(StreamOptions::new().blocking())?,
                device.stream_with(StreamOptions::new().blocking())?,
            );
            let (mut left, mut right) = (zeros(device, twin)?, zeros(device, twin)?);
            writes(&first, left.view_mut(), 1)?;
            writes(&second, right.view_mut(), 2)?;
            writes(&second, right.view_mut(), 3)?;
            if twin.has_edge() {
                device.synchronize()?;
            }
            sends(device, &right)
        },
        sees: vec![3, 3],
        faulty: Some(vec![RAW]),
    }
}

/// `19_cuda_to_mpi_send_cudaMemcpyAsyncH2H_implicit_sync`: the copy within the host is an operation
/// of the legacy stream, and it is complete when it returns (A13 and A18).
pub(crate) fn a_message_is_sent_after_a_copy_within_the_host() -> Case {
    Case {
        program: |device, twin| {
            let stream = device.stream_with(StreamOptions::new().blocking())?;
            let mut data = zeros(device, twin)?;
            writes(&stream, data.view_mut(), 7)?;
            if twin.has_edge() {
                device.copy_now(&ordinary(device, 1, 1)?, &mut ordinary(device, 1, 2)?)?;
            }
            sends(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `20_cuda_to_mpi_send_ds_sync_w_r`.
pub(crate) fn a_message_is_sent_after_a_wait_for_the_legacy_stream() -> Case {
    Case {
        program: |device, twin| {
            let (stream, legacy) =
                (device.stream_with(StreamOptions::new().blocking())?, device.legacy_stream()?);
            let (mut data, mut other) = (zeros(device, twin)?, zeros(device, twin)?);
            writes(&stream, data.view_mut(), 7)?;
            writes(&legacy, other.view_mut(), 8)?;
            if twin.has_edge() {
                legacy.synchronize()?;
            }
            sends(device, &data)
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `21_chunked_streams_example`. The faulty twin, which is ours, lacks the wait before the copies.
pub(crate) fn chunks_are_downloaded_after_the_kernel() -> Case {
    Case {
        program: |device, twin| {
            const CHUNKS: usize = 4;
            let kernels = device.stream_with(StreamOptions::new().blocking())?;
            let streams = blocking_streams(device, 4)?;
            let mut data = zeros_of::<u32>(device, twin, CHUNKS)?;
            writes(&kernels, data.view_mut(), 7)?;
            if twin.has_edge() {
                kernels.synchronize()?;
            }
            let mut landed = Vec::new();
            let mut rest = device.pinned::<u32>(CHUNKS)?;
            for (chunk, stream) in (0..).zip(&streams) {
                let (mut target, others) = rest.split(1);
                stream.copy(&data.slice(chunk..chunk + 1), &mut target)?;
                landed.push(target);
                rest = others;
            }
            let mut seen = Vec::new();
            for (target, stream) in landed.iter().zip(&streams) {
                stream.synchronize()?;
                seen.extend(values(target)?);
            }
            Ok(seen)
        },
        sees: vec![7; 4],
        faulty: Some(vec![RAW; 4]),
    }
}

/// `22_cuda_to_mpi_partial_buff_write`. The faulty twin, which is ours, sends the second half
/// without a wait.
pub(crate) fn one_half_is_sent_while_the_other_is_written() -> Case {
    Case {
        program: |device, twin| {
            let stream = device.stream_with(StreamOptions::new().blocking())?;
            let mut data = zeros(device, twin)?;
            writes(&stream, data.slice_mut(..1), 1)?;
            stream.synchronize()?;
            writes(&stream, data.slice_mut(1..), 2)?;
            let first = sends(device, &data.slice(..1))?;
            if twin.has_edge() {
                stream.synchronize()?;
            }
            Ok([first, sends(device, &data.slice(1..))?].concat())
        },
        sees: vec![1, 2],
        faulty: Some(vec![RAW]),
    }
}
