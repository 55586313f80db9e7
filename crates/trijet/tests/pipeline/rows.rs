//! Typed sources and sinks: slices, iterators and functions give rows; vectors, slices and
//! functions take them. Parts that do not fit are refused before any row is read.

use crate::{SCHEDULES, simulated, threads};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use trijet::pipeline::{
    HostWork, Layout, Schedule, StageCx, rows_from_fn, rows_from_iter, rows_of, rows_to_fn,
};
use trijet::sim::Order;
use trijet::{Bytes, Device, Error, ErrorKind, Pipeline, Result, Sink, Source, View, ViewMut};

/// Elements of a row.
const WIDTH: usize = 3;
/// Rows of a full chunk.
const CHUNK: usize = 4;

fn numbers(rows: usize) -> Vec<u32> {
    (0..rows * WIDTH).map(|n| u32::try_from(n).expect("a small test") ^ 0x5a5a).collect()
}

fn at(row: u64) -> usize {
    usize::try_from(row).expect("a small test")
}

/// Each kind of source of the same numbers.
fn sources(numbers: &[u32]) -> Vec<(&'static str, Box<dyn Source + '_>)> {
    let rows = (numbers.len() / WIDTH) as u64;
    let arrays = numbers.chunks(WIDTH).map(|row| [row[0], row[1], row[2]]);
    let fill = move |rows: Range<u64>, values: &mut [u32]| {
        values.copy_from_slice(&numbers[at(rows.start) * WIDTH..at(rows.end) * WIDTH]);
        Ok(())
    };
    vec![
        ("a slice", Box::new(rows_of(numbers, WIDTH))),
        ("a vector", Box::new(rows_of(numbers.to_vec(), WIDTH))),
        ("slices", Box::new(rows_from_iter(numbers.chunks(WIDTH), rows, WIDTH))),
        (
            "vectors",
            Box::new(rows_from_iter(numbers.chunks(WIDTH).map(<[u32]>::to_vec), rows, WIDTH)),
        ),
        ("arrays", Box::new(rows_from_iter(arrays, rows, WIDTH))),
        ("a function", Box::new(rows_from_fn(rows, WIDTH, fill))),
    ]
}

/// A pipeline that copies chunks of four rows.
fn copying<'a>(device: &Device, source: impl Source + 'a) -> Pipeline<'a> {
    Pipeline::on(device)
        .source(source)
        .stage::<u32, u32>(|s, x, mut y| s.copy(&x, &mut y))
        .chunk(Bytes((CHUNK * WIDTH * size_of::<u32>()) as u64))
}

#[test]
fn every_number_of_rows_arrives_from_every_source_in_every_sink() {
    let device = threads();
    for rows in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 2] {
        let numbers = numbers(rows);
        for schedule in SCHEDULES {
            for work in [HostWork::Threads, HostWork::Inline] {
                let run = |pipeline: Pipeline<'_>| {
                    let report = pipeline.schedule(schedule).host_work(work).run();
                    let report = report.expect("a run without faults");
                    assert_eq!(report.plan.chunks.len(), rows.div_ceil(CHUNK));
                };
                for (name, source) in sources(&numbers) {
                    let mut found: Vec<u32> = Vec::new();
                    run(copying(&device, source).sink(&mut found));
                    assert_eq!(found, numbers, "{rows} rows of {name}, {schedule:?}, {work:?}");
                }
                let mut slice = vec![0; numbers.len()];
                run(copying(&device, rows_of(&numbers, WIDTH)).sink(&mut slice[..]));
                assert_eq!(slice, numbers, "{rows} rows into a slice");
                let mut calls: Vec<(Range<u64>, Vec<u32>)> = Vec::new();
                let call = |rows, values: &[u32]| {
                    calls.push((rows, values.to_vec()));
                    Ok(())
                };
                run(copying(&device, rows_of(&numbers, WIDTH)).sink(rows_to_fn(call)));
                let mut expected = 0;
                for (range, values) in calls {
                    assert_eq!(range.start, expected, "the calls are in order");
                    let wanted = &numbers[at(range.start) * WIDTH..at(range.end) * WIDTH];
                    assert_eq!(values, wanted, "{rows} rows into a function");
                    expected = range.end;
                }
                assert_eq!(expected, rows as u64);
            }
        }
    }
}

/// Copies to each row the row that is `by` rows further, limited to the first and the last row.
fn shift(
    s: &StageCx<'_>,
    by: i64,
    x: &View<'_, u32>,
    y: ViewMut<'_, u32>,
    rows: u64,
) -> Result<()> {
    let mut y = y;
    let elements = |row: u64| {
        let row = usize::try_from(row).expect("a small test");
        row * WIDTH..(row + 1) * WIDTH
    };
    for row in s.y_rows() {
        let from = row.saturating_add_signed(by).min(rows - 1) - s.x_rows().start;
        let to = row - s.y_rows().start;
        let mut target = y.reborrow().slice(elements(to));
        s.copy(&x.slice(elements(from)), &mut target)?;
    }
    Ok(())
}

#[test]
fn every_source_gives_the_halo_around_each_chunk() {
    let device = threads();
    for rows in [1, CHUNK, 2 * CHUNK + 1] {
        let numbers = numbers(rows);
        // A halo may be longer than a chunk.
        for by in [-1, 1, 2, -6] {
            let wanted: Vec<u32> = (0..rows as u64)
                .map(|row| at(row.saturating_add_signed(by).min(rows as u64 - 1)))
                .flat_map(|row| numbers[row * WIDTH..(row + 1) * WIDTH].to_vec())
                .collect();
            for (name, source) in sources(&numbers) {
                let mut found: Vec<u32> = Vec::new();
                Pipeline::on(&device)
                    .source(source)
                    .stage::<u32, u32>(|s, x, y| shift(s, by, &x, y, rows as u64))
                    .halo(by.unsigned_abs())
                    .sink(&mut found)
                    .chunk(Bytes((CHUNK * WIDTH * size_of::<u32>()) as u64))
                    .run()
                    .expect("a run without faults");
                assert_eq!(found, wanted, "{rows} rows of {name}, shifted by {by}");
            }
        }
    }
}

/// Rows of a mebibyte that remember where each call started.
struct Watched {
    rows: u64,
    starts: Mutex<Vec<u64>>,
}

impl Source for Watched {
    fn layout(&self) -> Layout {
        Layout::rows(self.rows, 1 << 20)
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.starts.lock().expect("no test panics with this lock").push(rows.start);
        into.fill(1);
        Ok(())
    }
}

/// The rows are read in ascending order, even while the first chunks are measured and when rows are
/// left out. An iterator relies on this order.
#[test]
fn a_run_reads_forwards() {
    // The tuner measures where times are modelled, and not on a processor.
    let devices = [(threads(), 0), (simulated(Order::Greedy), 2)];
    let all = std::iter::once(0..u64::MAX).collect::<Vec<_>>();
    let todos = [all, vec![5..9, 20..36]];
    for (device, tuning) in &devices {
        for (schedule, todo) in
            SCHEDULES.into_iter().flat_map(|s| todos.iter().map(move |t| (s, t)))
        {
            let source = Watched { rows: 36, starts: Mutex::default() };
            Pipeline::on(device)
                .source(&source)
                .stage::<u8, u8>(|s, x, mut y| s.copy(&x.slice(..y.len()), &mut y))
                .halo(2)
                .sink(rows_to_fn(|_, _: &[u8]| Ok(())))
                .schedule(schedule)
                .rows(todo.clone())
                .run()
                .expect("a run without faults");
            let starts = source.starts.into_inner().expect("no test panics with this lock");
            assert!(starts.len() > 1 && starts.is_sorted(), "{schedule:?}: {starts:?}");
            let probes = if schedule == Schedule::Tuned { *tuning } else { 0 };
            let first = starts.iter().filter(|start| **start == starts[0]).count();
            assert!(first > probes, "{schedule:?}: {starts:?}");
        }
    }
}

#[test]
fn an_iterator_is_read_once_and_no_further_than_the_rows() {
    let device = threads();
    let mut source = (0u32..).map(|n| [n, n, n]);
    let mut found: Vec<u32> = Vec::new();
    copying(&device, rows_from_iter(source.by_ref(), 7, WIDTH))
        .sink(&mut found)
        .run()
        .expect("seven rows");
    assert_eq!(found.len(), 7 * WIDTH);
    assert_eq!(source.next(), Some([7; 3]));
    let mut untouched = (0u32..).map(|n| [n, n, n]);
    copying(&device, rows_from_iter(&mut untouched, 0, WIDTH))
        .sink(&mut found)
        .run()
        .expect("no rows");
    assert_eq!(untouched.next(), Some([0; 3]));
}

#[test]
fn an_iterator_gives_only_the_rows_that_are_wanted() {
    let device = threads();
    let numbers = numbers(40);
    let mut found: Vec<u32> = Vec::new();
    copying(&device, rows_from_iter(numbers.chunks(WIDTH), 40, WIDTH))
        .rows(vec![3..9, 9..10, 30..33])
        .sink(&mut found)
        .run()
        .expect("a run without faults");
    let wanted = [&numbers[3 * WIDTH..10 * WIDTH], &numbers[30 * WIDTH..33 * WIDTH]].concat();
    assert_eq!(found, wanted);
}

/// Runs into a vector; returns the error and the vector.
fn failing(source: impl Source) -> (Error, Vec<u32>) {
    let device = threads();
    let mut found: Vec<u32> = Vec::new();
    let error = copying(&device, source).sink(&mut found).run().expect_err("the run must fail");
    (error, found)
}

#[test]
fn an_iterator_that_ends_early_fails_the_run_with_its_chunk() {
    let numbers = numbers(10);
    let (error, found) = failing(rows_from_iter(numbers.chunks(WIDTH), 11, WIDTH));
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    let words = error.to_string();
    assert!(words.contains("chunk 2 (rows 8..11), source"), "{words}");
    assert!(words.contains("the iterator ended after 10 of 11 rows"), "{words}");
    assert_eq!(found, numbers[..8 * WIDTH], "the chunks before it");
}

#[test]
fn an_iterator_with_a_row_of_another_length_fails_the_run() {
    for (len, words) in [(WIDTH - 1, "row 6 has 2 elements"), (WIDTH + 1, "row 6 has 4 elements")] {
        let row = |n: u32| vec![n; if n == 6 { len } else { WIDTH }];
        let (error, found) = failing(rows_from_iter((0..10).map(row), 10, WIDTH));
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(found.len(), 4 * WIDTH);
    }
}

#[test]
fn an_iterator_does_not_go_back() {
    let source = rows_from_iter([[1u8], [2], [3], [4]], 4, 1);
    let mut into = [0u8; 2];
    source.read(1..3, &mut into).expect("the rows are there");
    assert_eq!(into, [2, 3]);
    source.read(1..3, &mut into).expect("the same rows again");
    assert_eq!(into, [2, 3]);
    source.read(2..4, &mut into).expect("rows that overlap them");
    assert_eq!(into, [3, 4]);
    let error = source.read(1..3, &mut into).expect_err("row 1 is gone");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    assert!(error.to_string().contains("row 1 was asked for after row 2"), "{error}");
}

#[test]
fn an_error_of_a_function_ends_the_run_with_its_chunk() {
    let device = threads();
    let broken = |rows: Range<u64>, values: &mut [u32]| {
        if rows.contains(&9) {
            return Err(Error::new(ErrorKind::Io, "read", "no such row"));
        }
        values.fill(1);
        Ok(())
    };
    let (error, found) = failing(rows_from_fn(20, WIDTH, broken));
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("chunk 2 (rows 8..12), source"), "{error}");
    assert_eq!(found, [1; 8 * WIDTH]);

    let full = |rows: Range<u64>, _: &[u32]| match rows.contains(&5) {
        true => Err(Error::new(ErrorKind::Io, "write", "no space left")),
        false => Ok(()),
    };
    let run = copying(&device, rows_of(numbers(20), WIDTH)).sink(rows_to_fn(full)).run();
    let error = run.expect_err("row 5 is refused");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("chunk 1 (rows 4..8), sink"), "{error}");
}

/// Runs, and expects a refusal with this text before any row is read.
#[track_caller]
fn refused(words: &str, run: impl FnOnce(&dyn Source) -> Result<()>) {
    let reads = AtomicU64::new(0);
    let source = rows_from_fn(4, WIDTH, |_, values: &mut [u32]| {
        reads.fetch_add(1, Ordering::Relaxed);
        values.fill(0);
        Ok(())
    });
    let error = run(&source).expect_err("the parts do not fit");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(reads.load(Ordering::Relaxed), 0, "{error}");
}

#[test]
fn a_slice_that_is_too_short_is_refused_before_anything_is_read() {
    let device = threads();
    for held in [0, 1, 4 * WIDTH - 1] {
        let words = format!("the results have 48 bytes, but the slice has only {} bytes", 4 * held);
        refused(&words, |source| {
            copying(&device, source).sink(&mut vec![0u32; held][..]).run().map(drop)
        });
    }
    let mut longer = [9u32; 4 * WIDTH + 1];
    copying(&device, rows_of(numbers(4), WIDTH))
        .sink(&mut longer[..])
        .run()
        .expect("there is room");
    assert_eq!(longer[..4 * WIDTH], numbers(4));
    assert_eq!(longer[4 * WIDTH], 9);
}

#[test]
fn elements_of_another_type_are_refused() {
    let device = threads();
    refused("stage 0: it takes elements of f32, and the rows have u32", |source| {
        let copy = Pipeline::on(&device).source(source).stage::<f32, f32>(|_, _, _| Ok(()));
        copy.sink(&mut Vec::<f32>::new()).run().map(drop)
    });
    refused("stage 1: it takes elements of i32, and the rows have u32", |source| {
        let two = copying(&device, source).stage::<i32, i32>(|_, _, _| Ok(()));
        two.sink(&mut Vec::<i32>::new()).run().map(drop)
    });
    let words = "sink: it takes elements of f32, and the rows have u32";
    refused(words, |source| copying(&device, source).sink(&mut Vec::<f32>::new()).run().map(drop));
    refused(words, |source| copying(&device, source).sink(&mut [0f32; 12][..]).run().map(drop));
    refused(words, |source| {
        copying(&device, source).sink(rows_to_fn(|_, _: &[f32]| Ok(()))).run().map(drop)
    });
    refused(words, |source| {
        let mut pinned = device.pinned::<f32>(12)?;
        copying(&device, source).pinned_sink(&mut pinned).run().map(drop)
    });
    // Without a stage, the sink takes the rows of the source.
    refused(words, |source| {
        Pipeline::on(&device).source(source).sink(&mut Vec::<f32>::new()).run().map(drop)
    });
}

#[test]
fn bytes_fit_elements_of_every_type() {
    let device = threads();
    let bytes: Vec<u8> = (0..48).collect();
    let mut found: Vec<u8> = Vec::new();
    copying(&device, rows_of(&bytes, 12)).sink(&mut found).run().expect("u8 stands for bytes");
    assert_eq!(found, bytes);
    let mut words: Vec<u64> = Vec::new();
    let error = Pipeline::on(&device).source(rows_of(&bytes, 12)).sink(&mut words).run();
    let error = error.expect_err("12 bytes are one and a half u64");
    assert!(error.to_string().contains("not a whole number of elements of u64"), "{error}");
}

#[test]
fn data_that_are_not_whole_rows_are_refused() {
    let device = threads();
    let refusal = |source: &dyn Source| {
        let mut found: Vec<u32> = Vec::new();
        let error = copying(&device, source).sink(&mut found).run().expect_err("no whole rows");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert_eq!(
            copying(&device, source).plan().expect_err("no whole rows").kind(),
            error.kind()
        );
        error.to_string()
    };
    let words = refusal(&rows_of(vec![0u32; 10], WIDTH));
    assert!(words.contains("10 elements is not a whole number of rows of 3"), "{words}");
    let words = refusal(&rows_of(vec![0u32; 10], 0));
    assert!(words.contains("10 elements is not a whole number of rows of 0"), "{words}");
    for source in [
        Box::new(rows_of(Vec::<u32>::new(), 0)) as Box<dyn Source>,
        Box::new(rows_of(vec![(); 6], WIDTH)),
        Box::new(rows_from_iter([[0u32; 0]; 3], 3, 0)),
        Box::new(rows_from_fn(3, 0, |_, _: &mut [u32]| Ok(()))),
    ] {
        assert!(refusal(&*source).contains("a row has 0 bytes"));
    }
}

#[test]
fn rows_too_long_for_any_memory_are_refused() {
    let device = threads();
    let source = rows_from_fn(1 << 40, usize::MAX, |_, _: &mut [u32]| Ok(()));
    let mut found: Vec<u32> = Vec::new();
    let error = copying(&device, source).sink(&mut found).run().expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
}

#[test]
fn ranges_of_rows_that_are_not_sorted_are_refused() {
    let device = threads();
    for todo in [vec![5..9, 0..3], vec![0..5, 4..9]] {
        let words = "give ranges that are sorted and disjoint";
        refused(words, |source| {
            copying(&device, source).rows(todo).sink(&mut Vec::<u32>::new()).run().map(drop)
        });
    }
}

/// Such ranges once gave the results of other rows.
#[test]
fn ranges_of_rows_that_cut_a_granule_are_refused() {
    let device = threads();
    struct Coarse<S>(S, u64);
    impl<S: Source> Source for Coarse<S> {
        fn layout(&self) -> Layout {
            self.0.layout().granule(self.1)
        }
        fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
            self.0.read(rows, into)
        }
    }
    for todo in [1..2, 0..1, 1..4, 3..u64::MAX] {
        let words = format!("rows {todo:?} begin or end inside of a granule of 2 rows");
        refused(&words, |source| {
            let cut = Pipeline::on(&device).source(Coarse(source, 2)).rows(vec![todo]);
            cut.sink(&mut Vec::<u32>::new()).run().map(drop)
        });
    }
    let numbers = numbers(5);
    for todo in [0..u64::MAX, 2..5, 4..9, 4..5, 7..8] {
        let wanted = &numbers[at(todo.start.min(5)) * WIDTH..at(todo.end.min(5)) * WIDTH];
        let mut found: Vec<u32> = Vec::new();
        let whole = Pipeline::on(&device).source(Coarse(rows_of(&numbers, WIDTH), 2));
        whole.rows(vec![todo]).sink(&mut found).run().expect("whole granules");
        assert_eq!(found, wanted);
    }
}

#[test]
fn functions_take_bytes_that_are_not_aligned() {
    let source = rows_from_fn(3, 1, |rows, values: &mut [u64]| {
        rows.zip(values).for_each(|(row, value)| *value = row << 40);
        Ok(())
    });
    let mut found = Vec::new();
    let mut sink = rows_to_fn(|_, values: &[u64]| {
        found.extend_from_slice(values);
        Ok(())
    });
    let mut bytes = [0u8; 32];
    // Of eight successive places, one is aligned for u64.
    for first in 0..8 {
        source.read(0..3, &mut bytes[first..first + 24]).expect("three rows");
        sink.write(0..3, &bytes[first..first + 24]).expect("three rows");
    }
    drop(sink);
    assert_eq!(found, [0, 1 << 40, 2 << 40].repeat(8));
}
