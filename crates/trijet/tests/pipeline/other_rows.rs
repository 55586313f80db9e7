//! Stages that write other rows than they read: any division into chunks gives the bytes of the
//! same stages one after another, each over all data.

use crate::{Collect, Landed, Memory, SCHEDULES, noise, simulated, threads};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Mutex;
use trijet::pipeline::{HostWork, Layout, StageCx};
use trijet::sim::Order;
use trijet::{Bytes, ErrorKind, Pipeline, Result, View, ViewMut};

/// A stage over rows of bytes.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// Keeps the last one of `by` rows, and leaves a rest of fewer rows out.
    Last { by: u64 },
    /// Leaves out rows at the start, and rows at the end.
    Crop { before: u64, after: u64 },
    /// Writes each row `times` times.
    Repeat { times: u64 },
    /// Keeps the first half of the bytes of each row, rounded up.
    Narrow,
    /// Copies the row that is `halo` rows before.
    Shift { halo: u64 },
}

impl Change {
    /// The number of rows after the stage, and the bytes of such a row.
    fn output(self, rows: u64, row_bytes: u64) -> [u64; 2] {
        match self {
            Self::Last { by } => [rows / by, row_bytes],
            Self::Crop { before, after } => [rows.saturating_sub(before + after), row_bytes],
            Self::Repeat { times } => [rows * times, row_bytes],
            Self::Narrow => [rows, row_bytes.div_ceil(2)],
            Self::Shift { .. } => [rows, row_bytes],
        }
    }

    /// The row of the input that becomes the row `y`.
    fn from(self, y: u64) -> u64 {
        match self {
            Self::Last { by } => y * by + by - 1,
            Self::Crop { before, .. } => y + before,
            Self::Repeat { times } => y / times,
            Self::Narrow => y,
            Self::Shift { halo } => y.saturating_sub(halo),
        }
    }

    fn input_rows(self, y: Range<u64>) -> Range<u64> {
        self.from(y.start)..self.from(y.end - 1) + 1
    }
}

/// The stages one after another, each over all rows.
fn one_after_another(changes: &[Change], rows: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    changes.iter().fold(rows, |rows, change| {
        let bytes = rows.first().map_or(0, |row| row.len() as u64);
        let [count, bytes] = change.output(rows.len() as u64, bytes);
        let bytes = usize::try_from(bytes).expect("a small test");
        let row =
            |y| rows[usize::try_from(change.from(y)).expect("a small test")][..bytes].to_vec();
        (0..count).map(row).collect()
    })
}

/// Enqueues a stage: one copy for each row.
fn enqueue(
    change: Change,
    [x_bytes, y_bytes]: [u64; 2],
    s: &StageCx<'_>,
    x: View<'_, u8>,
    mut y: ViewMut<'_, u8>,
) -> Result<()> {
    let (held, wanted) = (s.x_rows(), s.y_rows());
    let at = |row: u64, bytes: u64| usize::try_from(row * bytes).expect("a small test");
    assert_eq!(x.len(), at(held.end - held.start, x_bytes));
    assert_eq!(y.len(), at(wanted.end - wanted.start, y_bytes));
    for row in wanted.clone() {
        let from = at(change.from(row) - held.start, x_bytes);
        let (to, bytes) = (at(row - wanted.start, y_bytes), at(1, y_bytes));
        s.copy(&x.slice(from..from + bytes), &mut y.reborrow().slice(to..to + bytes))?;
    }
    Ok(())
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        (1u64..5).prop_map(|by| Change::Last { by }),
        (0u64..6, 0u64..6).prop_map(|(before, after)| Change::Crop { before, after }),
        (1u64..4).prop_map(|times| Change::Repeat { times }),
        Just(Change::Narrow),
        (0u64..5).prop_map(|halo| Change::Shift { halo }),
    ];
    prop::collection::vec(change, 1..4)
}

/// A pipeline with these stages, over rows of the layout `input`.
fn with_changes<'a>(
    mut pipeline: Pipeline<'a>,
    changes: &[Change],
    input: Layout,
    granule: u64,
) -> Pipeline<'a> {
    let (mut rows, mut row_bytes) = (input.rows, input.row_bytes);
    for change in changes.iter().copied() {
        let [y_rows, y_bytes] = change.output(rows, row_bytes);
        let sizes = [row_bytes, y_bytes];
        pipeline = pipeline.stage::<u8, u8>(move |s, x, y| enqueue(change, sizes, s, x, y));
        pipeline = match change {
            Change::Shift { halo } => pipeline.halo(halo),
            _ => {
                let output = Layout::rows(y_rows, y_bytes).granule(granule);
                pipeline.output_rows(output, move |y| change.input_rows(y))
            }
        };
        (rows, row_bytes) = (y_rows, y_bytes);
    }
    pipeline
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn stages_with_other_rows_equal_the_same_stages_one_after_another(
        changes in changes(), rows in 0u64..60, granules in (1u64..5, 1u64..4),
        row_bytes in 1u64..5, chunk in 1u64..80, depth in 1usize..5, schedule in 0usize..4,
        inline in any::<bool>(), order in prop::option::of(any::<u64>()), seed in any::<u64>(),
    ) {
        let device = order.map_or_else(threads, |seed| simulated(Order::Seeded(seed)));
        let layout = Layout::rows(rows, row_bytes).granule(granules.0);
        let bytes = noise(seed, usize::try_from(rows * row_bytes).expect("small"));
        let all = bytes.chunks(usize::try_from(row_bytes).expect("small"));
        let expected = one_after_another(&changes, all.map(<[u8]>::to_vec).collect()).concat();
        let landed: Mutex<Landed> = Mutex::default();
        let source = Memory { layout, ..Memory::new(bytes, row_bytes) };
        let pipeline = Pipeline::on(&device).source(source);
        with_changes(pipeline, &changes, layout, granules.1)
            .sink(Collect::new(&landed))
            .chunk(Bytes(chunk))
            .depth(depth)
            .schedule(SCHEDULES[schedule])
            .host_work(if inline { HostWork::Inline } else { HostWork::Threads })
            .untraced()
            .run()
            .expect("a run without faults");
        prop_assert_eq!(landed.into_inner().expect("no panic").bytes, expected);
    }
}

/// Page-locked data, and a result that is shorter than the data.
#[test]
fn a_pinned_sink_has_the_size_of_the_results() {
    let device = threads();
    let mut x = device.pinned::<u8>(40).expect("memory");
    x.write().expect("no error").copy_from_slice(&noise(3, 40));
    let run = |held: usize| {
        let mut y = device.pinned::<u8>(held).expect("memory");
        let changes = [Change::Last { by: 2 }, Change::Narrow];
        let pipeline = Pipeline::on(&device).pinned_source(&x, 4);
        let pipeline = with_changes(pipeline, &changes, Layout::rows(10, 4), 1);
        pipeline.pinned_sink(&mut y).chunk(Bytes(9)).run()?;
        let found = y.read().expect("no error").to_vec();
        trijet::Result::Ok(found)
    };
    let rows: Vec<Vec<u8>> = noise(3, 40).chunks(4).map(<[u8]>::to_vec).collect();
    let expected: Vec<u8> =
        rows.iter().skip(1).step_by(2).flat_map(|row| &row[..2]).copied().collect();
    assert_eq!(run(10).expect("it fits"), expected);
    assert_eq!(run(9).expect_err("too short").kind(), ErrorKind::InvalidValue);
}

#[test]
fn rows_that_do_not_fit_are_refused_before_the_run() {
    let device = threads();
    let refused = |output: Layout, words: &str| {
        let landed: Mutex<Landed> = Mutex::default();
        let pipeline = Pipeline::on(&device)
            .source(Memory::new(noise(1, 100), 10))
            .stage::<u16, u16>(|_, _, _| panic!("no stage of a refused run is called"))
            .output_rows(output, |y| y)
            .sink(Collect::new(&landed));
        let error = pipeline.run().expect_err(words);
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(Layout::rows(10, 3), "output rows of 3 bytes are not whole elements of u16");
    refused(Layout::rows(10, 0), "a row has 0 bytes");
    refused(Layout::rows(10, 2).granule(0), "the granule has 0 rows");
    refused(Layout::rows(u64::MAX, 4), "do not fit into 64 bits");
    let early = Pipeline::on(&device).source(Memory::new(noise(1, 100), 10));
    let error = early.output_rows(Layout::rows(1, 1), |y| y).plan().expect_err("no stage");
    assert!(error.to_string().contains("`output_rows` was called before `stage`"), "{error}");
}

/// A panic of the function that names the input rows is an error of the run, as a panic of a stage
/// is.
#[test]
fn a_panic_of_the_function_of_the_rows_is_an_error() {
    let device = threads();
    let landed: Mutex<Landed> = Mutex::default();
    let run = Pipeline::on(&device)
        .source(Memory::new(noise(1, 100), 10))
        .stage::<u8, u8>(|_, _, _| Ok(()))
        .output_rows(Layout::rows(10, 10), |_| panic!("no rows today"))
        .sink(Collect::new(&landed))
        .run();
    let error = run.expect_err("the function panics");
    assert_eq!(error.kind(), ErrorKind::Panicked, "{error}");
    assert!(error.to_string().contains("no rows today"), "{error}");
}
