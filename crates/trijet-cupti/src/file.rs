//! The trace file of a process. The functions below append one block each to a vector.
//!
//! A block consists of a tag, a zero byte, the length of its payload in two bytes, and the payload.
//! All numbers are little-endian. Only whole blocks are appended. If the process is killed while it
//! writes, or if the disk is full, the last block is incomplete, and the file has no [`END`].

/// The first bytes of the payload of a [`HEADER`].
pub const MAGIC: [u8; 8] = *b"TRJTRACE";
/// The version of the format. Version 4 added the tag [`RANK`], version 5 the kind [`kind::MARK`],
/// version 6 the tag [`THREAD`], version 7 the tags [`EVENT`], [`NODE`] and [`SAMPLE`] and the
/// field [`Row::node`], and version 8 the tag [`EDGE`].
pub const VERSION: u32 = 8;
/// The oldest version that the reader of version [`VERSION`] accepts.
pub const VERSION_OLDEST: u32 = 3;
/// The number of bytes of a block that precede its payload.
pub const HEAD_BYTES: usize = 4;

/// Maximum number of bytes of a name or a text. Longer names, which occur with templates, are cut
/// off.
pub const NAME_BYTES_MAX: usize = 4096;
/// Maximum number of names of a process.
pub const NAMES_MAX: usize = 1 << 20;
/// Maximum number of nodes of CUDA graphs of a process. Operations of further nodes have no node.
pub const NODES_MAX: usize = 1 << 20;
/// Maximum number of edges of CUDA graphs of a process. Further graphs have no edges.
pub const EDGES_MAX: usize = 1 << 20;
/// Maximum number of activities, allocations, frees, uses of events and samples of a process: about
/// 2 GiB on the disk. The tracing library writes no more of them.
pub const ACTIVITIES_MAX: u64 = 1 << 25;

/// The tag of the header of a trace, and the length of the payload in bytes. For a tag below
/// without a length, the payload may have any length.
pub const HEADER: (u8, usize) = (1, 32);
/// The tag of a name. The payload is the number of the name, and its text.
pub const NAME: u8 = 2;
/// The tag of a context.
pub const CONTEXT: (u8, usize) = (3, 12);
/// The tag of a stream.
pub const STREAM: (u8, usize) = (4, 12);
/// The tag of an activity.
pub const ACTIVITY: (u8, usize) = (5, 56);
/// The tag of a reason why something was not traced.
pub const TROUBLE: u8 = 6;
/// The tag of the [`Totals`], which are the end of a trace.
pub const END: (u8, usize) = (7, 48);
/// The tag of the command line of the process.
pub const COMMAND: u8 = 8;
/// The tag of a fact about the tracing that a reader of the trace should know.
pub const NOTE: u8 = 9;
/// The tag of an allocation or a free of memory.
pub const ALLOCATION: (u8, usize) = (10, 44);
/// The tag of the rank of the process in its job.
pub const RANK: (u8, usize) = (11, 4);
/// The tag of the name of a host thread. The payload is the number of the thread, and its name.
pub const THREAD: u8 = 12;
/// The tag of a use of a CUDA event by a stream.
pub const EVENT: (u8, usize) = (13, 36);
/// The tag of a node of a CUDA graph.
pub const NODE: (u8, usize) = (14, 16);
/// The tag of a sample of the environment of a device.
pub const SAMPLE: (u8, usize) = (15, 32);
/// The tag of an edge of a CUDA graph.
pub const EDGE: (u8, usize) = (16, 20);

/// The value of [`Row::name`] for an activity that has no name.
pub const NO_NAME: u32 = u32::MAX;
/// The value of [`EventUse::sync`] if CUPTI does not report it.
pub const NO_SYNC: u64 = u64::MAX;

/// The first byte of [`Row::kind`](crate::file::Row::kind). It determines the meaning of the other
/// three bytes.
pub mod kind {
    /// A kernel.
    pub const KERNEL: u8 = 1;
    /// A copy. The next bytes are the direction, the memory that is read, and the memory that is
    /// written.
    pub const COPY: u8 = 2;
    /// A fill.
    pub const FILL: u8 = 3;
    /// A wait. The next byte is the kind of the object for which the host or a stream waits.
    pub const SYNC: u8 = 4;
    /// A call. The next byte is 0 for the runtime and 1 for the driver.
    pub const CALL: u8 = 5;
    /// An overhead of the tracing itself. The next byte is the cause of the overhead.
    pub const OVERHEAD: u8 = 6;
    /// A mark of a named range. The next byte is one of the constants in [`mark`](super::mark).
    pub const MARK: u8 = 7;
}

/// The part of a named range that a mark stands for.
pub mod mark {
    /// The start. The end has the same correlation number.
    pub const START: u8 = 1;
    /// The end. It has no name.
    pub const END: u8 = 2;
    /// A moment without a length.
    pub const MOMENT: u8 = 3;
}

/// The use of an event that an [`EventUse`] stands for.
pub mod event {
    /// A stream records the event.
    pub const RECORD: u8 = 1;
    /// A stream waits for the event.
    pub const WAIT: u8 = 2;
}

/// The quantity of a [`Sample`], with the meaning of its values.
pub mod sample {
    /// The clock of the multiprocessors and the clock of the memory in MHz, and the reasons why
    /// clocks are low: the bits of `CUpti_EnvironmentClocksThrottleReason`.
    pub const CLOCKS: u8 = 1;
    /// The temperature in degrees Celsius.
    pub const TEMPERATURE: u8 = 2;
    /// The power and its limit in milliwatts.
    pub const POWER: u8 = 3;
    /// The speed of the fan in percent.
    pub const FAN: u8 = 4;
}

/// An activity with the fields of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    /// One of the constants in [`kind`], followed by three bytes whose meaning depends on this
    /// constant.
    pub kind: [u8; 4],
    /// The device of an operation.
    pub device: u32,
    /// The context of an operation or a wait.
    pub context: u32,
    /// The stream of an operation or a wait.
    pub stream: u32,
    /// The host thread of a call or a mark. 0 for a mark without a thread.
    pub thread: u32,
    /// The correlation number. An operation shares it with the call that enqueued the operation,
    /// and the end of a named range with the start of the range.
    pub correlation: u32,
    /// The number of the name of the activity, or [`NO_NAME`].
    pub name: u32,
    /// The number of the node of a graph that an operation is a run of, plus 1. 0 for an operation
    /// outside of graphs.
    pub node: u32,
    /// The number of bytes that were copied or filled.
    pub bytes: u64,
    /// The start of the activity in nanoseconds, on the clock of the trace.
    pub begin: u64,
    /// The end of the activity in nanoseconds, on the clock of the trace. 0 for an operation that
    /// has not ended.
    pub end: u64,
}

/// An allocation or a free with the fields of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allocated {
    /// 1 for an allocation, 2 for a free.
    pub what: u8,
    /// The kind of memory, with the codes that [`kind::COPY`] has for the memory of a copy.
    pub memory: u8,
    /// Whether the allocation or free is stream-ordered.
    pub in_order: bool,
    /// The number of the device.
    pub device: u32,
    /// The number of the context. 0 for memory that belongs to no context.
    pub context: u32,
    /// The number of the stream.
    pub stream: u32,
    /// The correlation number, which the allocation or free shares with the call that made it.
    pub correlation: u32,
    /// The address of the memory.
    pub address: u64,
    /// The size of the memory in bytes.
    pub bytes: u64,
    /// The time of the allocation or free in nanoseconds, on the clock of the trace.
    pub at: u64,
}

/// A use of a CUDA event by a stream, with the fields of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventUse {
    /// One of the constants in [`event`].
    pub what: u8,
    /// The context of the stream.
    pub context: u32,
    /// The number of the stream.
    pub stream: u32,
    /// The correlation number, which the use shares with its call.
    pub correlation: u32,
    /// The number of the event.
    pub event: u32,
    /// A number that the waits for a record of an event share with this record, or [`NO_SYNC`].
    pub sync: u64,
    /// The start of a wait's call in nanoseconds, on the clock of the trace. 0 for a record.
    pub at: u64,
}

/// A node of a CUDA graph that was instantiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct GraphNode {
    /// The number of the graph; 0 for an operation outside of graphs.
    pub graph: u32,
    /// The number of the node; 0 for a launch of a graph that is recorded as a whole.
    pub node: u64,
}

/// An edge between two nodes of a CUDA graph that was instantiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GraphEdge {
    /// The number of the graph.
    pub graph: u32,
    /// The number of the earlier node.
    pub from: u64,
    /// The number of the node that follows it.
    pub to: u64,
}

/// A sample of the environment of a device, with the fields of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// One of the constants in [`mod@sample`].
    pub what: u8,
    /// The number of the device.
    pub device: u32,
    /// The time of the sample in nanoseconds, on the clock of the trace.
    pub at: u64,
    /// The values. Unused values are 0.
    pub values: [u32; 3],
}

/// The totals of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// The number of activities in the file.
    pub activities: u64,
    /// The number of records that CUPTI lost because it had no buffer, and of activities that the
    /// recorder discarded because the disk was nearly full.
    pub dropped: u64,
    /// The number of records that were not written for one of these reasons: they could not be
    /// read, the process had no memory for them, or [`ACTIVITIES_MAX`] was reached.
    pub unknown: u64,
    /// The number of requests for a buffer that were declined.
    pub declined: u64,
    /// The time in nanoseconds that the tracing library itself took from the program.
    pub own_time: u64,
    /// The time at which the trace ended, in nanoseconds on the clock of the trace.
    pub at: u64,
}

/// Appends the start of a block: the tag, and the length of the payload in bytes.
pub(crate) fn start(out: &mut Vec<u8>, tag: u8, length: usize) {
    let length = u16::try_from(length).expect("a payload has at most 65,535 bytes");
    out.extend([tag, 0]);
    out.extend(length.to_le_bytes());
}

/// Appends a block of 32-bit numbers.
fn words<const N: usize>(out: &mut Vec<u8>, tag: (u8, usize), words: [u32; N]) {
    start(out, tag.0, tag.1);
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

/// Appends a block of text. The text is cut off after [`NAME_BYTES_MAX`] bytes.
pub(crate) fn text(out: &mut Vec<u8>, tag: u8, text: &str) {
    let mut length = text.len().min(NAME_BYTES_MAX);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    start(out, tag, length);
    out.extend(&text.as_bytes()[..length]);
}

/// Appends the header, which begins the trace of a process. `process` is the number of the process.
/// `interface` is the version of CUPTI. `began` is the time at which the trace began, in
/// nanoseconds on the clock of the trace.
pub fn header(out: &mut Vec<u8>, process: u32, interface: u32, began: u64) {
    start(out, HEADER.0, HEADER.1);
    out.extend(MAGIC);
    for word in [VERSION, process, interface, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(began.to_le_bytes());
}

/// Appends the command line of the process.
pub fn command(out: &mut Vec<u8>, line: &str) {
    text(out, COMMAND, line);
}

/// Appends the rank of the process.
pub fn rank(out: &mut Vec<u8>, rank: u32) {
    words(out, RANK, [rank]);
}

/// Appends the name with the number `id`. The names of a file have consecutive numbers, starting
/// with 0. The text is cut off after [`NAME_BYTES_MAX`] bytes.
pub fn name(out: &mut Vec<u8>, id: u32, text: &[u8]) {
    let text = &text[..text.len().min(NAME_BYTES_MAX)];
    start(out, NAME, 4 + text.len());
    out.extend(id.to_le_bytes());
    out.extend(text);
}

/// Appends the name of a host thread. The name is cut off after [`NAME_BYTES_MAX`] bytes.
pub fn thread(out: &mut Vec<u8>, number: u32, name: &[u8]) {
    let name = &name[..name.len().min(NAME_BYTES_MAX)];
    start(out, THREAD, 4 + name.len());
    out.extend(number.to_le_bytes());
    out.extend(name);
}

/// Appends a context: its number, the number of its device, and the number of its legacy default
/// stream.
pub fn context(out: &mut Vec<u8>, context: u32, device: u32, null_stream: u32) {
    words(out, CONTEXT, [context, device, null_stream]);
}

/// Appends a stream of a context. The class is 0 for an unknown kind of stream, 1 for a blocking
/// stream, 2 for a non-blocking stream, 3 for the legacy stream, and 4 for a per-thread stream.
pub fn stream(out: &mut Vec<u8>, context: u32, stream: u32, class: u32) {
    words(out, STREAM, [context, stream, class]);
}

/// Appends an activity.
pub fn activity(out: &mut Vec<u8>, row: &Row) {
    start(out, ACTIVITY.0, ACTIVITY.1);
    out.extend(row.kind);
    out.extend(row.node.to_le_bytes());
    let Row { device, context, stream, thread, correlation, name, .. } = *row;
    for word in [device, context, stream, thread, correlation, name] {
        out.extend(word.to_le_bytes());
    }
    for long in [row.bytes, row.begin, row.end] {
        out.extend(long.to_le_bytes());
    }
}

/// Appends an allocation or a free.
pub fn allocation(out: &mut Vec<u8>, one: &Allocated) {
    start(out, ALLOCATION.0, ALLOCATION.1);
    out.extend([one.what, one.memory, u8::from(one.in_order), 0]);
    for word in [one.device, one.context, one.stream, one.correlation] {
        out.extend(word.to_le_bytes());
    }
    for long in [one.address, one.bytes, one.at] {
        out.extend(long.to_le_bytes());
    }
}

/// Appends a use of an event.
pub fn event_use(out: &mut Vec<u8>, one: &EventUse) {
    start(out, EVENT.0, EVENT.1);
    out.extend([one.what, 0, 0, 0]);
    for word in [one.context, one.stream, one.correlation, one.event] {
        out.extend(word.to_le_bytes());
    }
    for long in [one.sync, one.at] {
        out.extend(long.to_le_bytes());
    }
}

/// Appends the node with the number `id`. The nodes of a file have consecutive numbers, starting
/// with 0.
pub fn node(out: &mut Vec<u8>, id: u32, node: GraphNode) {
    start(out, NODE.0, NODE.1);
    out.extend(id.to_le_bytes());
    out.extend(node.graph.to_le_bytes());
    out.extend(node.node.to_le_bytes());
}

/// Appends an edge of a graph.
pub fn edge(out: &mut Vec<u8>, one: GraphEdge) {
    start(out, EDGE.0, EDGE.1);
    out.extend(one.graph.to_le_bytes());
    out.extend(one.from.to_le_bytes());
    out.extend(one.to.to_le_bytes());
}

/// Appends a sample of the environment.
pub fn sample(out: &mut Vec<u8>, one: &Sample) {
    start(out, SAMPLE.0, SAMPLE.1);
    out.extend([one.what, 0, 0, 0]);
    let [first, second, third] = one.values;
    for word in [one.device, first, second, third, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(one.at.to_le_bytes());
}

/// Appends the reason why the process, or a part of it, was not traced.
pub fn trouble(out: &mut Vec<u8>, words: &str) {
    text(out, TROUBLE, words);
}

/// Appends a fact about the tracing that a reader of the trace should know.
pub fn note(out: &mut Vec<u8>, words: &str) {
    text(out, NOTE, words);
}

/// Appends the totals, which end the trace of a process.
pub fn end(out: &mut Vec<u8>, totals: &Totals) {
    start(out, END.0, END.1);
    let Totals { activities, dropped, unknown, declined, own_time, at } = *totals;
    for long in [activities, dropped, unknown, declined, own_time, at] {
        out.extend(long.to_le_bytes());
    }
}
