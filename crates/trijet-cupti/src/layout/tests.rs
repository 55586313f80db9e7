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
        let Some(Record::Call(one, ..)) = read(&bytes) else { panic!("the record is not a call") };
        assert_eq!((one.begin, one.end), (begin, end));
    }
}
