//! The offsets of the fields in CUPTI's records.
//!
//! A later version of a record has additional fields only at its end. For the fields below,
//! `CUpti_ActivityKernel9` of CUDA 12.0 is a prefix of `CUpti_ActivityKernel13` of CUDA 13.4. A C
//! compiler computed the offsets of the fields from the headers of CUDA 12.0, 12.4, 13.0 and 13.4.
//! The offsets are the same in all four versions. So records are read by offset, never as a struct
//! of one version, and never beyond the end of the shortest version. A CUPTI library with a version
//! outside of [`VERSIONS`] is not used. In its records, a field that is used as a pointer might
//! have another offset.

use crate::api::Api;
use crate::file::{Allocated, NO_NAME, Row, kind, mark};

/// The values of `CUPTI_API_VERSION` from CUDA 12.0 to CUDA 13.4, whose headers were compared.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 18..=130_499;

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
    /// Copies between devices.
    pub const MEMCPY2: u32 = 22;
    /// Streams.
    pub const STREAM: u32 = 37;
    /// Waits.
    pub const SYNCHRONIZATION: u32 = 38;
    /// Tags of calls. A tag is called external correlation id in CUPTI.
    pub const EXTERNAL_CORRELATION: u32 = 39;
    /// Allocations and frees.
    pub const MEMORY2: u32 = 49;

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

    /// The kinds of records for a trace of a foreign program, each with a name for messages.
    pub const ALL: [(u32, &str); 12] = [
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
        (MEMORY2, "allocations"),
        (MARKER, "named ranges"),
    ];
}

/// The content of a record. The name of a kernel or of a called function is not looked up yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// An activity that has no name.
    Plain(Row),
    /// A kernel, and the address of its name in memory.
    Kernel(Row, u64),
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
}

/// Reads the record at the start of `bytes`. Other records may follow it. `None` if the record is
/// incomplete, or if this library does not read its kind.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Record> {
    let fields = Fields(bytes);
    match fields.word(0)? {
        kinds::CONCURRENT_KERNEL | kinds::KERNEL => {
            let row = fields.operation([kind::KERNEL, 0, 0, 0], [16, 24], 40, 92)?;
            Some(Record::Kernel(row, fields.long(104)?))
        }
        kinds::MEMCPY => copy(fields, 44).map(Record::Plain),
        kinds::MEMCPY2 => copy(fields, 60).map(Record::Plain),
        kinds::MEMSET => {
            let row = fields.operation([kind::FILL, 0, 0, 0], [16, 24], 32, 44)?;
            Some(Record::Plain(Row { bytes: fields.long(8)?, ..row }))
        }
        kinds::SYNCHRONIZATION => {
            // The values 1 to 4 of `CUpti_ActivitySynchronizationType`: synchronization with an
            // event, a stream's wait for an event, synchronization with a stream, synchronization
            // with a context.
            let of = u8::try_from(fields.word(4)?).ok().filter(|of| *of <= 4).unwrap_or(0);
            let row = fields.timed([kind::SYNC, of, 0, 0], [8, 16])?;
            Some(Record::Plain(Row {
                correlation: fields.word(24)?,
                context: fields.word(28)?,
                stream: fields.word(32)?,
                ..row
            }))
        }
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

/// Reads a copy. `CUpti_ActivityMemcpy6` and `CUpti_ActivityMemcpyPtoP4` have the same fields, but
/// the correlation number has different offsets.
fn copy(fields: Fields<'_>, correlation: usize) -> Option<Row> {
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
    Some(Row { bytes: fields.long(8)?, ..row })
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
mod tests {
    use super::*;

    /// A record of `size` bytes. Each of `fields` is an offset and the bytes at this offset.
    fn record(size: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; size];
        for (at, field) in fields {
            bytes[*at..*at + field.len()].copy_from_slice(field);
        }
        bytes
    }

    fn word(value: u32) -> [u8; 4] {
        value.to_le_bytes()
    }

    fn long(value: u64) -> [u8; 8] {
        value.to_le_bytes()
    }

    #[test]
    fn a_kernel_is_read_by_its_offsets() {
        let bytes = record(
            208,
            &[
                (0, &word(10)),
                (16, &long(1000)),
                (24, &long(2000)),
                (40, &word(1)),
                (44, &word(2)),
                (48, &word(7)),
                (92, &word(55)),
                (104, &long(0xabc)),
            ],
        );
        let Some(Record::Kernel(one, name)) = read(&bytes) else {
            panic!("the record is not a kernel")
        };
        assert_eq!((one.begin, one.end, name), (1000, 2000, 0xabc));
        assert_eq!((one.device, one.context, one.stream, one.correlation), (1, 2, 7, 55));
    }

    #[test]
    fn a_pageable_upload_is_told_from_a_pinned_download() {
        let copy = |kind: u8, from: u8, to: u8| {
            let fields: &[(usize, &[u8])] = &[
                (0, &word(1)),
                (4, &[kind, from, to, 1]),
                (8, &long(4096)),
                (16, &long(10)),
                (24, &long(30)),
                (40, &word(13)),
                (44, &word(9)),
            ];
            match read(&record(88, fields)) {
                Some(Record::Plain(one)) => one,
                other => panic!("{other:?}"),
            }
        };
        let up = copy(1, 1, 3);
        assert_eq!(up.kind, [kind::COPY, 1, 1, 3]);
        assert_eq!((up.bytes, up.stream, up.correlation), (4096, 13, 9));
        let down = copy(2, 3, 2);
        assert_eq!(down.kind, [kind::COPY, 2, 3, 2]);
    }

    #[test]
    fn an_allocation_is_read_by_its_offsets() {
        let fields: &[(usize, &[u8])] = &[
            (0, &word(49)),
            (4, &word(2)),
            (8, &word(3)),
            (12, &word(55)),
            (16, &long(0xa000)),
            (24, &long(4096)),
            (32, &long(1000)),
            (52, &word(1)),
            (56, &word(2)),
            (60, &word(7)),
            (72, &word(1)),
        ];
        let Some(Record::Allocation(one)) = read(&record(136, fields)) else {
            panic!("the record is not a free")
        };
        assert_eq!((one.what, one.memory, one.in_order), (2, 3, true));
        assert_eq!((one.device, one.context, one.stream, one.correlation), (1, 2, 7, 55));
        assert_eq!((one.address, one.bytes, one.at), (0xa000, 4096, 1000));
        assert_eq!(
            read(&record(136, &[(0, &word(49)), (4, &word(3))])),
            None,
            "neither an allocation nor a free"
        );
    }

    #[test]
    fn calls_and_waits_keep_their_own_places() {
        let bytes = record(
            40,
            &[
                (0, &word(5)),
                (4, &word(211)),
                (8, &long(5)),
                (16, &long(6)),
                (28, &word(77)),
                (32, &word(88)),
            ],
        );
        let Some(Record::Call(one, api, function)) = read(&bytes) else {
            panic!("the record is not a call")
        };
        assert_eq!((one.thread, one.correlation, function), (77, 88, 211));
        assert_eq!((one.kind, api), ([kind::CALL, 0, 0, 0], Api::Runtime));
        let bytes = record(
            40,
            &[
                (0, &word(38)),
                (4, &word(4)),
                (8, &long(5)),
                (16, &long(6)),
                (24, &word(3)),
                (28, &word(1)),
                (32, &word(u32::MAX)),
            ],
        );
        let Some(Record::Plain(one)) = read(&bytes) else { panic!("the record is not a wait") };
        assert_eq!(one.kind, [kind::SYNC, 4, 0, 0]);
        assert_eq!((one.correlation, one.context, one.stream), (3, 1, u32::MAX));
    }

    #[test]
    fn the_legacy_stream_of_a_context_and_the_class_of_a_stream_are_read() {
        let bytes = record(16, &[(0, &word(9)), (4, &word(1)), (8, &word(2)), (14, &[7, 0])]);
        let info = Record::Context { context: 1, device: 2, null_stream: 7 };
        assert_eq!(read(&bytes), Some(info));
        let bytes = record(24, &[(0, &word(37)), (4, &word(1)), (8, &word(13)), (16, &word(2))]);
        assert_eq!(read(&bytes), Some(Record::Stream { context: 1, stream: 13, class: 2 }));
    }

    #[test]
    fn a_tag_and_the_call_that_was_made_under_it_are_read() {
        let bytes = record(24, &[(0, &word(39)), (4, &word(3)), (8, &long(70)), (16, &word(5))]);
        assert_eq!(read(&bytes), Some(Record::Tag { correlation: 5, tag: 70 }));
        assert_eq!(read(&bytes[..18]), None);
    }

    #[test]
    fn a_mark_is_read_by_its_offsets() {
        let fields: &[(usize, &[u8])] = &[
            (0, &word(12)),
            (4, &word(2)),
            (8, &long(1000)),
            (16, &word(5)),
            (20, &word(2)),
            (24, &word(4711)),
            (28, &word(77)),
            (40, &long(0xabc)),
            (48, &long(0xdef)),
        ];
        let Some(Record::Mark { row, name, domain }) = read(&record(56, fields)) else {
            panic!("the record is not a mark")
        };
        assert_eq!((row.kind, row.begin, row.end), ([kind::MARK, 1, 0, 0], 1000, 1000));
        assert_eq!((row.thread, row.correlation, name, domain), (77, 5, 0xabc, 0xdef));
        assert_eq!(read(&record(48, fields_until(fields, 48))), None, "the domain is cut off");
    }

    /// The fields that lie in the first `size` bytes of a record.
    fn fields_until<'a>(fields: &'a [(usize, &'a [u8])], size: usize) -> &'a [(usize, &'a [u8])] {
        &fields[..fields.partition_point(|(at, field)| at + field.len() <= size)]
    }

    #[test]
    fn a_record_that_is_cut_or_unknown_is_none() {
        let bytes = record(40, &[(0, &word(5)), (8, &long(5)), (16, &long(6))]);
        assert!(read(&bytes[..30]).is_none());
        assert!(read(&record(64, &[(0, &word(12))])).is_none(), "a mark without a part");
        assert!(read(&record(64, &[(0, &word(15))])).is_none(), "the data of a mark");
    }

    /// The times of a record are not checked here. The reader of the trace file counts the
    /// activities whose times are wrong.
    #[test]
    fn times_are_read_as_they_are() {
        for (begin, end) in [(9, 6), (0, 6), (9, 0), (0, 0)] {
            let bytes = record(40, &[(0, &word(5)), (8, &long(begin)), (16, &long(end))]);
            let Some(Record::Call(one, ..)) = read(&bytes) else {
                panic!("the record is not a call")
            };
            assert_eq!((one.begin, one.end), (begin, end));
        }
    }
}
