//! cusan: programs whose second stream reads or writes memory that the first one writes.
//!
//! `13_struct_recursion` is `11_struct_of_buff` with a structure within a structure. Rows that are
//! padded (`27_cuda_memcpy2d_implicit_syn`, `28_cuda_memset2d_implicit_syn`) are plain copies and
//! fills here; the second stream of `28` has a priority, which orders nothing, and is an ordinary
//! blocking stream here, because this library gives priorities to non-blocking streams only.
//! `09_cudamemcpy_default` copies memory onto itself, which a borrow of the target rules out; one
//! half goes onto the other here.
//!
//! One difference, which a litmus program has to settle:
//!
//! | program | cusan expects | we say | law |
//! |---|---|---|---|
//! | `16_cuda_malloc_implicit_sync`, `16_cuda_hostalloc_implicit_sync` | the allocation mends (marked as a failure there) | a race with and without it | A20 |

use super::stage::{LEN, ordinary, read_at_end, reads, shared, values, writes, zeros};
use super::twins::{Case, Seen, Twin};
use crate::mix;
use trijet::check::{Conflict, FindingClass};
use trijet::testing::MIX;
use trijet::{Device, Result, Stream, StreamOptions};

const RAW: FindingClass = FindingClass::Race(Conflict::Raw);
const WAW: FindingClass = FindingClass::Race(Conflict::Waw);

/// `11_struct_of_buff`, `13_struct_recursion`: kernels of one stream are ordered, and kernels on
/// two buffers need no order. Two streams that write one buffer need one.
pub(crate) fn two_streams_write_one_buffer_after_each_other() -> Case {
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
            writes(&first, right.view_mut(), 4)?;
            Ok([read_at_end(device, &left)?, read_at_end(device, &right)?].concat())
        },
        sees: vec![1, 1, 4, 4],
        faulty: Some(vec![WAW]),
    }
}

/// `09_cudamemcpy_default`, `10_cudahostalloc`.
pub(crate) fn page_locked_memory_may_be_allocated_and_dropped_at_any_time() -> Case {
    Case {
        program: |device, twin| {
            let first = shared(device, twin)?;
            let second = shared(device, twin)?;
            let (left, mut right) = first.split(1);
            device.copy_now(&left, &mut right)?;
            drop(second);
            values(&right)
        },
        sees: vec![0],
        faulty: None,
    }
}

/// A kernel in the first stream, then `between`, then a download in the second stream.
fn downloads_after(
    device: &Device,
    twin: Twin,
    [first, second]: [&Stream; 2],
    between: impl FnOnce() -> Result<()>,
) -> Result<Seen> {
    let mut data = zeros(device, twin)?;
    writes(first, data.view_mut(), 7)?;
    between()?;
    let mut landed = ordinary(device, LEN, 0)?;
    second.copy(&data, &mut landed)?;
    second.synchronize()?;
    values(&landed)
}

/// `16_cuda_malloc_implicit_sync`, `16_cuda_hostalloc_implicit_sync`: an allocation orders nothing.
/// The faulty twin allocates, as does the program that cusan takes for mended.
pub(crate) fn an_allocation_orders_nothing() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (
                device.stream_with(StreamOptions::new().blocking())?,
                device.stream_with(StreamOptions::new().blocking())?,
            );
            let elsewhere = device.stream()?;
            downloads_after(device, twin, [&first, &second], || {
                let (host, memory) = (device.pinned::<u32>(LEN)?, elsewhere.alloc::<u32>(LEN)?);
                if twin.has_edge() {
                    first.synchronize()?;
                }
                drop((host, memory));
                Ok(())
            })
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `19_cuda_cudaMemcpyAsyncH2H_implicit_sync`.
pub(crate) fn a_copy_within_the_host_orders_blocking_streams() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (
                device.stream_with(StreamOptions::new().blocking())?,
                device.stream_with(StreamOptions::new().blocking())?,
            );
            downloads_after(device, twin, [&first, &second], || {
                if twin.has_edge() {
                    device.copy_now(&ordinary(device, 1, 1)?, &mut ordinary(device, 1, 2)?)?;
                }
                Ok(())
            })
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `19_cuda_cudaMemcpyAsyncH2H_implicit_sync_nonblocking`.
pub(crate) fn a_copy_within_the_host_does_not_wait_for_non_blocking_streams() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (device.stream()?, device.stream()?);
            downloads_after(device, twin, [&first, &second], || {
                device.copy_now(&ordinary(device, 1, 1)?, &mut ordinary(device, 1, 2)?)?;
                if twin.has_edge() {
                    first.synchronize()?;
                }
                Ok(())
            })
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `27_cuda_memcpy2d_implicit_syn`: a synchronous download is an operation of the legacy stream.
pub(crate) fn a_synchronous_download_orders_blocking_streams() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (
                device.stream_with(StreamOptions::new().blocking())?,
                device.stream_with(StreamOptions::new().blocking())?,
            );
            let unrelated = zeros(device, twin)?;
            downloads_after(device, twin, [&first, &second], || {
                if twin.has_edge() {
                    device.copy_now(&unrelated, &mut ordinary(device, LEN, 2)?)?;
                }
                Ok(())
            })
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `28_cuda_memset2d_implicit_syn`: a synchronous fill is an operation of the legacy stream, though
/// the host does not wait for it (A18).
pub(crate) fn a_synchronous_fill_of_other_memory_orders_blocking_streams() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (
                device.stream_with(StreamOptions::new().blocking())?,
                device.stream_with(StreamOptions::new().blocking())?,
            );
            let mut unrelated = zeros(device, twin)?;
            downloads_after(device, twin, [&first, &second], || {
                if twin.has_edge() {
                    device.fill_now(&mut unrelated, 0)?;
                }
                Ok(())
            })
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `32_tsan_async_copy`.
pub(crate) fn a_download_in_another_stream_waits_for_the_kernel() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (
                device.stream_with(StreamOptions::new().blocking())?,
                device.stream_with(StreamOptions::new().blocking())?,
            );
            downloads_after(device, twin, [&first, &second], || {
                if twin.has_edge() { first.synchronize() } else { Ok(()) }
            })
        },
        sees: vec![7, 7],
        faulty: Some(vec![RAW]),
    }
}

/// `31_tsan_cuda_event`: both kernels read and write, so the result shows their order.
pub(crate) fn a_wait_of_the_host_for_an_event_orders_two_streams() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (
                device.stream_with(StreamOptions::new().blocking())?,
                device.stream_with(StreamOptions::new().blocking())?,
            );
            let finished = device.event()?;
            let mut data = first.alloc::<u64>(1)?;
            let mut source = first.alloc::<u64>(1)?;
            first.fill_bytes(&mut data, 0)?;
            first.fill_bytes(&mut source, 1)?;
            device.synchronize()?;
            let mut data = twin.manual_unless_tracked(data);
            first.launch(&MIX, (1, &source, &mut data))?;
            finished.record(&first)?;
            if twin.has_edge() {
                finished.synchronize()?;
            }
            second.launch(&MIX, (2, &source, &mut data))?;
            device.synchronize()?;
            let mut landed = device.pinned::<u64>(1)?;
            first.copy(&data, &mut landed)?;
            Ok(landed.read()?.to_vec())
        },
        sees: {
            let mut data = [0];
            mix(1, &[0x0101_0101_0101_0101], &mut data);
            mix(2, &[0x0101_0101_0101_0101], &mut data);
            data.to_vec()
        },
        faulty: Some(vec![RAW]),
    }
}

/// `33_tsan_wait_event`. The synchronous copy follows both streams in each twin (A13).
pub(crate) fn a_wait_of_a_stream_for_an_event_orders_two_streams() -> Case {
    Case {
        program: |device, twin| {
            let (first, second) = (
                device.stream_with(StreamOptions::new().blocking())?,
                device.stream_with(StreamOptions::new().blocking())?,
            );
            let event = device.event()?;
            let (mut data, mut result) = (zeros(device, twin)?, zeros(device, twin)?);
            device.copy_now(&ordinary(device, LEN, 1)?, &mut data)?;
            device.synchronize()?;
            writes(&first, data.view_mut(), 7)?;
            event.record(&first)?;
            if twin.has_edge() {
                second.wait(&event)?;
            }
            reads(&second, data.view(), result.view_mut())?;
            let mut landed = ordinary(device, LEN, 0)?;
            device.copy_now(&data, &mut landed)?;
            second.synchronize()?;
            Ok([values(&landed)?, read_at_end(device, &result)?].concat())
        },
        sees: vec![7, 7, 7, 7],
        faulty: Some(vec![RAW]),
    }
}
