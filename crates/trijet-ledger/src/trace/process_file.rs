//! The trace file of processes: little-endian blocks, each with a tag, a length and a payload.
//!
//! The tracing library (`trijet-cupti`, which defines the format) appends whole blocks only. If the
//! traced process is killed, the file has no `END`. If the process is killed while it writes, or
//! the disk is full, the last block is cut. In this case a reader ends before the last block. The
//! files of several processes may be joined: each `HEADER` begins the trace of another process.
//!
//! The reader trusts no length: a block has at most 64 KiB, and everything that the reader keeps
//! has a limit. An error names the byte at which the file contradicts itself.
#![forbid(unsafe_code)]

mod join;
mod read;
mod write;

pub use join::append_whole_blocks;
pub use read::read;
pub use write::{
    activity, allocation, command, context, edge, end, event_use, header, name, node, note, rank,
    sample, stream, trouble,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ledger::StreamClass;
    use crate::base::prng::Prng;
    use crate::base::units::Nanos;
    use crate::trace::activity::{
        Activity, ActivityKind, Allocation, AllocationKind, Api, ContextInfo, CopyDirection, End,
        EnvironmentSample, EventUse, EventUseKind, GraphEdge, GraphNode, GraphNodeId, MarkKind,
        MemoryKind, NameId, OverheadKind, ProcessTrace, SampleOf, StreamInfo, SyncKind,
    };

    use std::collections::BTreeMap;
    use trijet_cupti::file::thread;

    fn kinds() -> Vec<ActivityKind> {
        use {CopyDirection as D, MemoryKind as M, OverheadKind as O, SyncKind as S};
        let memories = [M::Unknown, M::Pageable, M::Pinned, M::Device, M::Array, M::Managed];
        let ways = [D::Unknown, D::Upload, D::Download, D::Within, D::Peer, D::Host];
        let mut kinds = vec![ActivityKind::Kernel, ActivityKind::Fill];
        kinds.extend(
            memories
                .iter()
                .zip(memories.iter().rev())
                .zip(ways)
                .map(|((&from, &to), direction)| ActivityKind::Copy { direction, from, to }),
        );
        kinds.extend(
            [S::Unknown, S::Event, S::StreamWait, S::Stream, S::Context].map(ActivityKind::Sync),
        );
        kinds.extend([Api::Runtime, Api::Driver].map(ActivityKind::Call));
        kinds.extend([MarkKind::Start, MarkKind::End, MarkKind::Moment].map(ActivityKind::Mark));
        kinds.extend(
            [
                O::Unknown,
                O::Compiler,
                O::Flush,
                O::Instrumentation,
                O::Resource,
                O::ModuleLoading,
                O::LazyLoading,
                O::CommandBufferFull,
                O::BufferRequest,
            ]
            .map(ActivityKind::Overhead),
        );
        kinds
    }

    /// A use of an event of each kind, and a different value in each field.
    fn events() -> Vec<EventUse> {
        let of = |what, n: u32, sync| EventUse {
            what,
            context: n,
            stream: n + 10,
            correlation: n + 20,
            event: n + 30,
            sync,
            at: Nanos(u64::from(n) << 35),
        };
        vec![of(EventUseKind::Record, 1, Some(1 << 40)), of(EventUseKind::Wait, 2, None)]
    }

    /// A sample of each kind.
    fn samples() -> Vec<EnvironmentSample> {
        let values = [
            SampleOf::Clocks { sm: 1980, memory: 2619, reasons: 4 },
            SampleOf::Temperature(60),
            SampleOf::Power { power: 512_000, limit: 700_000 },
            SampleOf::Fan(30),
        ];
        let of = |(of, n): (SampleOf, u32)| EnvironmentSample {
            device: n,
            at: Nanos(u64::from(n) << 36),
            of,
        };
        values.into_iter().zip(1u32..).map(of).collect()
    }

    fn nodes() -> Vec<GraphNode> {
        vec![GraphNode { graph: 6, node: Some(1 << 34) }, GraphNode { graph: 7, node: None }]
    }

    /// A trace with one activity of each kind, and a different value in each field.
    fn trace() -> ProcessTrace {
        let activities = kinds().into_iter().zip(1u32..).map(|(kind, n)| Activity {
            kind,
            begin: Nanos(u64::from(n) << 33),
            end: Nanos((u64::from(n) << 33) + 7),
            bytes: u64::from(n) << 40,
            name: (n % 2 == 0).then_some(NameId(n % 3)),
            device: n,
            context: n + 100,
            stream: n + 200,
            thread: n + 300,
            correlation: u32::MAX - n,
            node: (n % 3).checked_sub(1).map(GraphNodeId),
        });
        let classes = [
            None,
            Some(StreamClass::Legacy),
            Some(StreamClass::Blocking),
            Some(StreamClass::NonBlocking),
        ];
        let streams = classes.into_iter().zip(1..);
        let activities: Vec<_> = activities.collect();
        ProcessTrace {
            process: 4711,
            interface: 130_001,
            tool: None,
            moved: 0,
            has_stacks: false,
            began: Nanos(12_345_678_901),
            names: ["", "cudaMemcpy", "k\u{e4}rnel"].map(str::to_owned).to_vec(),
            contexts: vec![ContextInfo { context: 1, device: 2, null_stream: 7 }],
            streams: streams
                .map(|(class, stream)| StreamInfo { context: 1, stream, class })
                .collect(),
            threads: [(301, "worker".to_owned())].into(),
            command: "python3 train.py".to_owned(),
            rank: Some(3),
            troubles: vec!["something \u{2260} well".to_owned()],
            notes: vec!["one subscriber".to_owned()],
            allocations: [AllocationKind::Allocate, AllocationKind::Free]
                .into_iter()
                .zip(1u32..)
                .map(|(what, n)| Allocation {
                    what,
                    memory: MemoryKind::Device,
                    in_order: n == 1,
                    device: n,
                    context: n + 10,
                    stream: n + 20,
                    correlation: n + 30,
                    address: u64::from(n) << 40,
                    bytes: u64::from(n) << 30,
                    at: Nanos(u64::from(n)),
                })
                .collect(),
            nodes: nodes(),
            edges: vec![GraphEdge { graph: 6, from: 1 << 34, to: (1 << 40) + 1 }],
            events: events(),
            samples: samples(),
            left_out: 0,
            end: Some(End {
                activities: activities.len() as u64,
                dropped: 1,
                unknown: 2,
                declined: 3,
                own_time: Nanos(4),
                at: Nanos(5),
            }),
            activities,
        }
    }

    fn bytes_of(trace: &ProcessTrace) -> Vec<u8> {
        let mut out = Vec::new();
        header(&mut out, trace.process, trace.interface, trace.began);
        command(&mut out, &trace.command);
        trace.rank.iter().for_each(|&number| rank(&mut out, number));
        for (text, id) in trace.names.iter().zip(0..) {
            name(&mut out, NameId(id), text.as_bytes());
        }
        for (one, id) in trace.nodes.iter().zip(0..) {
            node(&mut out, GraphNodeId(id), one);
        }
        trace.edges.iter().for_each(|one| edge(&mut out, one));
        trace.contexts.iter().for_each(|info| context(&mut out, info));
        trace.streams.iter().for_each(|info| stream(&mut out, info));
        trace.threads.iter().for_each(|(number, name)| thread(&mut out, *number, name.as_bytes()));
        trace.activities.iter().for_each(|one| activity(&mut out, one));
        trace.allocations.iter().for_each(|one| allocation(&mut out, one));
        trace.events.iter().for_each(|one| event_use(&mut out, one));
        trace.samples.iter().for_each(|one| sample(&mut out, one));
        trace.troubles.iter().for_each(|text| trouble(&mut out, text));
        trace.notes.iter().for_each(|text| note(&mut out, text));
        if let Some(last) = &trace.end {
            end(&mut out, last);
        }
        out
    }

    fn words(bytes: &[u8]) -> String {
        read(bytes).expect_err("damaged").to_string()
    }

    #[test]
    fn what_was_written_is_read_back() {
        let whole = trace();
        let read = read(bytes_of(&whole).as_slice()).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(format!("{:?}", read[0]), format!("{whole:?}"));
    }

    /// CUPTI sometimes returns such records. One such record must not make the reader refuse all
    /// others.
    #[test]
    fn a_record_with_impossible_times_is_read_as_it_is() {
        let mut whole = trace();
        for (one, (begin, end)) in whole.activities.iter_mut().zip([(9, 1), (0, 5), (0, 0)]) {
            (one.begin, one.end) = (Nanos(begin), Nanos(end));
        }
        let read = read(bytes_of(&whole).as_slice()).unwrap();
        assert_eq!(read[0].activities, whole.activities);
    }

    /// A trace as versions before 7 have it: without nodes, edges, events and samples.
    fn without_graphs() -> ProcessTrace {
        let mut older = trace();
        older.nodes.clear();
        older.edges.clear();
        older.events.clear();
        older.samples.clear();
        older.activities.iter_mut().for_each(|one| one.node = None);
        older
    }

    /// Version 3 has no ranks and no names of threads.
    #[test]
    fn a_file_of_the_version_before_ranks_is_read() {
        let older = ProcessTrace { rank: None, threads: BTreeMap::new(), ..without_graphs() };
        let mut bytes = bytes_of(&older);
        bytes[12] = 3;
        let read = read(bytes.as_slice()).unwrap();
        assert_eq!(format!("{:?}", read[0]), format!("{older:?}"));
    }

    #[test]
    fn a_file_of_the_version_before_edges_is_read() {
        let older = ProcessTrace { edges: Vec::new(), ..trace() };
        let mut bytes = bytes_of(&older);
        bytes[12] = 7;
        let read = read(bytes.as_slice()).unwrap();
        assert_eq!(format!("{:?}", read[0]), format!("{older:?}"));
    }

    #[test]
    fn joined_files_are_several_traces() {
        let mut other = trace();
        other.process = 9;
        other.end = None;
        let joined = [bytes_of(&other), bytes_of(&trace())].concat();
        let read = read(joined.as_slice()).unwrap();
        let seen: Vec<_> = read.iter().map(|one| (one.process, one.end.is_some())).collect();
        assert_eq!(seen, [(9, false), (4711, true)]);
    }

    /// A process may be killed at any moment, and a disk may be full at any byte.
    #[test]
    fn a_file_that_is_cut_is_read_up_to_its_last_whole_block() {
        let bytes = bytes_of(&trace());
        let mut ends = vec![0];
        while let Some(&at) = ends.last().filter(|&&at| at < bytes.len()) {
            let length = u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]);
            ends.push(at + 4 + usize::from(length));
        }
        let header = ends[1];
        for cut in header..bytes.len() {
            let whole = ends.iter().rfind(|end| **end <= cut).unwrap();
            let (found, expected) = (read(&bytes[..cut]).unwrap(), read(&bytes[..*whole]).unwrap());
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "cut at {cut}");
            assert!(found.iter().all(|trace| trace.end.is_none()), "cut at {cut}");
        }
    }

    #[test]
    fn a_file_that_contradicts_itself_is_refused_with_the_reason() {
        let good = trace();
        let mut none = Vec::new();
        activity(&mut none, &good.activities[0]);
        assert!(words(&none).contains("not a trace"));

        let mut miscounted = good.clone();
        miscounted.end = Some(End { activities: 3, ..End::default() });
        assert!(words(&bytes_of(&miscounted)).contains("counts 3"));

        let mut unnamed = good.clone();
        unnamed.names.truncate(1);
        assert!(words(&bytes_of(&unnamed)).contains("has the name 2"));

        let mut without_node = good.clone();
        without_node.nodes.truncate(1);
        assert!(words(&bytes_of(&without_node)).contains("has the node 2"));

        let mut late = bytes_of(&good);
        late.extend(none);
        assert!(words(&late).contains("after the end"));

        // No byte may follow the end, whether or not it looks like a block.
        let whole = bytes_of(&good);
        for garbage in [&b"x"[..], b"garbage\n", &[0; 64], &whole[..whole.len() - 1]] {
            let damaged = [whole.as_slice(), garbage].concat();
            let words = || read(damaged.as_slice()).map(|traces| traces.len());
            if garbage.len() < 100 {
                let words = words().expect_err("damaged").to_string();
                assert!(words.contains(&format!("--size={}", whole.len())), "{words}");
            } else {
                assert_eq!(words().unwrap(), 2, "the second trace is cut, as by a full disk");
            }
        }

        let mut twice = Vec::new();
        header(&mut twice, 1, 1, Nanos(0));
        name(&mut twice, NameId(1), b"x");
        assert!(words(&twice).contains("the number 1, where 0"));

        let mut skipped = Vec::new();
        header(&mut skipped, 1, 1, Nanos(0));
        node(&mut skipped, GraphNodeId(1), &GraphNode { graph: 1, node: None });
        assert!(words(&skipped).contains("a node with the number 1, where 0"));

        let mut circle = Vec::new();
        header(&mut circle, 1, 1, Nanos(0));
        edge(&mut circle, &GraphEdge { graph: 1, from: 5, to: 5 });
        assert!(words(&circle).contains("from the node 5 to itself"));
    }

    #[test]
    fn a_file_of_another_version_or_format_is_refused_with_the_reason() {
        let mut newer = bytes_of(&trace());
        newer[12] = 9;
        assert!(words(&newer).contains("version 9"));
        newer[12] = 2;
        assert!(words(&newer).contains("version 2"));
        assert!(words(b"\x93NUMPY\x01\x00 and more").contains("not a trace"));
        let open = bytes_of(&ProcessTrace { end: None, ..trace() });
        let mut unknown = open.clone();
        unknown.extend([99, 0, 0, 0]);
        assert!(words(&unknown).contains("kind 99"));
        let mut length = open;
        length.extend([trijet_cupti::file::ACTIVITY.0, 0, 3, 0, 0, 0, 0]);
        assert!(words(&length).contains("3 bytes"));
    }

    /// No byte makes the reader panic, or return a trace that contradicts itself.
    #[test]
    fn a_damaged_file_is_read_or_refused() {
        let bytes = bytes_of(&trace());
        let seed = 20;
        let mut draw = Prng::new(seed);
        for round in 0..3000 {
            let mut damaged = bytes.clone();
            for _ in 0..=draw.next_u64() % 4 {
                let at = usize::try_from(draw.next_u64()).unwrap() % damaged.len();
                damaged[at] = draw.next_u64().to_le_bytes()[0];
            }
            match read(damaged.as_slice()) {
                Ok(read) => {
                    for trace in &read {
                        for one in &trace.activities {
                            assert!(one.name.is_none() || trace.names.len() == 3);
                            assert_eq!(one.node.is_some(), trace.node(one).is_some());
                        }
                    }
                }
                Err(error) => {
                    assert!(error.to_string().contains("byte"), "seed {seed}, {round}: {error}");
                }
            }
        }
    }
}
