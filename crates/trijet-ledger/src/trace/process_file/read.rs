//! The reader of a trace file of processes. The file may contain any bytes.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::StreamClass;
use crate::base::units::Nanos;
use crate::trace::activity::{
    Activity, ActivityKind, Allocation, AllocationKind, Api, ContextInfo, CopyDirection, End,
    EnvironmentSample, EventUse, EventUseKind, GraphEdge, GraphNode, GraphNodeId, MarkKind,
    MemoryKind, NameId, OverheadKind, ProcessTrace, SampleOf, StreamInfo, SyncKind,
};
use std::io::{self, Read};
use trijet_cupti::file::{
    ACTIVITIES_MAX, ACTIVITY, ALLOCATION, COMMAND, CONTEXT, EDGE, EDGES_MAX, END, EVENT, HEADER,
    MAGIC, NAME, NAME_BYTES_MAX, NAMES_MAX, NO_NAME, NO_SYNC, NODE, NODES_MAX, NOTE, RANK, SAMPLE,
    STREAM, THREAD, TROUBLE, VERSION, VERSION_OLDEST, event, mark, sample,
};

/// The maximum number of contexts that the reader accepts. The same maximum holds for streams, for
/// names of threads, for troubles, for notes, and for traces.
const OTHERS_MAX: usize = 1 << 16;

/// Reads all traces in a file.
///
/// ```
/// use trijet::trace::process_file;
/// let mut file = Vec::new();
/// process_file::header(&mut file, 1, 0, trijet::Nanos(0));
/// process_file::trouble(&mut file, "no library");
/// let traces = process_file::read(file.as_slice())?;
/// assert_eq!(traces[0].troubles, ["no library"]);
/// assert!(traces[0].end.is_none(), "the process did not write its end");
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// # Errors
/// `Io` if reading fails, or if the file is damaged or exceeds a limit of the reader. The error
/// names the position of the byte. A file with bytes after the end of its last trace is refused.
///
/// If the last block is cut, the file is read up to that block: the process was killed while it
/// wrote, or the disk was full. Activities beyond the limit of 2^25 are counted and left out
/// ([`ProcessTrace::left_out`]).
pub fn read(from: impl Read) -> Result<Vec<ProcessTrace>> {
    let mut reader = ProcessReader { from, at: 0, cut: 0, traces: Vec::new(), activities: 0 };
    while let Some((tag, payload)) = reader.block()? {
        let at = reader.at - payload.len() as u64;
        reader.decode(tag, &payload).map_err(|cause| damaged(at, &cause))?;
    }
    let ended = reader.traces.last().is_some_and(|trace| trace.end.is_some());
    if ended && reader.cut > 0 {
        return Err(damaged(reader.at, &beyond(reader.at)));
    }
    Ok(reader.traces)
}

/// The reason to refuse a file that has more bytes at `at`, the end of its last trace.
fn beyond(at: u64) -> String {
    format!(
        "the file has bytes after the end of its trace that do not begin another trace; copy the \
         file again, or \
         cut the file with `truncate --size={at}`"
    )
}

fn damaged(at: u64, cause: &str) -> Error {
    Error::new(ErrorKind::Io, "read trace", format!("byte {at}: {cause}"))
}

struct ProcessReader<R> {
    from: R,
    /// The number of bytes that were read as whole blocks.
    at: u64,
    /// The number of bytes of the last block, if the block is cut.
    cut: u64,
    traces: Vec<ProcessTrace>,
    activities: u64,
}

/// The reason to refuse a file of another format.
const NOT_A_TRACE: &str = "not a trace, as `trijet trace -o FILE` writes it";

/// A result. Its error is the reason why a block is refused.
type Decoded<T> = std::result::Result<T, String>;

impl<R: Read> ProcessReader<R> {
    /// The tag and the payload of the next block; `None` at the end of the file.
    fn block(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        let mut head = [0; 4];
        let got = self.fill(&mut head)?;
        if got == 0 {
            return Ok(None);
        }
        if self.at == 0 && (got < 4 || head[0] != HEADER.0) {
            return Err(damaged(0, NOT_A_TRACE));
        }
        if got < 4 {
            self.cut = got as u64;
            return Ok(None);
        }
        let mut payload = vec![0; usize::from(u16::from_le_bytes([head[2], head[3]]))];
        let got = self.fill(&mut payload)?;
        if got < payload.len() {
            self.cut = 4 + got as u64;
            return Ok(None);
        }
        self.at += 4 + got as u64;
        Ok(Some((head[0], payload)))
    }

    /// Reads until `into` is full or the file ends. Returns the number of bytes that were read.
    fn fill(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut got = 0;
        while got < into.len() {
            match self.from.read(&mut into[got..]) {
                Ok(0) => break,
                Ok(bytes) => got += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(damaged(self.at, &error.to_string()).caused_by(error));
                }
            }
        }
        Ok(got)
    }

    fn decode(&mut self, tag: u8, payload: &[u8]) -> Decoded<()> {
        if tag == HEADER.0 {
            let trace = header(sized(payload, HEADER.1)?)?;
            below(OTHERS_MAX, self.traces.len(), "processes")?;
            self.traces.push(trace);
            return Ok(());
        }
        let Some(trace) = self.traces.last_mut() else {
            return Err(NOT_A_TRACE.to_owned());
        };
        if trace.end.is_some() {
            let head = 4 + payload.len() as u64;
            return Err(beyond(self.at - head));
        }
        match tag {
            NAME => name(trace, payload),
            TROUBLE => {
                below(OTHERS_MAX, trace.troubles.len(), "troubles")?;
                trace.troubles.push(text(payload)?);
                Ok(())
            }
            NOTE => {
                below(OTHERS_MAX, trace.notes.len(), "notes")?;
                trace.notes.push(text(payload)?);
                Ok(())
            }
            COMMAND => {
                trace.command = text(payload)?;
                Ok(())
            }
            THREAD => thread(trace, payload),
            tag if tag == RANK.0 => {
                let [rank] = words(sized(payload, RANK.1)?);
                trace.rank = Some(rank);
                Ok(())
            }
            tag if tag == CONTEXT.0 => {
                below(OTHERS_MAX, trace.contexts.len(), "contexts")?;
                let [context, device, null_stream] = words(sized(payload, CONTEXT.1)?);
                trace.contexts.push(ContextInfo { context, device, null_stream });
                Ok(())
            }
            tag if tag == STREAM.0 => {
                below(OTHERS_MAX, trace.streams.len(), "streams")?;
                let [context, stream, class] = words(sized(payload, STREAM.1)?);
                let class = class_of(class)?;
                trace.streams.push(StreamInfo { context, stream, class });
                Ok(())
            }
            tag if tag == NODE.0 => node(trace, sized(payload, NODE.1)?),
            tag if tag == EDGE.0 => edge(trace, sized(payload, EDGE.1)?),
            tag if tag == END.0 => end(trace, sized(payload, END.1)?),
            tag => counted(trace, &mut self.activities, tag, payload),
        }
    }
}

/// Reads a block of a kind that counts towards [`ACTIVITIES_MAX`]. `count` is the number of such
/// blocks so far. Blocks over the maximum are left out.
fn counted(trace: &mut ProcessTrace, count: &mut u64, tag: u8, payload: &[u8]) -> Decoded<()> {
    let has_room = *count < ACTIVITIES_MAX;
    match tag {
        tag if tag == ACTIVITY.0 => {
            let one = activity(sized(payload, ACTIVITY.1)?, trace)?;
            if has_room {
                trace.activities.push(one);
            } else {
                trace.left_out += 1;
            }
        }
        tag if tag == ALLOCATION.0 => {
            let one = allocation(sized(payload, ALLOCATION.1)?)?;
            trace.allocations.extend(has_room.then_some(one));
        }
        tag if tag == EVENT.0 => {
            let one = event_use(sized(payload, EVENT.1)?)?;
            trace.events.extend(has_room.then_some(one));
        }
        tag if tag == SAMPLE.0 => {
            let one = sample_of(sized(payload, SAMPLE.1)?)?;
            trace.samples.extend(has_room.then_some(one));
        }
        tag => return Err(format!("a block of the unknown kind {tag}")),
    }
    *count += u64::from(has_room);
    Ok(())
}

/// Refuses another item if there are `limit` items already.
fn below(limit: usize, have: usize, items: &str) -> Decoded<()> {
    if have < limit { Ok(()) } else { Err(format!("more than {limit} {items}")) }
}

fn sized(payload: &[u8], length: usize) -> Decoded<&[u8]> {
    if payload.len() == length {
        return Ok(payload);
    }
    Err(format!("a block of {} bytes, where {length} are expected", payload.len()))
}

/// The first `N` numbers of a payload, each of 4 bytes. The caller has checked the length of the
/// payload.
fn words<const N: usize>(payload: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(payload.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

/// The first `N` numbers of a payload, each of 8 bytes. The caller has checked the length of the
/// payload.
fn longs<const N: usize>(payload: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(payload.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

fn header(payload: &[u8]) -> Decoded<ProcessTrace> {
    let (magic, rest) = payload.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(NOT_A_TRACE.to_owned());
    }
    let [version, process, interface, _] = words(rest);
    if !(VERSION_OLDEST..=VERSION).contains(&version) {
        return Err(format!(
            "a trace of version {version}; this program reads versions {VERSION_OLDEST} to {VERSION}"
        ));
    }
    let [_, _, _, began] = longs(payload);
    Ok(ProcessTrace { process, interface, began: Nanos(began), ..ProcessTrace::default() })
}

fn thread(trace: &mut ProcessTrace, payload: &[u8]) -> Decoded<()> {
    below(OTHERS_MAX, trace.threads.len(), "names of threads")?;
    let Some((number, name)) = payload.split_first_chunk::<4>() else {
        return Err("a name of a thread has no number".to_owned());
    };
    let thread = u32::from_le_bytes(*number);
    trace.threads.insert(thread, text(name)?);
    Ok(())
}

fn name(trace: &mut ProcessTrace, payload: &[u8]) -> Decoded<()> {
    let Some((id, bytes)) = payload.split_first_chunk::<4>() else {
        return Err(format!("a name block of {} bytes; its number needs 4", payload.len()));
    };
    below(NAMES_MAX, trace.names.len(), "names")?;
    let (id, expected) = (u32::from_le_bytes(*id), trace.names.len());
    if u64::from(id) != expected as u64 {
        return Err(format!("a name with the number {id}, where {expected} is expected"));
    }
    if bytes.len() > NAME_BYTES_MAX {
        return Err(format!("a name of {} bytes; the limit is {NAME_BYTES_MAX}", bytes.len()));
    }
    // The names need not be UTF-8. The tracing library may also have cut a name inside a character.
    trace.names.push(String::from_utf8_lossy(bytes).into_owned());
    Ok(())
}

fn text(payload: &[u8]) -> Decoded<String> {
    if payload.len() > NAME_BYTES_MAX {
        return Err(format!("a text of {} bytes; the limit is {NAME_BYTES_MAX}", payload.len()));
    }
    String::from_utf8(payload.to_vec()).map_err(|_| "a text that is not UTF-8".to_owned())
}

fn class_of(code: u32) -> Decoded<Option<StreamClass>> {
    Ok(match code {
        0 => None,
        1 => Some(StreamClass::Blocking),
        2 => Some(StreamClass::NonBlocking),
        3 => Some(StreamClass::Legacy),
        4 => Some(StreamClass::PerThread),
        code => return Err(format!("a stream of the unknown class {code}")),
    })
}

fn node(trace: &mut ProcessTrace, payload: &[u8]) -> Decoded<()> {
    below(NODES_MAX, trace.nodes.len(), "nodes of graphs")?;
    let [id, graph] = words(payload);
    let [_, node] = longs(payload);
    let expected = trace.nodes.len();
    if u64::from(id) != expected as u64 {
        return Err(format!("a node with the number {id}, where {expected} is expected"));
    }
    trace.nodes.push(GraphNode { graph, node: (node != 0).then_some(node) });
    Ok(())
}

fn edge(trace: &mut ProcessTrace, payload: &[u8]) -> Decoded<()> {
    below(EDGES_MAX, trace.edges.len(), "edges of graphs")?;
    let [graph] = words(payload);
    let [from, to] = longs(&payload[4..]);
    if from == to {
        return Err(format!("an edge of a graph from the node {from} to itself"));
    }
    trace.edges.push(GraphEdge { graph, from, to });
    Ok(())
}

fn event_use(payload: &[u8]) -> Decoded<EventUse> {
    let what = match payload[0] {
        event::RECORD => EventUseKind::Record,
        event::WAIT => EventUseKind::Wait,
        code => return Err(format!("a use of an event of the unknown kind {code}")),
    };
    let [context, stream, correlation, event] = words(&payload[4..]);
    let [sync, at] = longs(&payload[20..]);
    let sync = (sync != NO_SYNC).then_some(sync);
    Ok(EventUse { what, context, stream, correlation, event, sync, at: Nanos(at) })
}

fn sample_of(payload: &[u8]) -> Decoded<EnvironmentSample> {
    let [device, first, second, third] = words(&payload[4..]);
    let [at] = longs(&payload[24..]);
    let of = match payload[0] {
        sample::CLOCKS => SampleOf::Clocks { sm: first, memory: second, reasons: third },
        sample::TEMPERATURE => SampleOf::Temperature(first),
        sample::POWER => SampleOf::Power { power: first, limit: second },
        sample::FAN => SampleOf::Fan(first),
        code => return Err(format!("a sample of the unknown kind {code}")),
    };
    Ok(EnvironmentSample { device, at: Nanos(at), of })
}

fn activity(payload: &[u8], trace: &ProcessTrace) -> Decoded<Activity> {
    let (code, rest) = payload.split_at(8);
    let kind = kind(code[0], code[1], code[2], code[3])?;
    let [_, node] = words(code);
    let (names, nodes) = (trace.names.len(), trace.nodes.len());
    if u64::from(node) > nodes as u64 {
        return Err(format!("an activity has the node {node}, but the trace has {nodes} nodes"));
    }
    let node = node.checked_sub(1).map(GraphNodeId);
    let [device, context, stream, thread, correlation, name] = words(rest);
    let [bytes, begin, end] = longs(&rest[24..]);
    let name = (name != NO_NAME).then_some(NameId(name));
    if let Some(NameId(name)) = name.filter(|name| u64::from(name.0) >= names as u64) {
        return Err(format!("an activity has the name {name}, but the trace has {names} names"));
    }
    let (begin, end) = (Nanos(begin), Nanos(end));
    Ok(Activity {
        kind,
        begin,
        end,
        bytes,
        name,
        device,
        context,
        stream,
        thread,
        correlation,
        node,
    })
}

fn allocation(payload: &[u8]) -> Decoded<Allocation> {
    let (code, rest) = payload.split_at(4);
    let unknown = || format!("an allocation of the unknown kind {code:?}");
    let what = match code[0] {
        1 => AllocationKind::Allocate,
        2 => AllocationKind::Free,
        _ => return Err(unknown()),
    };
    let memory = memory(code[1]).ok_or_else(unknown)?;
    let in_order = match code[2] {
        0 => false,
        1 => true,
        _ => return Err(unknown()),
    };
    let [device, context, stream, correlation] = words(rest);
    let [address, bytes, at] = longs(&rest[16..]);
    let at = Nanos(at);
    Ok(Allocation {
        what,
        memory,
        in_order,
        device,
        context,
        stream,
        correlation,
        address,
        bytes,
        at,
    })
}

fn kind(kind: u8, a: u8, b: u8, c: u8) -> Decoded<ActivityKind> {
    let unknown = || format!("an activity of the unknown kind {kind}.{a}.{b}.{c}");
    Ok(match (kind, a) {
        (1, 0) => ActivityKind::Kernel,
        (2, direction) => {
            let direction = match direction {
                0 => CopyDirection::Unknown,
                1 => CopyDirection::Upload,
                2 => CopyDirection::Download,
                3 => CopyDirection::Within,
                4 => CopyDirection::Peer,
                5 => CopyDirection::Host,
                _ => return Err(unknown()),
            };
            let (Some(from), Some(to)) = (memory(b), memory(c)) else { return Err(unknown()) };
            ActivityKind::Copy { direction, from, to }
        }
        (3, 0) => ActivityKind::Fill,
        (4, 0) => ActivityKind::Sync(SyncKind::Unknown),
        (4, 1) => ActivityKind::Sync(SyncKind::Event),
        (4, 2) => ActivityKind::Sync(SyncKind::StreamWait),
        (4, 3) => ActivityKind::Sync(SyncKind::Stream),
        (4, 4) => ActivityKind::Sync(SyncKind::Context),
        (5, 0) => ActivityKind::Call(Api::Runtime),
        (5, 1) => ActivityKind::Call(Api::Driver),
        (6, 0) => ActivityKind::Overhead(OverheadKind::Unknown),
        (6, 1) => ActivityKind::Overhead(OverheadKind::Compiler),
        (6, 2) => ActivityKind::Overhead(OverheadKind::Flush),
        (6, 3) => ActivityKind::Overhead(OverheadKind::Instrumentation),
        (6, 4) => ActivityKind::Overhead(OverheadKind::Resource),
        (6, 5) => ActivityKind::Overhead(OverheadKind::ModuleLoading),
        (6, 6) => ActivityKind::Overhead(OverheadKind::LazyLoading),
        (6, 7) => ActivityKind::Overhead(OverheadKind::CommandBufferFull),
        (6, 8) => ActivityKind::Overhead(OverheadKind::BufferRequest),
        (7, mark::START) => ActivityKind::Mark(MarkKind::Start),
        (7, mark::END) => ActivityKind::Mark(MarkKind::End),
        (7, mark::MOMENT) => ActivityKind::Mark(MarkKind::Moment),
        _ => return Err(unknown()),
    })
}

fn memory(code: u8) -> Option<MemoryKind> {
    Some(match code {
        0 => MemoryKind::Unknown,
        1 => MemoryKind::Pageable,
        2 => MemoryKind::Pinned,
        3 => MemoryKind::Device,
        4 => MemoryKind::Array,
        5 => MemoryKind::Managed,
        _ => return None,
    })
}

fn end(trace: &mut ProcessTrace, payload: &[u8]) -> Decoded<()> {
    let [activities, dropped, unknown, declined, own_time, at] = longs(payload);
    let have = trace.activities.len() as u64 + trace.left_out;
    if activities != have {
        return Err(format!("the end counts {activities} activities, but the trace has {have}"));
    }
    let (own_time, at) = (Nanos(own_time), Nanos(at));
    trace.end = Some(End { activities, dropped, unknown, declined, own_time, at });
    Ok(())
}
