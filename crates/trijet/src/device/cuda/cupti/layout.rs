//! The offsets of the fields in CUPTI's records.
//!
//! A kind of record grows at its end: `CUpti_ActivityKernel9` of CUDA 12.0 is a prefix of
//! `CUpti_ActivityKernel13` of CUDA 13.4 as far as the fields below. The C compiler printed their
//! offsets from the headers of CUDA 12.0, 12.4, 13.0 and 13.4; all four are the same. So records
//! are read by offset, never as a struct of one version, and never behind the end of the shortest
//! version. The recording of a library outside of this range contains a warning.
#![forbid(unsafe_code)]

use crate::base::ledger::StreamClass;
use crate::base::units::Nanos;
use crate::trace::activity::{
    Activity, ActivityKind, Api, ContextInfo, Direction, Memory, OverheadKind, StreamInfo, SyncKind,
};

/// `CUPTI_API_VERSION` of the headers that were compared: CUDA 12.0 to 13.4.
pub(super) const VERSIONS: std::ops::RangeInclusive<u32> = 18..=130_499;

/// `CUpti_ActivityKind`: the kinds of records that are collected.
pub(super) mod kinds {
    pub(crate) const MEMCPY: u32 = 1;
    pub(crate) const MEMSET: u32 = 2;
    pub(crate) const KERNEL: u32 = 3;
    pub(crate) const DRIVER: u32 = 4;
    pub(crate) const RUNTIME: u32 = 5;
    pub(crate) const CONTEXT: u32 = 9;
    /// Kernels as they run. Collecting `KERNEL` would make them run one after the other.
    pub(crate) const CONCURRENT_KERNEL: u32 = 10;
    pub(crate) const OVERHEAD: u32 = 17;
    /// Copies between devices.
    pub(crate) const MEMCPY2: u32 = 22;
    pub(crate) const STREAM: u32 = 37;
    pub(crate) const SYNCHRONIZATION: u32 = 38;
    pub(crate) const EXTERNAL_CORRELATION: u32 = 39;

    /// The kinds for a trace of this program's own operations, with names for messages.
    pub(crate) const OWN: [(u32, &str); 6] = [
        (CONCURRENT_KERNEL, "kernels"),
        (MEMCPY, "copies"),
        (MEMCPY2, "copies between devices"),
        (MEMSET, "fills"),
        (EXTERNAL_CORRELATION, "tags"),
        (DRIVER, "driver calls"),
    ];

    /// The kinds for a recording of another program, with names for messages.
    pub(crate) const ALL: [(u32, &str); 10] = [
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

/// A record, before its names are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// An activity without a name.
    Plain(Activity),
    /// A kernel and the address of its name.
    Kernel(Activity, u64),
    /// A call and the number of its function.
    Call(Activity, u32),
    Context(ContextInfo),
    Stream(StreamInfo),
    /// The tag of the call with this number: `CUpti_ActivityExternalCorrelation`.
    Tag {
        correlation: u32,
        tag: u64,
    },
}

/// The fields of a record by their offsets.
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

    /// An activity with the times at these offsets; its other fields are 0.
    fn timed(self, kind: ActivityKind, [begin, end]: [usize; 2]) -> Option<Activity> {
        let (begin, end) = (self.long(begin)?, self.long(end)?);
        if end != 0 && end < begin {
            return None;
        }
        Some(Activity {
            kind,
            begin: Nanos(begin),
            end: Nanos(end),
            bytes: 0,
            name: None,
            device: 0,
            context: 0,
            stream: 0,
            thread: 0,
            correlation: 0,
        })
    }

    /// An activity with its times, the device, context and stream that follow each other from
    /// `device`, and the correlation.
    fn operation(
        self,
        kind: ActivityKind,
        times: [usize; 2],
        device: usize,
        correlation: usize,
    ) -> Option<Activity> {
        Some(Activity {
            device: self.word(device)?,
            context: self.word(device + 4)?,
            stream: self.word(device + 8)?,
            correlation: self.word(correlation)?,
            ..self.timed(kind, times)?
        })
    }
}

/// Reads the record at the begin of `bytes`; other bytes may follow it. `None` for a kind that is
/// not collected, and for a record that is cut or contradicts itself.
pub(super) fn read(bytes: &[u8]) -> Option<Read> {
    let fields = Fields(bytes);
    match fields.word(0)? {
        kinds::CONCURRENT_KERNEL | kinds::KERNEL => {
            let one = fields.operation(ActivityKind::Kernel, [16, 24], 40, 92)?;
            Some(Read::Kernel(one, fields.long(104)?))
        }
        kinds::MEMCPY => copy(fields, 44).map(Read::Plain),
        kinds::MEMCPY2 => copy(fields, 60).map(Read::Plain),
        kinds::MEMSET => {
            let one = fields.operation(ActivityKind::Fill, [16, 24], 32, 44)?;
            Some(Read::Plain(Activity { bytes: fields.long(8)?, ..one }))
        }
        kinds::SYNCHRONIZATION => {
            let kind = match fields.word(4)? {
                1 => SyncKind::Event,
                2 => SyncKind::StreamWait,
                3 => SyncKind::Stream,
                4 => SyncKind::Context,
                _ => SyncKind::Unknown,
            };
            let one = fields.timed(ActivityKind::Sync(kind), [8, 16])?;
            Some(Read::Plain(Activity {
                correlation: fields.word(24)?,
                context: fields.word(28)?,
                stream: fields.word(32)?,
                ..one
            }))
        }
        kind @ (kinds::RUNTIME | kinds::DRIVER) => {
            let api = if kind == kinds::RUNTIME { Api::Runtime } else { Api::Driver };
            let one = fields.timed(ActivityKind::Call(api), [8, 16])?;
            let (thread, correlation) = (fields.word(28)?, fields.word(32)?);
            Some(Read::Call(Activity { thread, correlation, ..one }, fields.word(4)?))
        }
        kinds::OVERHEAD => {
            let kind = ActivityKind::Overhead(overhead(fields.word(4)?));
            fields.timed(kind, [24, 32]).map(Read::Plain)
        }
        kinds::CONTEXT => Some(Read::Context(ContextInfo {
            context: fields.word(4)?,
            device: fields.word(8)?,
            null_stream: u32::from(fields.half(14)?),
        })),
        kinds::STREAM => Some(Read::Stream(StreamInfo {
            context: fields.word(4)?,
            stream: fields.word(8)?,
            class: match fields.word(16)? {
                1 => Some(StreamClass::Blocking),
                2 => Some(StreamClass::NonBlocking),
                3 => Some(StreamClass::Legacy),
                _ => None,
            },
        })),
        kinds::EXTERNAL_CORRELATION => {
            Some(Read::Tag { correlation: fields.word(16)?, tag: fields.long(8)? })
        }
        _ => None,
    }
}

/// A copy. `CUpti_ActivityMemcpy6` and `CUpti_ActivityMemcpyPtoP4` have the same fields, but the
/// correlation.
fn copy(fields: Fields<'_>, correlation: usize) -> Option<Activity> {
    let direction = match fields.byte(4)? {
        1 | 3 => Direction::Upload,
        2 | 4 => Direction::Download,
        5..=8 => Direction::Within,
        9 => Direction::Host,
        10 => Direction::Peer,
        _ => Direction::Unknown,
    };
    let kind = ActivityKind::Copy {
        direction,
        from: memory(fields.byte(5)?),
        to: memory(fields.byte(6)?),
    };
    let one = fields.operation(kind, [16, 24], 32, correlation)?;
    Some(Activity { bytes: fields.long(8)?, ..one })
}

/// `CUpti_ActivityMemoryKind`. Static device memory counts as device memory.
fn memory(code: u8) -> Memory {
    match code {
        1 => Memory::Pageable,
        2 => Memory::Pinned,
        3 | 6 => Memory::Device,
        4 => Memory::Array,
        5 | 7 => Memory::Managed,
        _ => Memory::Unknown,
    }
}

/// `CUpti_ActivityOverheadKind`.
fn overhead(code: u32) -> OverheadKind {
    match (code & 0xffff, code >> 16) {
        (1, 0) => OverheadKind::Compiler,
        (0, 1) => OverheadKind::Flush,
        (0, 2) => OverheadKind::Instrumentation,
        (0, 3) => OverheadKind::Resource,
        (0, 4) => OverheadKind::ModuleLoading,
        (0, 5) => OverheadKind::LazyLoading,
        (0, 6) => OverheadKind::CommandBufferFull,
        (0, 7) => OverheadKind::BufferRequest,
        _ => OverheadKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the C compiler would lay it out, by the offsets of the headers.
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
        let Some(Read::Kernel(one, name)) = read(&bytes) else { panic!("a kernel") };
        assert_eq!((one.begin, one.end, name), (Nanos(1000), Nanos(2000), 0xabc));
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
                Some(Read::Plain(one)) => one,
                other => panic!("{other:?}"),
            }
        };
        let up = copy(1, 1, 3);
        assert_eq!(
            up.kind,
            ActivityKind::Copy {
                direction: Direction::Upload,
                from: Memory::Pageable,
                to: Memory::Device
            }
        );
        assert_eq!((up.bytes, up.stream, up.correlation), (4096, 13, 9));
        let down = copy(2, 3, 2);
        assert_eq!(
            down.kind,
            ActivityKind::Copy {
                direction: Direction::Download,
                from: Memory::Device,
                to: Memory::Pinned
            }
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
        let Some(Read::Call(one, function)) = read(&bytes) else { panic!("a call") };
        assert_eq!((one.thread, one.correlation, function), (77, 88, 211));
        assert_eq!(one.kind, ActivityKind::Call(Api::Runtime));
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
        let Some(Read::Plain(one)) = read(&bytes) else { panic!("a wait") };
        assert_eq!(one.kind, ActivityKind::Sync(SyncKind::Context));
        assert_eq!((one.correlation, one.context, one.stream), (3, 1, u32::MAX));
    }

    #[test]
    fn the_legacy_stream_of_a_context_and_the_class_of_a_stream_are_read() {
        let bytes = record(16, &[(0, &word(9)), (4, &word(1)), (8, &word(2)), (14, &[7, 0])]);
        let info = ContextInfo { context: 1, device: 2, null_stream: 7 };
        assert_eq!(read(&bytes), Some(Read::Context(info)));
        let bytes = record(24, &[(0, &word(37)), (4, &word(1)), (8, &word(13)), (16, &word(2))]);
        let class = Some(StreamClass::NonBlocking);
        assert_eq!(read(&bytes), Some(Read::Stream(StreamInfo { context: 1, stream: 13, class })));
    }

    #[test]
    fn a_tag_and_the_call_that_was_made_under_it_are_read() {
        let bytes = record(24, &[(0, &word(39)), (4, &word(3)), (8, &long(70)), (16, &word(5))]);
        assert_eq!(read(&bytes), Some(Read::Tag { correlation: 5, tag: 70 }));
        assert_eq!(read(&bytes[..18]), None);
    }

    #[test]
    fn a_record_that_is_cut_or_unknown_is_none() {
        let bytes = record(40, &[(0, &word(5)), (8, &long(5)), (16, &long(6))]);
        assert!(read(&bytes[..30]).is_none());
        assert!(read(&record(64, &[(0, &word(12))])).is_none());
        let backwards = record(40, &[(0, &word(5)), (8, &long(9)), (16, &long(6))]);
        assert!(read(&backwards).is_none());
    }
}
