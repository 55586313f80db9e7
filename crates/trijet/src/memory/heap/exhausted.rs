//! The error of an allocation for which the heap has no memory. It states how much memory is free,
//! why the allocation cannot use that memory, and what would help.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind};
use crate::base::units::Bytes;
use crate::heap::{GRANULE, Heap, HeapMode};
use crate::order::lane_ref::LaneRef;

/// The error of an allocation of `bytes`. If the device refused more memory, `refused` is the error
/// of the device.
#[cold]
pub(super) fn exhausted(
    heap: &Heap,
    lane: &LaneRef,
    bytes: Bytes,
    refused: Option<Error>,
) -> Error {
    let domain = &*lane.domain;
    let mode = heap.mode();
    domain.gather_in_heap(heap);
    let state = domain.lock_heap(heap);
    let space = &state.space;
    let wanted = bytes.0.max(1).next_multiple_of(GRANULE);
    let of = |granules: u64| Bytes(granules * GRANULE);
    let mut cause = format!(
        "{} requested; the heap of {} has {}: {} are in use and {} are free",
        Bytes(wanted),
        lane.device,
        Bytes(state.mapped()),
        of(space.live()),
        of(space.free()),
    );
    if space.free() > 0 {
        cause += &format!(", the largest free block with {}", of(space.largest()));
    }
    for (other, granules) in space.of_lanes() {
        let name = domain.log().tracers.stream_name(other);
        let name =
            name.map_or_else(|| format!("stream {}", other.0), |name| format!("stream `{name}`"));
        cause += &format!("; {} wait for the work of {name}", of(granules));
    }
    if space.mixed() > 0 {
        cause += &format!("; {} wait for the work of several streams", of(space.mixed()));
    }
    if let Some(refused) = refused {
        cause += &format!("; the device refused more: {refused}");
    }
    let run = space.longest_run() * GRANULE;
    if mode == HeapMode::NeverWait && run >= wanted {
        cause += &format!(
            "; in another mode than {mode}, the allocation would take {} that other streams still \
             use, and its first write would wait for those uses",
            Bytes(wanted)
        );
    } else if run >= wanted || state.movable() >= wanted {
        cause += "; `alloc_waiting` would wait until no work uses enough of the free memory";
    }
    Error::new(ErrorKind::OutOfMemory, "alloc", cause).on(lane.device)
}
