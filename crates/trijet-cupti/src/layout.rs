//! The offsets of the fields in CUPTI's records.
//!
//! A later version of a record has additional fields only at its end. For the fields below,
//! `CUpti_ActivityKernel9` of CUDA 12.0 is a prefix of `CUpti_ActivityKernel13` of CUDA 13.4. A C
//! compiler computed the offsets of the fields from the headers of CUDA 12.0, 12.4, 13.0 and 13.4.
//! The offsets are the same in all four versions. So records are read by offset, never as a struct
//! of one version, and never beyond the end of the shortest version. The exceptions are fields that
//! came later, which are read only in versions that have them. A CUPTI library with a version
//! outside of [`VERSIONS`] is not used. In its records, a field that is used as a pointer might
//! have another offset.

use crate::api::Api;
use crate::file::{
    Allocated, EventUse, GraphNode, NO_NAME, NO_SYNC, Row, Sample, event, kind, mark, sample,
};

/// The values of `CUPTI_API_VERSION` from CUDA 12.0 to CUDA 13.4, whose headers were compared.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 18..=130_499;

/// The first `CUPTI_API_VERSION` whose records of events and of waits have `cudaEventSyncId`: CUDA
/// 12.8.
const SYNC_IDS_SINCE: u32 = 26;

/// The first `CUPTI_API_VERSION` of a compared header whose records of graphs have the device of
/// their end: CUDA 12.4.
const END_DEVICES_SINCE: u32 = 22;

/// Values of `CUpti_ActivityKind`: the kinds of records that are read.
pub mod kinds {
    /// Copies.
    pub const MEMCPY: u32 = 1;
    /// Fills.
    pub const MEMSET: u32 = 2;
    /// Kernels that run one after another.
    pub const KERNEL: u32 = 3;
    /// Calls of the driver.
    pub const DRIVER: u32 = 4;
    /// Calls of the runtime.
    pub const RUNTIME: u32 = 5;
    /// Contexts.
    pub const CONTEXT: u32 = 9;
    /// Kernels that may run concurrently. If `KERNEL` were collected instead, CUPTI would make
    /// kernels run one after another.
    pub const CONCURRENT_KERNEL: u32 = 10;
    /// Marks: the starts and ends of NVTX ranges, and single moments.
    pub const MARKER: u32 = 12;
    /// Overhead.
    pub const OVERHEAD: u32 = 17;
    /// Samples of clocks, temperature, power and fan.
    pub const ENVIRONMENT: u32 = 20;
    /// Copies between devices.
    pub const MEMCPY2: u32 = 22;
    /// Records of events in streams.
    pub const CUDA_EVENT: u32 = 36;
    /// Streams.
    pub const STREAM: u32 = 37;
    /// Waits.
    pub const SYNCHRONIZATION: u32 = 38;
    /// Tags of calls. A tag is called external correlation id in CUPTI.
    pub const EXTERNAL_CORRELATION: u32 = 39;
    /// Allocations and frees.
    pub const MEMORY2: u32 = 49;
    /// Launches of graphs as a whole. If they are collected, the nodes of graphs have no records.
    pub const GRAPH_TRACE: u32 = 51;

    /// The kinds of records for a trace of a program's own operations, each with a name for
    /// messages.
    pub const OWN: [(u32, &str); 6] = [
        (CONCURRENT_KERNEL, "kernels"),
        (MEMCPY, "copies"),
        (MEMCPY2, "copies between devices"),
        (MEMSET, "fills"),
        (EXTERNAL_CORRELATION, "tags"),
        (DRIVER, "driver calls"),
    ];

    /// The kinds of records that every trace of a foreign program has, each with a name for
    /// messages. The user chooses further kinds ([`CHOICES`](crate::choice::CHOICES)).
    pub const ALWAYS: [(u32, &str); 10] = [
        (CONTEXT, "contexts"),
        (STREAM, "streams"),
        (CONCURRENT_KERNEL, "kernels"),
        (MEMCPY, "copies"),
        (MEMCPY2, "copies between devices"),
        (MEMSET, "fills"),
        (SYNCHRONIZATION, "synchronisations"),
        (RUNTIME, "runtime calls"),
        (DRIVER, "driver calls"),
        (OVERHEAD, "overhead"),
    ];
}

/// The content of a record. The name of a kernel or of a called function is not looked up yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// An activity of the host that has no name.
    Plain(Row),
    /// A copy or a fill, and its node if a graph made it.
    Transfer(Row, GraphNode),
    /// A kernel, the address of its name in memory, and its node if a graph launched it.
    Kernel(Row, u64, GraphNode),
    /// A launch of a graph that is recorded as a whole, and the number of the graph.
    Graph(Row, u32),
    /// A stream's wait for an event.
    StreamWait(Row, EventUse),
    /// A record of an event: `CUpti_ActivityCudaEvent`, or a later version of this struct.
    Event(EventUse),
    /// A sample of the environment of a device.
    Sample(Sample),
    /// A call, the API of the called function, and the number of this function.
    Call(Row, Api, u32),
    /// The start or the end of a named range, or a named moment: `CUpti_ActivityMarker2`.
    Mark {
        /// The activity without its name. Its correlation number is the number of the range.
        row: Row,
        /// The address of the name; 0 for the end of a range.
        name: u64,
        /// The address of the name of the NVTX domain; 0 for the default domain.
        domain: u64,
    },
    /// A context.
    Context {
        /// The number of the context.
        context: u32,
        /// The device of the context.
        device: u32,
        /// The number of the legacy default stream of the context.
        null_stream: u32,
    },
    /// A stream that was created.
    Stream {
        /// The context of the stream.
        context: u32,
        /// The number of the stream.
        stream: u32,
        /// The class of the stream: 0 to 3, with the meaning that
        /// [`file::stream`](crate::file::stream) documents.
        class: u32,
    },
    /// An allocation or a free. The record is `CUpti_ActivityMemory3` of CUDA 12.0, or a later
    /// version of this struct.
    Allocation(Allocated),
    /// The tag under which a call was made: `CUpti_ActivityExternalCorrelation`.
    Tag {
        /// The correlation number of the call.
        correlation: u32,
        /// The tag.
        tag: u64,
    },
}

/// The bytes of a record. The methods read the field that starts at the offset `at`.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn byte(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn half(self, at: usize) -> Option<u16> {
        self.0.get(at..at + 2)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
    }

    fn word(self, at: usize) -> Option<u32> {
        self.0.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn long(self, at: usize) -> Option<u64> {
        self.0.get(at..at + 8)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// An activity whose start and end are at the offsets `begin` and `end`. The times are not
    /// checked. The activity has no name, and its other fields are 0.
    fn timed(self, kind: [u8; 4], [begin, end]: [usize; 2]) -> Option<Row> {
        let (begin, end) = (self.long(begin)?, self.long(end)?);
        Some(Row { kind, begin, end, name: NO_NAME, ..Row::default() })
    }

    /// An activity with its times, its correlation number, its device, its context and its stream.
    /// The arguments are the offsets of these fields. The device, the context and the stream are
    /// adjacent, and start at the offset `device`.
    fn operation(
        self,
        kind: [u8; 4],
        times: [usize; 2],
        device: usize,
        correlation: usize,
    ) -> Option<Row> {
        Some(Row {
            device: self.word(device)?,
            context: self.word(device + 4)?,
            stream: self.word(device + 8)?,
            correlation: self.word(correlation)?,
            ..self.timed(kind, times)?
        })
    }

    /// The node of an operation, from the offsets of the numbers of the node and of its graph.
    fn node(self, node: usize, graph: usize) -> Option<GraphNode> {
        Some(GraphNode { graph: self.word(graph)?, node: self.long(node)? })
    }

    /// The number that a wait shares with the record of its event. CUPTI of a version without these
    /// numbers has records that end before them. `CUPTI_SYNCHRONIZATION_INVALID_VALUE` and 0 stand
    /// for no number.
    fn sync(self, at: usize, version: u32) -> Option<u64> {
        const INVALID: u64 = 0xffff_ffff;
        if version < SYNC_IDS_SINCE {
            return Some(NO_SYNC);
        }
        self.long(at).map(|sync| if matches!(sync, 0 | INVALID) { NO_SYNC } else { sync })
    }
}

/// Reads the record at the start of `bytes`, which CUPTI of this `version` made. Other records may
/// follow it. `None` if the record is incomplete, or if this library does not read its kind.
#[must_use]
pub fn read(bytes: &[u8], version: u32) -> Option<Record> {
    let fields = Fields(bytes);
    match fields.word(0)? {
        kinds::CONCURRENT_KERNEL | kinds::KERNEL => {
            let row = fields.operation([kind::KERNEL, 0, 0, 0], [16, 24], 40, 92)?;
            Some(Record::Kernel(row, fields.long(104)?, fields.node(144, 156)?))
        }
        kinds::MEMCPY => copy(fields, 44),
        kinds::MEMCPY2 => copy(fields, 60),
        kinds::MEMSET => {
            let row = fields.operation([kind::FILL, 0, 0, 0], [16, 24], 32, 44)?;
            let row = Row { bytes: fields.long(8)?, ..row };
            Some(Record::Transfer(row, fields.node(60, 68)?))
        }
        kinds::GRAPH_TRACE => graph(fields, version),
        kinds::CUDA_EVENT => Some(Record::Event(EventUse {
            what: event::RECORD,
            correlation: fields.word(4)?,
            context: fields.word(8)?,
            stream: fields.word(12)?,
            event: fields.word(16)?,
            sync: fields.sync(48, version)?,
            at: 0,
        })),
        kinds::ENVIRONMENT => environment(fields),
        kinds::SYNCHRONIZATION => wait(fields, version),
        call @ (kinds::RUNTIME | kinds::DRIVER) => {
            let (api, code) =
                if call == kinds::RUNTIME { (Api::Runtime, 0) } else { (Api::Driver, 1) };
            let row = fields.timed([kind::CALL, code, 0, 0], [8, 16])?;
            let row = Row { thread: fields.word(28)?, correlation: fields.word(32)?, ..row };
            Some(Record::Call(row, api, fields.word(4)?))
        }
        kinds::OVERHEAD => {
            let row = fields.timed([kind::OVERHEAD, overhead(fields.word(4)?), 0, 0], [24, 32])?;
            Some(Record::Plain(row))
        }
        kinds::MARKER => mark(fields),
        kinds::CONTEXT => Some(Record::Context {
            context: fields.word(4)?,
            device: fields.word(8)?,
            null_stream: u32::from(fields.half(14)?),
        }),
        kinds::STREAM => Some(Record::Stream {
            context: fields.word(4)?,
            stream: fields.word(8)?,
            // The values 1 to 3 of `CUpti_ActivityStreamFlag`: default, non-blocking, null.
            class: Some(fields.word(16)?).filter(|class| *class <= 3).unwrap_or(0),
        }),
        kinds::MEMORY2 => Some(Record::Allocation(Allocated {
            // The values 1 and 2 of `CUpti_ActivityMemoryOperationType`: allocation, release.
            what: u8::try_from(fields.word(4)?).ok().filter(|what| matches!(what, 1 | 2))?,
            memory: memory(u8::try_from(fields.word(8)?).unwrap_or(0)),
            in_order: fields.word(72)? != 0,
            device: fields.word(52)?,
            context: fields.word(56)?,
            stream: fields.word(60)?,
            correlation: fields.word(12)?,
            address: fields.long(16)?,
            bytes: fields.long(24)?,
            at: fields.long(32)?,
        })),
        kinds::EXTERNAL_CORRELATION => {
            Some(Record::Tag { correlation: fields.word(16)?, tag: fields.long(8)? })
        }
        _ => None,
    }
}

/// Reads a wait of the host or of a stream.
fn wait(fields: Fields<'_>, version: u32) -> Option<Record> {
    /// A stream's wait for an event.
    const STREAM_WAIT: u8 = 2;
    // The values 1 to 4 of `CUpti_ActivitySynchronizationType`: synchronization with an event, a
    // stream's wait for an event, synchronization with a stream, synchronization with a context.
    let of = u8::try_from(fields.word(4)?).ok().filter(|of| *of <= 4).unwrap_or(0);
    let row = fields.timed([kind::SYNC, of, 0, 0], [8, 16])?;
    let row = Row {
        correlation: fields.word(24)?,
        context: fields.word(28)?,
        stream: fields.word(32)?,
        ..row
    };
    if of != STREAM_WAIT {
        return Some(Record::Plain(row));
    }
    let of_event = EventUse {
        what: event::WAIT,
        context: row.context,
        stream: row.stream,
        correlation: row.correlation,
        event: fields.word(36)?,
        sync: fields.sync(40, version)?,
        at: row.begin,
    };
    Some(Record::StreamWait(row, of_event))
}

/// Reads a launch of a graph as a whole. A graph that begins on the host counts for the device and
/// the context of its end.
fn graph(fields: Fields<'_>, version: u32) -> Option<Record> {
    /// The number of a device or a context that stands for the host.
    const HOST: u32 = i32::MAX.cast_unsigned();
    let row = fields.timed([kind::KERNEL, 0, 0, 0], [8, 16])?;
    let (mut device, mut context) = (fields.word(24)?, fields.word(32)?);
    if device == HOST && version >= END_DEVICES_SINCE {
        (device, context) = (fields.word(48)?, fields.word(52)?);
    }
    let row =
        Row { device, context, stream: fields.word(36)?, correlation: fields.word(4)?, ..row };
    (device != HOST).then_some(Record::Graph(row, fields.word(28)?))
}

/// Reads a sample of the environment. The values of `CUpti_ActivityEnvironmentKind` are the ones of
/// [`sample`].
fn environment(fields: Fields<'_>) -> Option<Record> {
    let what = u8::try_from(fields.word(16)?).ok()?;
    let values = match what {
        sample::CLOCKS => [fields.word(20)?, fields.word(24)?, fields.word(36)?],
        sample::POWER => [fields.word(20)?, fields.word(24)?, 0],
        sample::TEMPERATURE | sample::FAN => [fields.word(20)?, 0, 0],
        _ => return None,
    };
    Some(Record::Sample(Sample { what, device: fields.word(4)?, at: fields.long(8)?, values }))
}

/// Reads a copy. `CUpti_ActivityMemcpy6` and `CUpti_ActivityMemcpyPtoP4` have the same fields, but
/// the correlation number and the graph have different offsets.
fn copy(fields: Fields<'_>, correlation: usize) -> Option<Record> {
    let direction = match fields.byte(4)? {
        1 | 3 => 1,
        2 | 4 => 2,
        5..=8 => 3,
        10 => 4,
        9 => 5,
        _ => 0,
    };
    let kind = [kind::COPY, direction, memory(fields.byte(5)?), memory(fields.byte(6)?)];
    let row = fields.operation(kind, [16, 24], 32, correlation)?;
    let node = fields.node(correlation + 16, correlation + 24)?;
    Some(Record::Transfer(Row { bytes: fields.long(8)?, ..row }, node))
}

/// A mark. `CUpti_ActivityFlag` states its part of a range: 1 for a moment, 2 for the start of a
/// range, 4 for its end. `CUpti_ActivityObjectKind` 2 states that the mark belongs to a thread.
fn mark(fields: Fields<'_>) -> Option<Record> {
    let part = match fields.word(4)? & 7 {
        1 => mark::MOMENT,
        2 => mark::START,
        4 => mark::END,
        _ => return None,
    };
    let (at, thread) = (fields.long(8)?, fields.word(28)?);
    let row = Row {
        kind: [kind::MARK, part, 0, 0],
        thread: if fields.word(20)? == 2 { thread } else { 0 },
        correlation: fields.word(16)?,
        name: NO_NAME,
        begin: at,
        end: at,
        ..Row::default()
    };
    Some(Record::Mark { row, name: fields.long(40)?, domain: fields.long(48)? })
}

/// The code in the trace file for a value of `CUpti_ActivityMemoryKind`. Static device memory
/// counts as device memory, and static managed memory as managed memory.
fn memory(code: u8) -> u8 {
    match code {
        1 => 1,
        2 => 2,
        3 | 6 => 3,
        4 => 4,
        5 | 7 => 5,
        _ => 0,
    }
}

/// The code in the trace file for a value of `CUpti_ActivityOverheadKind`.
fn overhead(code: u32) -> u8 {
    match (code & 0xffff, code >> 16) {
        (1, 0) => 1,
        (0, cause @ 1..=7) => u8::try_from(cause).map_or(0, |cause| cause + 1),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
