//! Reading records of strangers.
#![forbid(unsafe_code)]

use super::format::{
    ACTIVITIES_MAX, ACTIVITY, CONTEXT, END, HEADER, MAGIC, NAME, NAME_BYTES_MAX, NAMES_MAX,
    NO_NAME, OTHERS_MAX, STREAM, TROUBLE, VERSION,
};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::StreamClass;
use crate::base::units::Nanos;
use crate::trace::activity::{
    Activity, ActivityKind, Api, ContextInfo, Direction, End, Memory, NameId, OverheadKind,
    Recording, StreamInfo, SyncKind,
};
use std::io::{self, Read};

/// Reads every recording of a file.
///
/// ```
/// use trijet::trace::raw;
/// let mut file = Vec::new();
/// raw::header(&mut file, 1, 0, trijet::Nanos(0));
/// raw::trouble(&mut file, "no library");
/// let recordings = raw::read(file.as_slice())?;
/// assert_eq!(recordings[0].troubles, ["no library"]);
/// assert!(recordings[0].end.is_none(), "the process did not end well");
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// # Errors
/// `Io` when reading fails, and for what is damaged, cut inside a record, or larger than the
/// reader's limits, with the place in the file.
pub fn read(from: impl Read) -> Result<Vec<Recording>> {
    let mut reader = Reader { from, at: 0, recordings: Vec::new(), activities: 0 };
    while let Some((tag, payload)) = reader.record()? {
        let at = reader.at - payload.len() as u64;
        reader.take(tag, &payload).map_err(|cause| damaged(at, &cause))?;
    }
    Ok(reader.recordings)
}

fn damaged(at: u64, cause: &str) -> Error {
    Error::new(ErrorKind::Io, "read recording", format!("byte {at}: {cause}"))
}

struct Reader<R> {
    from: R,
    at: u64,
    recordings: Vec<Recording>,
    activities: u64,
}

/// Why a record is refused.
type Refusal<T> = std::result::Result<T, String>;

impl<R: Read> Reader<R> {
    /// The next record's tag and payload; `None` at the end of the file.
    fn record(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        let mut head = [0; 4];
        let got = self.fill(&mut head)?;
        if got == 0 {
            return Ok(None);
        }
        if self.at == 0 && (got < 4 || head[0] != HEADER.0) {
            return Err(damaged(0, "this is no recording"));
        }
        if got < 4 {
            return Err(damaged(self.at, "the file is cut inside a record"));
        }
        let begin = self.at;
        self.at += 4;
        let mut payload = vec![0; usize::from(u16::from_le_bytes([head[2], head[3]]))];
        let got = self.fill(&mut payload)?;
        if got < payload.len() {
            return Err(damaged(begin, "the file is cut inside a record"));
        }
        self.at += got as u64;
        Ok(Some((head[0], payload)))
    }

    /// Reads until `into` is full or the file ends.
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

    fn take(&mut self, tag: u8, payload: &[u8]) -> Refusal<()> {
        if tag == HEADER.0 {
            let recording = header(sized(payload, HEADER.1)?)?;
            room(self.recordings.len(), OTHERS_MAX, "processes")?;
            self.recordings.push(recording);
            return Ok(());
        }
        let Some(recording) = self.recordings.last_mut() else {
            return Err("this is no recording".to_owned());
        };
        if recording.end.is_some() {
            return Err("a record of a recording stands after its end".to_owned());
        }
        match tag {
            NAME => name(recording, payload),
            TROUBLE => {
                room(recording.troubles.len(), OTHERS_MAX, "troubles")?;
                recording.troubles.push(text(payload)?);
                Ok(())
            }
            tag if tag == CONTEXT.0 => {
                room(recording.contexts.len(), OTHERS_MAX, "contexts")?;
                let [context, device, null_stream] = words(sized(payload, CONTEXT.1)?);
                recording.contexts.push(ContextInfo { context, device, null_stream });
                Ok(())
            }
            tag if tag == STREAM.0 => {
                room(recording.streams.len(), OTHERS_MAX, "streams")?;
                let [context, stream, class] = words(sized(payload, STREAM.1)?);
                let class = class_of(class)?;
                recording.streams.push(StreamInfo { context, stream, class });
                Ok(())
            }
            tag if tag == ACTIVITY.0 => {
                let one = activity(sized(payload, ACTIVITY.1)?, recording.names.len())?;
                if self.activities == ACTIVITIES_MAX {
                    return Err(format!("more than {ACTIVITIES_MAX} activities"));
                }
                self.activities += 1;
                recording.activities.push(one);
                Ok(())
            }
            tag if tag == END.0 => end(recording, sized(payload, END.1)?),
            tag => Err(format!("a record of kind {tag}, which is unknown")),
        }
    }
}

/// There is space for one more.
fn room(have: usize, limit: usize, what: &str) -> Refusal<()> {
    if have < limit { Ok(()) } else { Err(format!("more than {limit} {what}")) }
}

fn sized(payload: &[u8], length: usize) -> Refusal<&[u8]> {
    if payload.len() == length {
        return Ok(payload);
    }
    Err(format!("a record of {} bytes, where {length} belong", payload.len()))
}

/// The first words of a payload whose length was checked.
fn words<const N: usize>(payload: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(payload.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

/// As `words`, of 8 bytes each.
fn longs<const N: usize>(payload: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(payload.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

fn header(payload: &[u8]) -> Refusal<Recording> {
    let (magic, rest) = payload.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err("this is no recording".to_owned());
    }
    let [version, process, interface, _] = words(rest);
    if version != VERSION {
        return Err(format!("a recording of version {version}; this program reads {VERSION}"));
    }
    let [_, _, _, began] = longs(payload);
    Ok(Recording { process, interface, began: Nanos(began), ..Recording::default() })
}

fn name(recording: &mut Recording, payload: &[u8]) -> Refusal<()> {
    let Some((id, bytes)) = payload.split_first_chunk::<4>() else {
        return Err("a name without its number".to_owned());
    };
    room(recording.names.len(), NAMES_MAX, "names")?;
    if u64::from(u32::from_le_bytes(*id)) != recording.names.len() as u64 {
        return Err("a name out of turn".to_owned());
    }
    if bytes.len() > NAME_BYTES_MAX {
        return Err(format!("a name longer than {NAME_BYTES_MAX} bytes"));
    }
    // Names come from the program, which need not use UTF-8; a long one may be cut in a character.
    recording.names.push(String::from_utf8_lossy(bytes).into_owned());
    Ok(())
}

fn text(payload: &[u8]) -> Refusal<String> {
    if payload.len() > NAME_BYTES_MAX {
        return Err(format!("a text longer than {NAME_BYTES_MAX} bytes"));
    }
    String::from_utf8(payload.to_vec()).map_err(|_| "a text that is not UTF-8".to_owned())
}

fn class_of(code: u32) -> Refusal<Option<StreamClass>> {
    Ok(match code {
        0 => None,
        1 => Some(StreamClass::Blocking),
        2 => Some(StreamClass::NonBlocking),
        3 => Some(StreamClass::Legacy),
        4 => Some(StreamClass::PerThread),
        code => return Err(format!("a stream of class {code}, which is unknown")),
    })
}

fn activity(payload: &[u8], names: usize) -> Refusal<Activity> {
    let (code, rest) = payload.split_at(8);
    let kind = kind(code[0], code[1], code[2], code[3])?;
    let [device, context, stream, thread, correlation, name] = words(rest);
    let [bytes, begin, end] = longs(&rest[24..]);
    if end != 0 && end < begin {
        return Err("an activity that ends before it begins".to_owned());
    }
    let name = (name != NO_NAME).then_some(NameId(name));
    if name.is_some_and(|name| u64::from(name.0) >= names as u64) {
        return Err("an activity with no such name".to_owned());
    }
    let (begin, end) = (Nanos(begin), Nanos(end));
    Ok(Activity { kind, begin, end, bytes, name, device, context, stream, thread, correlation })
}

fn kind(kind: u8, a: u8, b: u8, c: u8) -> Refusal<ActivityKind> {
    let unknown = || format!("an activity of kind {kind}.{a}.{b}.{c}, which is unknown");
    Ok(match (kind, a) {
        (1, 0) => ActivityKind::Kernel,
        (2, way) => {
            let direction = match way {
                0 => Direction::Unknown,
                1 => Direction::Upload,
                2 => Direction::Download,
                3 => Direction::Within,
                4 => Direction::Peer,
                5 => Direction::Host,
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
        _ => return Err(unknown()),
    })
}

fn memory(code: u8) -> Option<Memory> {
    Some(match code {
        0 => Memory::Unknown,
        1 => Memory::Pageable,
        2 => Memory::Pinned,
        3 => Memory::Device,
        4 => Memory::Array,
        5 => Memory::Managed,
        _ => return None,
    })
}

fn end(recording: &mut Recording, payload: &[u8]) -> Refusal<()> {
    let [activities, dropped, unknown, declined, host, at] = longs(payload);
    if activities != recording.activities.len() as u64 {
        let have = recording.activities.len();
        return Err(format!("the end counts {activities} activities, and there are {have}"));
    }
    let (host, at) = (Nanos(host), Nanos(at));
    recording.end = Some(End { activities, dropped, unknown, declined, host, at });
    Ok(())
}
