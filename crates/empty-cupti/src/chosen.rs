//! The records that the user of a trace chooses: events, graphs and the environment. The offsets
//! are from the headers of CUDA 13.0.

use crate::calls::resource_changed;
use crate::emitting::{CALL, FIRST_NS, KERNEL, NAME, PAIR_NS, RECORD_BYTES, emit, is_enabled};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Once;
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
/// The number of the graph that is launched. The template that it is a copy of has the number
/// before it, and the graph that the driver makes of the copy the number after it.
const GRAPH: usize = 6;

/// Changes of graphs, by their numbers in the domain of resources.
const GRAPH_CREATED: u32 = 9;
const NODE_CREATE_STARTING: u32 = 12;
const NODE_CREATED: u32 = 13;
const DEPENDENCY_CREATED: u32 = 15;
const PROGRAM_CREATE_STARTING: u32 = 17;
const PROGRAM_CREATED: u32 = 18;
const NODE_CLONED: u32 = 20;

/// The graph is made before its first launch.
static MADE: Once = Once::new();

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

/// Reports a kernel on a stream, from 2 us to 9 us after the start of its call.
fn kernel(stream: u32, call: ReportedCall) {
    node(stream, call, [2_000, 9_000], 0);
}

/// Reports a kernel on a stream between two times in nanoseconds since the start of its call. The
/// kernel is a node of a graph if `node` is not 0.
fn node(stream: u32, call: ReportedCall, times: [u64; 2], node: u64) {
    let ReportedCall { correlation, begin } = call;
    let graph = u32::try_from(node >> 32).unwrap_or(0);
    let bytes = record(&[
        (0, &KERNEL.to_le_bytes()),
        (16, &(begin + times[0]).to_le_bytes()),
        (24, &(begin + times[1]).to_le_bytes()),
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
        kernel(7, call(LAUNCH));
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
        kernel(8, call(LAUNCH));
    }
}

/// The handle of a graph is its number. The handle of a node is the number of its graph, shifted by
/// 32 bits, plus its place in the graph.
fn handle(number: usize) -> *mut c_void {
    ptr::without_provenance_mut(number)
}

fn node_of(graph: usize, place: usize) -> *mut c_void {
    handle((graph << 32) + place)
}

/// Writes the number of a graph. 0 is no graph.
///
/// # Safety
/// `number` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetGraphId(graph: *mut c_void, number: *mut u32) -> c_int {
    let Some(found) = u32::try_from(graph.addr()).ok().filter(|found| *found > 0) else { return 1 };
    // SAFETY: the recorder passes a variable for the number of the graph.
    unsafe { number.write(found) };
    0
}

/// Writes the number of a node of a graph. 0 is no node.
///
/// # Safety
/// `number` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetGraphNodeId(node: *mut c_void, number: *mut u64) -> c_int {
    if node.is_null() {
        return 1;
    }
    // SAFETY: the recorder passes a variable for the number of the node.
    unsafe { number.write(node.addr() as u64) };
    0
}

/// `CUpti_ResourceData` and `CUpti_GraphData`.
#[repr(C)]
struct ResourceData {
    context: *mut c_void,
    handle: *mut c_void,
    descriptor: *const GraphData,
}

#[repr(C)]
struct GraphData {
    graph: *mut c_void,
    original_graph: *mut c_void,
    node: *mut c_void,
    original_node: *mut c_void,
    node_type: c_int,
    dependency: *mut c_void,
    program: *mut c_void,
}

const NOTHING: GraphData = GraphData {
    graph: ptr::null_mut(),
    original_graph: ptr::null_mut(),
    node: ptr::null_mut(),
    original_node: ptr::null_mut(),
    node_type: 0,
    dependency: ptr::null_mut(),
    program: ptr::null_mut(),
};

/// Reports a change of a graph.
fn changed(number: u32, of: &GraphData) {
    let (context, handle) = (ptr::null_mut(), ptr::null_mut());
    let data = ResourceData { context, handle, descriptor: of };
    resource_changed(number, (&raw const data).cast());
}

/// Makes the template of the graph, whose second node follows the first one, and instantiates it,
/// with the changes in the order in which CUPTI 13.0 states them on a GPU.
fn make_graph() {
    let [template, copy, lowered] = [GRAPH - 1, GRAPH, GRAPH + 1];
    for graph in [template, copy, lowered] {
        let of = || GraphData { graph: handle(graph), ..NOTHING };
        let dependency =
            GraphData { node: node_of(graph, 1), dependency: node_of(graph, 0), ..of() };
        changed(GRAPH_CREATED, &of());
        for place in 0..2 {
            let node = || GraphData { node: node_of(graph, place), ..of() };
            changed(NODE_CREATE_STARTING, &node());
            if graph == template && place == 1 {
                changed(DEPENDENCY_CREATED, &dependency);
            }
            if graph != lowered {
                changed(NODE_CREATED, &node());
            }
            if graph == copy {
                let original_graph = handle(template);
                let original_node = node_of(template, place);
                changed(NODE_CLONED, &GraphData { original_graph, original_node, ..node() });
            }
        }
        if graph != template {
            changed(DEPENDENCY_CREATED, &dependency);
        }
    }
    for number in [PROGRAM_CREATE_STARTING, PROGRAM_CREATED] {
        let (graph, program) = (handle(template), handle(copy));
        changed(number, &GraphData { graph, program, ..NOTHING });
    }
}

/// Reports `count` launches of a graph with two kernels, the second one after the first: as a whole
/// if launches of graphs are collected, and otherwise each kernel.
#[unsafe(no_mangle)]
pub extern "C" fn empty_cupti_emit_graphs(count: u64) {
    MADE.call_once(make_graph);
    let graph = u32::try_from(GRAPH).unwrap_or(0);
    for _ in 0..count {
        let launch @ ReportedCall { correlation, begin } = call(LAUNCH_GRAPH);
        if is_enabled(GRAPH_TRACE) {
            let bytes = record(&[
                (0, &GRAPH_TRACE.to_le_bytes()),
                (4, &correlation.to_le_bytes()),
                (8, &(begin + 2_000).to_le_bytes()),
                (16, &(begin + 9_000).to_le_bytes()),
                (28, &graph.to_le_bytes()),
                (32, &1_u32.to_le_bytes()),
                (36, &7_u32.to_le_bytes()),
            ]);
            emit(GRAPH_TRACE, 1, || bytes);
        } else {
            let first = u64::from(graph) << 32;
            node(7, launch, [2_000, 9_000], first);
            node(8, launch, [9_000, 9_900], first + 1);
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
