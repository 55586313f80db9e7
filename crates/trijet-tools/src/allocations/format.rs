//! Traces of allocations as CSV text. The first line names the columns. Each other line is a row
//! for one call.
//!
//! The columns `Thread`, `Action`, `Pointer`, `Size` and `Stream` are the same as in a log of
//! RAPIDS rmm, so such a log can be replayed. `Nanos`, `Other` and `Device` are additional columns.
//! A column with any other name is not read. The rows of each device are a separate trace, with its
//! own pointers, streams and threads: a pointer of one device means nothing on another device. A
//! text without the column `Device` is about one device. The actions are:
//!
//! | action | columns | meaning |
//! |---|---|---|
//! | `allocate` | `Pointer`, `Size`, `Stream` | memory for the stream, named by the pointer |
//! | `free` | `Pointer`, `Stream` | the memory is free after all earlier work of the stream |
//! | `use` | `Pointer`, `Stream`, `Nanos` | a kernel that uses the memory for that long |
//! | `follow` | `Stream`, `Other` | later work waits for all earlier work of `Other` |
//! | `synchronize` | `Stream` | the host waits for the stream |
//!
//! `deallocate` means the same as `free`. A row with the action `allocate failure` or `deallocate
//! failure`, which rmm writes, is counted and left out. An incomplete last line is left out. A cell
//! may be quoted, and a UTF-8 byte order mark may precede the text.
#![forbid(unsafe_code)]

use super::cells::Cells;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::BufRead;
use trijet::{Error, ErrorKind, Result};

/// The first line of a trace that this module writes.
const HEAD: &str = "Thread,Action,Pointer,Size,Stream,Nanos,Other";
/// The end of the first line of a text about several devices: one more column.
const DEVICE: &str = ",Device";
/// Maximum number of threads of a trace, of streams of a trace, and of devices of a text.
const NAMES_MAX: usize = 256;
/// Maximum length of a line in bytes.
const LINE_MAX: usize = 4096;

/// The byte order mark that some editors and spreadsheets write before a text.
const MARK: char = '\u{feff}';

/// The value of a part of a line, or a message about an error in this part.
type Parsed<T> = std::result::Result<T, String>;

/// A call of a trace. The allocations are numbered from 0, in the order of the rows in which they
/// first occur. The streams and the threads are numbered in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRow {
    /// The host thread that makes the call.
    pub thread: u16,
    /// The call.
    pub action: Action,
}

/// The call of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Allocates memory for work of a stream.
    Allocate {
        /// The number of the allocation.
        id: u32,
        /// The size of the allocation in bytes.
        bytes: u64,
        /// The number of the stream.
        stream: u16,
    },
    /// Frees memory after the work of a stream.
    Free {
        /// The number of the allocation.
        id: u32,
        /// The number of the stream.
        stream: u16,
    },
    /// Uses memory in a kernel.
    Use {
        /// The number of the allocation.
        id: u32,
        /// The number of the stream of the kernel.
        stream: u16,
        /// The duration of the kernel in nanoseconds.
        ns: u32,
    },
    /// Makes the later work of a stream wait for all work that was enqueued in another stream
    /// before this call.
    Follow {
        /// The number of the stream that waits.
        stream: u16,
        /// The number of the stream whose work is waited for.
        other: u16,
    },
    /// Makes the host wait for a stream.
    Synchronize {
        /// The number of the stream.
        stream: u16,
    },
}

/// A trace of allocations.
///
/// ```
/// use trijet_tools::allocations::Trace;
/// let text = "Thread,Time,Action,Pointer,Size,Stream\n\
///             7,12:00:00:000001,allocate,0x100,4096,0x1\n\
///             7,12:00:00:000009,free,0x100,4096,0x1\n";
/// let trace = Trace::read(text.as_bytes())?;
/// assert_eq!((trace.rows.len(), trace.allocations, trace.peak()), (2, 1, 4096));
/// let wrong = text.replace("allocate,0x100", "allocate,0x200");
/// let error = Trace::read(wrong.as_bytes()).expect_err("it frees what it never allocated");
/// assert!(error.to_string().contains("line 3: 0x100 is not allocated"), "{error}");
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// The calls, in the order in which they were made.
    pub rows: Vec<TraceRow>,
    /// The number of allocations.
    pub allocations: u32,
    /// The number of streams.
    pub streams: u16,
    /// The number of threads.
    pub threads: u16,
}

/// The numbers of the names of one kind, for example of the streams. The names are numbered from 0,
/// in the order of their first use.
#[derive(Debug, Default)]
struct Names(HashMap<String, u16>);

impl Names {
    fn number(&mut self, name: &str, what: &str) -> Parsed<u16> {
        if let Some(number) = self.0.get(name) {
            return Ok(*number);
        }
        let number = self.0.len();
        if number == NAMES_MAX {
            return Err(format!(
                "`{name}`: a trace can have at most {NAMES_MAX} names of one kind, and this \
                 {what} is one more"
            ));
        }
        let number = u16::try_from(number).map_err(|_| format!("too many {what}s"))?;
        self.0.insert(name.to_owned(), number);
        Ok(number)
    }
}

/// The names of the columns in lower case, in the order of the first line.
#[derive(Debug, Default)]
struct Columns {
    names: Vec<String>,
}

impl Columns {
    fn of(line: &str, cells: &mut Cells) -> Parsed<Self> {
        let names = cells.of(line.trim_start_matches(MARK))?;
        let columns = Self { names: names.iter().map(|name| name.to_lowercase()).collect() };
        for needed in ["action", "pointer", "size", "stream"] {
            if columns.place(needed).is_none() {
                return Err(format!("no column is called `{needed}`: {}", shown(line)));
            }
        }
        Ok(columns)
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|column| column == name)
    }

    /// The cell of the column `name` in a line. Empty if there is no such column.
    fn cell<'l>(&self, cells: &[&'l str], name: &str) -> &'l str {
        self.place(name).and_then(|place| cells.get(place)).map_or("", |cell| *cell)
    }
}

/// The first 60 characters of a text from outside this program, without control characters, for a
/// message.
fn shown(text: &str) -> String {
    text.chars().take(60).filter(|character| !character.is_control()).collect()
}

fn number(text: &str, what: &str) -> Parsed<u64> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{}` is not a number for {what}", shown(text)))
}

/// A reader of the rows of one device, and the trace that it has read so far.
#[derive(Debug, Default)]
struct Reader {
    threads: Names,
    streams: Names,
    /// The number of each live allocation. The key is the pointer in the text.
    live: HashMap<u64, u32>,
    trace: Trace,
    failed: u64,
}

impl Reader {
    fn line(&mut self, columns: &Columns, cells: &[&str]) -> Parsed<()> {
        let Self { threads, streams, live, trace, failed } = self;
        let cell = |name| columns.cell(cells, name);
        let thread = threads.number(cell("thread"), "thread")?;
        let mut stream = |name| streams.number(cell(name), "stream");
        let pointer = || {
            let text = cell("pointer");
            number(text, "a pointer").map(|pointer| (pointer, text))
        };
        let known = |live: &HashMap<u64, u32>| {
            let (pointer, text) = pointer()?;
            live.get(&pointer).copied().ok_or_else(|| {
                format!(
                    "{} is not allocated: it was never allocated, or it was freed before",
                    shown(text)
                )
            })
        };
        let action = match cell("action") {
            "allocate" => {
                let (pointer, text) = pointer()?;
                let bytes = number(cell("size"), "a size")?;
                let id = trace.allocations;
                if live.insert(pointer, id).is_some() {
                    return Err(format!("{} is allocated already", shown(text)));
                }
                trace.allocations = id.checked_add(1).ok_or("more than 2^32 allocations")?;
                Action::Allocate { id, bytes, stream: stream("stream")? }
            }
            "free" | "deallocate" => {
                let id = known(live)?;
                live.remove(&pointer()?.0);
                Action::Free { id, stream: stream("stream")? }
            }
            "use" => {
                let ns = match cell("nanos") {
                    "" => 0,
                    text => number(text, "nanoseconds")?,
                };
                let ns = u32::try_from(ns).map_err(|_| format!("a use of {ns} ns is too long"))?;
                Action::Use { id: known(live)?, stream: stream("stream")?, ns }
            }
            "follow" => Action::Follow { stream: stream("stream")?, other: stream("other")? },
            "synchronize" => Action::Synchronize { stream: stream("stream")? },
            "allocate failure" | "deallocate failure" => {
                *failed += 1;
                return Ok(());
            }
            other => return Err(format!("`{}` is not an action", shown(other))),
        };
        trace.rows.push(TraceRow { thread, action });
        Ok(())
    }
}

/// The trace of one of the devices of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTrace {
    /// The name of the device. Empty in a text without the column `Device`.
    pub device: String,
    /// The trace of the calls for this device.
    pub trace: Trace,
    /// The number of calls that failed in the traced program. The trace does not contain these
    /// calls.
    pub failed: u64,
}

/// The content of a trace text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The traces of all devices, in the order of their first rows.
    pub devices: Vec<DeviceTrace>,
    /// The number of the last line if the line is incomplete. Such a line was left out.
    pub cut: Option<u64>,
}

/// Reads the traces of all devices of a text. If the traced program ended early, the last line may
/// be incomplete. A last line without a line end is read if it is valid and has a cell for each
/// column. Otherwise it is left out.
///
/// ```
/// use trijet_tools::allocations::{read_all, text_of};
/// let text = "Thread,Action,Pointer,Size,Stream,Nanos,Other,Device\n\
///             0,allocate,0x1,300,0,,,0 of process 7\n\
///             0,allocate,0x1,300,0,,,1 of process 8\n";
/// let traces = read_all(text.as_bytes())?.devices;
/// let peaks: Vec<u64> = traces.iter().map(|one| one.trace.peak()).collect();
/// assert_eq!((traces[1].device.as_str(), peaks), ("1 of process 8", vec![300, 300]));
/// assert_eq!(text_of(&traces), text);
/// let cut = read_all(text[..text.len() - 20].as_bytes())?;
/// assert_eq!((cut.devices.len(), cut.cut), (1, Some(3)));
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// `InvalidValue` with the number of the line, if a line is wrong. A line is wrong if it is too
/// long, or if it has an unknown action, a cell that is not a number, or a quote without an end. A
/// line is also wrong if it allocates a pointer that is already allocated, or uses or frees a
/// pointer that is not allocated. `Io` if the text cannot be read or is not UTF-8.
pub fn read_all(text: impl BufRead) -> Result<Text> {
    let mut columns = Columns::default();
    let (mut devices, mut readers) = (Names::default(), Vec::<(String, Reader)>::new());
    let mut text = text.take(u64::MAX);
    let (mut line, mut at, mut cut) = (String::new(), 0, None);
    let mut cells = Cells::new(LINE_MAX);
    loop {
        line.clear();
        text.set_limit(LINE_MAX as u64 + 1);
        let read = text.read_line(&mut line).map_err(|error| {
            let cause = format!("line {}: {error}", at + 1);
            Error::new(ErrorKind::Io, "read trace", cause).caused_by(error)
        })?;
        if read == 0 {
            break;
        }
        at += 1;
        let wrong = |cause| {
            Error::new(ErrorKind::InvalidValue, "read trace", format!("line {at}: {cause}"))
        };
        if read > LINE_MAX {
            return Err(wrong(format!("the line is longer than {LINE_MAX} bytes")));
        }
        let content = line.trim_end();
        if at == 1 {
            columns = Columns::of(content, &mut cells).map_err(wrong)?;
        } else if !content.is_empty() {
            let mut take = || {
                let cells = cells.of(content)?;
                if !line.ends_with('\n') && cells.len() < columns.names.len() {
                    return Err("it is cut off".to_owned());
                }
                let device = columns.cell(&cells, "device");
                let number = usize::from(devices.number(device, "device")?);
                if number == readers.len() {
                    readers.push((device.to_owned(), Reader::default()));
                }
                readers[number].1.line(&columns, &cells)
            };
            match take() {
                Err(_) if !line.ends_with('\n') => cut = Some(at),
                taken => taken.map_err(wrong)?,
            }
        }
    }
    if at == 0 {
        return Err(Error::new(ErrorKind::InvalidValue, "read trace", "the text has no lines"));
    }
    if readers.is_empty() {
        readers.push((String::new(), Reader::default()));
    }
    let devices = readers.into_iter().map(|(device, reader)| reader.finish(device)).collect();
    Ok(Text { devices, cut })
}

/// Writes the traces as a text that [`read_all`] can read. The rows of each device are together.
#[must_use]
pub fn text_of(traces: &[DeviceTrace]) -> String {
    let is_named = traces.iter().any(|one| !one.device.is_empty());
    let mut text = format!("{HEAD}{}\n", if is_named { DEVICE } else { "" });
    for DeviceTrace { device, trace, .. } in traces {
        // A comma or a line end must not occur in a cell, because the cells are not quoted.
        let device = device.replace([',', '\r', '\n'], " ");
        let end = if is_named { format!(",{}", device.trim()) } else { String::new() };
        trace.write(&mut text, &end);
    }
    text
}

impl Reader {
    fn finish(self, device: String) -> DeviceTrace {
        let Self { mut trace, threads, streams, failed, .. } = self;
        let count = |names: &Names| u16::try_from(names.0.len()).unwrap_or(u16::MAX);
        (trace.threads, trace.streams) = (count(&threads), count(&streams));
        DeviceTrace { device, trace, failed }
    }
}

impl Trace {
    /// Reads the trace of a text about one device.
    ///
    /// # Errors
    /// Errors of [`read_all`], and `InvalidValue` for a text about several devices.
    pub fn read(text: impl BufRead) -> Result<Self> {
        let mut all = read_all(text)?.devices;
        if all.len() > 1 {
            let cause = format!(
                "the text has the rows of {} devices, but only one device is expected",
                all.len()
            );
            return Err(Error::new(ErrorKind::InvalidValue, "read trace", cause));
        }
        Ok(all.swap_remove(0).trace)
    }

    /// The trace as a text that [`Trace::read`] can read.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        self.write(&mut text, "");
        text
    }

    /// Appends the rows of the trace to a text. `last` is appended to each line.
    fn write(&self, text: &mut String, last: &str) {
        for TraceRow { thread, action } in &self.rows {
            let end = match *action {
                Action::Allocate { id, bytes, stream } => {
                    format!("allocate,{:#x},{bytes},{stream},,", id + 1)
                }
                Action::Free { id, stream } => format!("free,{:#x},,{stream},,", id + 1),
                Action::Use { id, stream, ns } => format!("use,{:#x},,{stream},{ns},", id + 1),
                Action::Follow { stream, other } => format!("follow,,,{stream},,{other}"),
                Action::Synchronize { stream } => format!("synchronize,,,{stream},,"),
            };
            writeln!(text, "{thread},{end}{last}").expect("writing to a string");
        }
    }

    /// Maximum number of bytes that are allocated at the same time.
    #[must_use]
    pub fn peak(&self) -> u64 {
        let mut sizes = vec![0; self.allocations as usize];
        let (mut live, mut peak) = (0u64, 0);
        for row in &self.rows {
            match row.action {
                Action::Allocate { id, bytes, .. } => {
                    sizes[id as usize] = bytes;
                    live = live.saturating_add(bytes);
                    peak = peak.max(live);
                }
                Action::Free { id, .. } => live -= sizes[id as usize].min(live),
                Action::Use { .. } | Action::Follow { .. } | Action::Synchronize { .. } => {}
            }
        }
        peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Trace::read(text.as_bytes()).expect_err("it is wrong").to_string()
    }

    #[test]
    fn what_is_written_is_read() -> Result<()> {
        let text = "Thread,Action,Pointer,Size,Stream,Nanos,Other\n\
                    a,allocate,0x1,10,1,,\na,use,1,,2,500,\nb,follow,,,1,,2\na,free,1,,1,,\n\
                    a,allocate,1,20,1,,\nb,synchronize,,,2,,\n";
        let trace = Trace::read(text.as_bytes())?;
        assert_eq!((trace.allocations, trace.streams, trace.threads), (2, 2, 2));
        assert_eq!(trace.peak(), 20);
        assert_eq!(trace.rows[1].action, Action::Use { id: 0, stream: 1, ns: 500 });
        assert_eq!(Trace::read(trace.text().as_bytes())?, trace);
        Ok(())
    }

    #[test]
    fn columns_have_any_order_and_others_are_not_read() -> Result<()> {
        let text = "Stream , size,POINTER,x,action\n0x0,5,16,?,allocate\n0x0,5,16,?,deallocate\n";
        let rows = Trace::read(text.as_bytes())?.rows;
        assert_eq!(rows[0].action, Action::Allocate { id: 0, bytes: 5, stream: 0 });
        assert_eq!(rows[1].action, Action::Free { id: 0, stream: 0 });
        Ok(())
    }

    #[test]
    fn wrong_lines_are_named_with_their_number() {
        let head = "Action,Pointer,Size,Stream,Nanos\n";
        for (lines, cause) in [
            ("free,0x7,,0,\n", "line 2: 0x7 is not allocated"),
            ("allocate,1,8,0,\nfree,1,,0,\nfree,1,,0,\n", "line 4: 1 is not allocated"),
            ("allocate,1,8,0,\nallocate,1,8,0,\n", "line 3: 1 is allocated already"),
            ("allocate,1,-8,0,\n", "line 2: `-8` is not a number for a size"),
            ("allocate,1,99999999999999999999,0,\n", "is not a number for a size"),
            ("allocate,,8,0,\n", "`` is not a number for a pointer"),
            ("allocate,1,8,0,\nuse,1,,0,9999999999\n", "line 3: a use of 9999999999 ns"),
            ("grow,1,8,0,\n", "line 2: `grow` is not an action"),
        ] {
            let found = refusal(&format!("{head}{lines}"));
            assert!(found.contains(cause), "{found} for {lines:?}");
        }
        assert!(refusal("").contains("the text has no lines"));
        assert!(refusal("a,b\n").contains("no column is called `action`"));
        let long = format!("{head}{}\n", "x".repeat(LINE_MAX + 1));
        assert!(refusal(&long).contains("line 2: the line is longer"));
        let many: String = (0..300).map(|n| format!("synchronize,,,{n},\n")).collect();
        assert!(
            refusal(&format!("{head}{many}"))
                .contains("at most 256 names of one kind, and this stream")
        );
    }

    /// A spreadsheet writes a byte order mark and quotes. In an earlier version, the mark was read
    /// as a part of the first column's name.
    #[test]
    fn a_mark_before_the_text_and_quotes_around_cells_are_read() -> Result<()> {
        let plain = "Action,Pointer,Size,Stream\nallocate,1,8,0\nfree,1,,0\n";
        let quoted = "\u{feff}\"Action\",\"Pointer\",\"Size\",\"Stream\"\r\n\
                      \"allocate\",\"1\",\"8\",\"0\"\r\n\"free\",\"1\",,\"0\"\r\n";
        assert_eq!(Trace::read(quoted.as_bytes())?, Trace::read(plain.as_bytes())?);
        assert!(refusal("Action,Pointer,Size,Stream\nfree,\"1,,0\n").contains("line 2: a quote"));
        Ok(())
    }

    /// A program that ends early leaves a last line without a line end. The cells of this line may
    /// be cut off.
    #[test]
    fn a_last_line_without_its_end_is_cut_off_unless_it_is_whole() -> Result<()> {
        let whole = "Action,Pointer,Size,Stream\nallocate,0x7f00,8,0\n";
        for (last, cut) in
            [("", None), ("free,0x7f00,,0", None), ("free,0x7", Some(3)), ("fr", Some(3))]
        {
            let text = read_all(format!("{whole}{last}").as_bytes())?;
            assert_eq!(text.cut, cut, "{last}");
            let rows = text.devices[0].trace.rows.len();
            assert_eq!(rows, if last.len() > 8 { 2 } else { 1 }, "{last}");
        }
        assert!(refusal(&format!("{whole}free,0x7\nfree,0x7f00,,0\n")).contains("line 3: 0x7"));
        Ok(())
    }

    #[test]
    fn calls_that_failed_in_the_program_are_counted() -> Result<()> {
        let text = "Action,Pointer,Size,Stream\nallocate,1,8,0\nallocate failure,,999,0\n\
                    deallocate failure,1,,0\n";
        let read = read_all(text.as_bytes())?;
        assert_eq!((read.devices[0].trace.rows.len(), read.devices[0].failed), (1, 2));
        Ok(())
    }

    /// Both devices have an allocation at the same address at the same time. The streams of each
    /// device are numbered separately.
    #[test]
    fn the_rows_of_each_device_are_a_trace_of_their_own() -> Result<()> {
        let text = "Action,Pointer,Size,Stream,Device\nallocate,1,300,7,a\nallocate,1,200,8,b\n\
                    free,1,,7,a\nallocate,2,50,8,b\nfree,1,,8,b\n";
        let traces = read_all(text.as_bytes())?.devices;
        let found: Vec<_> = traces
            .iter()
            .map(|one| {
                (one.device.as_str(), one.trace.rows.len(), one.trace.peak(), one.trace.streams)
            })
            .collect();
        assert_eq!(found, [("a", 2, 300, 1), ("b", 3, 250, 1)]);
        assert_eq!(read_all(text_of(&traces).as_bytes())?.devices, traces);
        assert!(refusal(text).contains("2 devices"));
        let wrong = text.replace("free,1,,7,a", "free,2,,7,a");
        let error = read_all(wrong.as_bytes()).expect_err("the other device has that pointer");
        assert!(error.to_string().contains("line 4: 2 is not allocated"), "{error}");
        Ok(())
    }
}
