use super::*;

/// Reads a record of CUDA 13.0.
fn read(bytes: &[u8]) -> Option<Record> {
    super::read(bytes, 130_001)
}

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
            (144, &long(1 << 33)),
            (156, &word(6)),
        ],
    );
    let Some(Record::Kernel(one, name, node)) = read(&bytes) else {
        panic!("the record is not a kernel")
    };
    assert_eq!((one.begin, one.end, name), (1000, 2000, 0xabc));
    assert_eq!((one.device, one.context, one.stream, one.correlation), (1, 2, 7, 55));
    assert_eq!(node, GraphNode { graph: 6, node: 1 << 33 });
}

/// The offsets of the numbers of the node and of its graph, by the kind of the record.
#[test]
fn a_copy_and_a_fill_of_a_graph_have_their_node() {
    for (kind, node, graph) in
        [(kinds::MEMCPY, 60, 68), (kinds::MEMCPY2, 76, 84), (kinds::MEMSET, 60, 68)]
    {
        let fields: &[(usize, &[u8])] =
            &[(0, &word(kind)), (node, &long(1 << 33)), (graph, &word(6))];
        let Some(Record::Transfer(_, found)) = read(&record(96, fields)) else {
            panic!("kind {kind} is no operation")
        };
        assert_eq!(found, GraphNode { graph: 6, node: 1 << 33 }, "kind {kind}");
        assert_eq!(read(&record(graph, fields_until(fields, graph))), None, "the graph is cut off");
    }
}

#[test]
fn a_launch_of_a_graph_is_read_by_its_offsets() {
    let launch = |device: u32| {
        let fields: &[(usize, &[u8])] = &[
            (0, &word(51)),
            (4, &word(55)),
            (8, &long(1000)),
            (16, &long(2000)),
            (24, &word(device)),
            (28, &word(6)),
            (32, &word(2)),
            (36, &word(7)),
            (48, &word(3)),
            (52, &word(4)),
        ];
        record(56, fields)
    };
    let Some(Record::Graph(one, graph)) = read(&launch(1)) else { panic!("no launch") };
    assert_eq!((one.begin, one.end, graph), (1000, 2000, 6));
    assert_eq!((one.device, one.context, one.stream, one.correlation), (1, 2, 7, 55));

    // A graph that begins on the host has the device of its end, in versions that report it.
    let on_host = launch(0x7fff_ffff);
    let Some(Record::Graph(one, _)) = read(&on_host) else { panic!("no launch") };
    assert_eq!((one.device, one.context), (3, 4));
    assert_eq!(super::read(&on_host[..48], 18), None);
}

#[test]
fn a_record_of_an_event_is_read_by_its_offsets() {
    let fields: &[(usize, &[u8])] = &[
        (0, &word(36)),
        (4, &word(55)),
        (8, &word(2)),
        (12, &word(7)),
        (16, &word(9)),
        (48, &long(70)),
    ];
    let bytes = record(56, fields);
    let of_event = EventUse {
        what: event::RECORD,
        context: 2,
        stream: 7,
        correlation: 55,
        event: 9,
        sync: 70,
        at: 0,
    };
    assert_eq!(read(&bytes), Some(Record::Event(of_event)));
    assert_eq!(read(&bytes[..52]), None, "the record is cut");
    // Before CUDA 12.8, a record has 24 bytes, and the next record follows.
    let older = Record::Event(EventUse { sync: NO_SYNC, ..of_event });
    assert_eq!(super::read(&bytes, 24), Some(older));
    assert_eq!(super::read(&bytes[..24], 24), Some(older));
}

#[test]
fn a_wait_of_a_stream_names_its_event() {
    let wait = |kind: u32, sync: u64| {
        let fields: &[(usize, &[u8])] = &[
            (0, &word(38)),
            (4, &word(kind)),
            (8, &long(5)),
            (16, &long(6)),
            (24, &word(3)),
            (28, &word(1)),
            (32, &word(7)),
            (36, &word(9)),
            (40, &long(sync)),
        ];
        record(56, fields)
    };
    let sync_of = |bytes: &[u8], version| match super::read(bytes, version) {
        Some(Record::StreamWait(row, one)) => {
            assert_eq!((row.kind, row.stream), ([kind::SYNC, 2, 0, 0], 7));
            let EventUse { what, context, stream, correlation, event, at, .. } = one;
            assert_eq!((what, context, stream, correlation), (event::WAIT, 1, 7, 3));
            assert_eq!((event, at), (9, 5));
            one.sync
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(sync_of(&wait(2, 70), 130_001), 70);
    for unknown in [0, 0xffff_ffff] {
        assert_eq!(sync_of(&wait(2, unknown), 130_001), NO_SYNC);
    }
    assert_eq!(sync_of(&wait(2, 70)[..40], 24), NO_SYNC, "before CUDA 12.8");
    assert!(matches!(read(&wait(3, 70)), Some(Record::Plain(_))), "a wait of the host");
}

#[test]
fn samples_of_the_environment_are_read_by_their_offsets() {
    let sample_of = |what: u32| {
        let fields: &[(usize, &[u8])] = &[
            (0, &word(20)),
            (4, &word(1)),
            (8, &long(1000)),
            (16, &word(what)),
            (20, &word(1980)),
            (24, &word(2619)),
            (28, &word(5)),
            (32, &word(16)),
            (36, &word(4)),
        ];
        match read(&record(40, fields)) {
            Some(Record::Sample(one)) => {
                assert_eq!((one.device, one.at, u32::from(one.what)), (1, 1000, what));
                Some(one.values)
            }
            _ => None,
        }
    };
    assert_eq!(sample_of(1), Some([1980, 2619, 4]), "clocks and the reasons for them");
    assert_eq!(sample_of(2), Some([1980, 0, 0]), "a temperature");
    assert_eq!(sample_of(3), Some([1980, 2619, 0]), "the power and its limit");
    assert_eq!(sample_of(4), Some([1980, 0, 0]), "the fan");
    for unknown in [0, 5, 257] {
        assert_eq!(sample_of(unknown), None);
    }
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
            Some(Record::Transfer(one, GraphNode { graph: 0, node: 0 })) => one,
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
        let Some(Record::Call(one, ..)) = read(&bytes) else { panic!("the record is not a call") };
        assert_eq!((one.begin, one.end), (begin, end));
    }
}
