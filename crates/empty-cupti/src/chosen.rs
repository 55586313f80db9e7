//! The records that the user of a trace chooses: events, graphs and the environment. The offsets
//! are from the headers of CUDA 13.0.

use crate::emitting::{CALL, FIRST_NS, KERNEL, NAME, PAIR_NS, RECORD_BYTES, emit, is_enabled};
use std::sync::atomic::{AtomicU64, Ordering};

const ENVIRONMENT: u32 = 20;
const CUDA_EVENT: u32 = 36;
const SYNCHRONIZATION: u32 = 38;
const GRAPH_TRACE: u32 = 51;
/// Functions of the CUDA runtime.
const LAUNCH: u32 = 211;
const RECORD_EVENT: u32 = 135;
const WAIT_EVENT: u32 = 147;
const LAUNCH_GRAPH: u32 = 311;
/// The number of every graph, and the number of its first node.
const GRAPH: u32 = 6;
const NODE: u64 = 6 << 32;

/// The number of calls so far; a call takes 1 us of its [`PAIR_NS`].
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The number of calls so far.
pub(super) fn calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// A record of zeros with these fields, each with its offset.
fn record(fields: &[(usize, &[u8])]) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    for (at, field) in fields {
        bytes[*at..*at + field.len()].copy_from_slice(field);
    }
    bytes
}

/// A call that was reported: its correlation number and its start.
#[derive(Clone, Copy)]
struct ReportedCall {
    correlation: u32,
    begin: u64,
}

/// Reports a call of a function of the runtime.
fn call(function: u32) -> ReportedCall {
    let number = CALLS.fetch_add(1, Ordering::Relaxed);
    let begin = FIRST_NS + PAIR_NS * number;
    let correlation = u32::try_from(number & 0x7fff_ffff).unwrap_or(0) + 1;
    let bytes = record(&[
        (0, &CALL.to_le_bytes()),
        (4, &function.to_le_bytes()),
        (8, &begin.to_le_bytes()),
        (16, &(begin + 1_000).to_le_bytes()),
        (28, &1_u32.to_le_bytes()),
        (32, &correlation.to_le_bytes()),
    ]);
    emit(CALL, 1, || bytes);
    ReportedCall { correlation, begin }
}

/// Reports a kernel on a stream, from 2 us to 9 us after `begin`; a node of a graph if `node` is
/// not 0.
fn kernel(stream: u32, call: ReportedCall, node: u64) {
    let ReportedCall { correlation, begin } = call;
    let graph = if node == 0 { 0 } else { GRAPH };
    let bytes = record(&[
        (0, &KERNEL.to_le_bytes()),
        (16, &(begin + 2_000).to_le_bytes()),
        (24, &(begin + 9_000).to_le_bytes()),
        (44, &1_u32.to_le_bytes()),
        (48, &stream.to_le_bytes()),
        (92, &correlation.to_le_bytes()),
        (104, &(NAME.as_ptr().expose_provenance() as u64).to_le_bytes()),
        (144, &node.to_le_bytes()),
        (156, &graph.to_le_bytes()),
    ]);
    emit(KERNEL, 1, || bytes);
}

/// Reports `count` times a kernel on stream 7, a record of event 3 after it, a wait of stream 8 for
/// this record, and a kernel on stream 8. The record and the wait share a number, which is the
/// correlation number of the record plus 2^40.
#[unsafe(no_mangle)]
pub extern "C" fn empty_cupti_emit_events(count: u64) {
    for _ in 0..count {
        kernel(7, call(LAUNCH), 0);
        let correlation = call(RECORD_EVENT).correlation;
        let sync = u64::from(correlation) | 1 << 40;
        let bytes = record(&[
            (0, &CUDA_EVENT.to_le_bytes()),
            (4, &correlation.to_le_bytes()),
            (8, &1_u32.to_le_bytes()),
            (12, &7_u32.to_le_bytes()),
            (16, &3_u32.to_le_bytes()),
            (48, &sync.to_le_bytes()),
        ]);
        emit(CUDA_EVENT, 1, || bytes);
        let ReportedCall { correlation, begin } = call(WAIT_EVENT);
        let bytes = record(&[
            (0, &SYNCHRONIZATION.to_le_bytes()),
            (4, &2_u32.to_le_bytes()),
            (8, &begin.to_le_bytes()),
            (16, &(begin + 1_000).to_le_bytes()),
            (24, &correlation.to_le_bytes()),
            (28, &1_u32.to_le_bytes()),
            (32, &8_u32.to_le_bytes()),
            (36, &3_u32.to_le_bytes()),
            (40, &sync.to_le_bytes()),
        ]);
        emit(SYNCHRONIZATION, 1, || bytes);
        kernel(8, call(LAUNCH), 0);
    }
}

/// Reports `count` launches of a graph with two kernels: as a whole if launches of graphs are
/// collected, and otherwise each kernel.
#[unsafe(no_mangle)]
pub extern "C" fn empty_cupti_emit_graphs(count: u64) {
    for _ in 0..count {
        let launch @ ReportedCall { correlation, begin } = call(LAUNCH_GRAPH);
        if is_enabled(GRAPH_TRACE) {
            let bytes = record(&[
                (0, &GRAPH_TRACE.to_le_bytes()),
                (4, &correlation.to_le_bytes()),
                (8, &(begin + 2_000).to_le_bytes()),
                (16, &(begin + 9_000).to_le_bytes()),
                (28, &GRAPH.to_le_bytes()),
                (32, &1_u32.to_le_bytes()),
                (36, &7_u32.to_le_bytes()),
            ]);
            emit(GRAPH_TRACE, 1, || bytes);
        } else {
            kernel(7, launch, NODE);
            kernel(8, launch, NODE + 1);
        }
    }
}

/// Reports `count` samples of each quantity of the environment. The clock of the multiprocessors
/// falls by 10 MHz from each sample to the next one, from 1980 MHz.
#[unsafe(no_mangle)]
pub extern "C" fn empty_cupti_emit_environment(count: u64) {
    for number in 0..count {
        let clock = 1980 - 10 * u32::try_from(number).unwrap_or(u32::MAX).min(198);
        let samples: [(u32, u32, u32); 3] = [(1, clock, 2619), (2, 60, 0), (3, 500_000, 700_000)];
        for (kind, first, second) in samples {
            let bytes = record(&[
                (0, &ENVIRONMENT.to_le_bytes()),
                (8, &(FIRST_NS + 3_000 + number).to_le_bytes()),
                (16, &kind.to_le_bytes()),
                (20, &first.to_le_bytes()),
                (24, &second.to_le_bytes()),
                // The reason of low clocks: the limit of the power.
                (36, &4_u32.to_le_bytes()),
            ]);
            emit(ENVIRONMENT, 1, || bytes);
        }
    }
}
