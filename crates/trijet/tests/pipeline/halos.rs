//! Stages with halos: several of them in one run give the bytes of the same stages one after
//! another, each over all data.

use crate::{Collect, Landed, Memory, SCHEDULES, median_by_sorting, noise, simulated, threads};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Mutex;
use trijet::kernels::median::{Rows, median};
use trijet::pipeline::{HostWork, Layout, Schedule, StageCx};
use trijet::sim::{HostConfig, Order};
use trijet::testing::{Prng, WORK};
use trijet::{Bytes, Device, ErrorKind, Pipeline, Result, View, ViewMut};

/// A stage whose rows depend on the rows in its halo.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Copies to each row one of the rows in its halo. The number of the row and the seed choose
    /// it.
    Pick { halo: u64, seed: u64 },
    /// Writes the number of each row, in rows of twice the bytes.
    Widen { halo: u64 },
}

impl Step {
    fn halo(self) -> u64 {
        match self {
            Self::Pick { halo, .. } | Self::Widen { halo } => halo,
        }
    }
}

/// The row of `0..rows` that the step copies to `row`.
fn picked(row: u64, rows: u64, halo: u64, seed: u64) -> u64 {
    let offset = Prng::new(seed ^ row).below(2 * halo + 1);
    (row + offset).saturating_sub(halo).min(rows - 1)
}

fn number(row: u64) -> u8 {
    u8::try_from(row % 251).expect("less than 256")
}

/// The steps one after another, each over all rows.
fn one_after_another(steps: &[Step], rows: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    steps.iter().fold(rows, |rows, step| {
        let count = rows.len() as u64;
        let from = |row: u64| &rows[usize::try_from(row).expect("a small test")];
        let row = |row| match *step {
            Step::Pick { halo, seed } => from(picked(row, count, halo, seed)).clone(),
            Step::Widen { .. } => vec![number(row); 2 * from(row).len()],
        };
        (0..count).map(row).collect()
    })
}

/// The rows that a stage with this halo reads to write `rows`: whole granules, as far as the data
/// go.
fn read_for(rows: &Range<u64>, halo: u64, layout: Layout) -> Range<u64> {
    let first = rows.start.saturating_sub(halo) / layout.granule * layout.granule;
    first..(rows.end + halo).next_multiple_of(layout.granule).min(layout.rows)
}

/// Enqueues a step for bytes, and checks the rows that the stage gets.
fn pick(
    s: &StageCx<'_>,
    (halo, seed): (u64, u64),
    layout: Layout,
    (x, mut y): (View<'_, u8>, ViewMut<'_, u8>),
) -> Result<()> {
    let (held, wanted) = (s.x_rows(), s.y_rows());
    if wanted.is_empty() {
        return Ok(());
    }
    assert_eq!(held, read_for(&wanted, halo, layout), "as if the stage ran alone");
    let row_bytes = y.len() / usize::try_from(wanted.end - wanted.start).expect("a small test");
    let at = |row: u64| {
        let first = usize::try_from(row).expect("a small test") * row_bytes;
        first..first + row_bytes
    };
    assert_eq!(x.len(), at(held.end - held.start).start, "x has its rows");
    for row in wanted.clone() {
        let from = picked(row, layout.rows, halo, seed) - held.start;
        s.copy(&x.slice(at(from)), &mut y.reborrow().slice(at(row - wanted.start)))?;
    }
    Ok(())
}

fn widen(s: &StageCx<'_>, mut y: ViewMut<'_, u16>) -> Result<()> {
    let rows = s.y_rows();
    let row_len = y.len().checked_div(usize::try_from(rows.end - rows.start).expect("small"));
    for (n, row) in rows.enumerate() {
        let row_len = row_len.expect("there are rows");
        s.fill_bytes(&mut y.reborrow().slice(n * row_len..(n + 1) * row_len), number(row))?;
    }
    Ok(())
}

fn with_step<'a>(pipeline: Pipeline<'a>, step: Step, layout: Layout) -> Pipeline<'a> {
    let staged = match step {
        Step::Pick { halo, seed } => {
            pipeline.stage::<u8, u8>(move |s, x, y| pick(s, (halo, seed), layout, (x, y)))
        }
        Step::Widen { .. } => pipeline.stage::<u8, u16>(|s, _, y| widen(s, y)),
    };
    staged.halo(step.halo())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let halo = || prop_oneof![2 => Just(0u64), 5 => 0u64..6, 1 => 6u64..40];
    let step = prop_oneof![
        6 => (halo(), any::<u64>()).prop_map(|(halo, seed)| Step::Pick { halo, seed }),
        1 => halo().prop_map(|halo| Step::Widen { halo }),
    ];
    prop::collection::vec(step, 0..5)
}

/// Ranges of rows that are whole granules, sorted and disjoint; all rows in most cases.
fn wanted(cuts: &[u64], layout: Layout) -> Vec<Range<u64>> {
    if cuts.len() < 2 {
        return std::iter::once(0..u64::MAX).collect();
    }
    let granules = layout.rows / layout.granule + 1;
    let mut cuts: Vec<u64> = cuts.iter().map(|cut| cut % granules * layout.granule).collect();
    cuts.sort_unstable();
    cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn stages_with_halos_equal_the_same_stages_one_after_another(
        steps in steps(), rows in 1u64..60, granule in 1u64..5, row_bytes in 1usize..4,
        chunk in 1u64..60, depth in 1usize..5, schedule in 0usize..4, inline in any::<bool>(),
        cuts in prop::collection::vec(any::<u64>(), 0..6), seed in any::<u64>(),
    ) {
        let device = threads();
        let layout = Layout::rows(rows, row_bytes as u64).granule(granule);
        let bytes = noise(seed, usize::try_from(rows).expect("small") * row_bytes);
        let all = bytes.chunks(row_bytes).map(<[u8]>::to_vec).collect();
        let expected = one_after_another(&steps, all);
        let todo = wanted(&cuts, layout);
        let wanted: Vec<u8> = todo
            .iter()
            .flat_map(|range| range.start..range.end.min(rows))
            .flat_map(|row| expected[usize::try_from(row).expect("small")].clone())
            .collect();
        let landed: Mutex<Landed> = Mutex::default();
        let mut pipeline = Pipeline::on(&device).source(Memory { layout, ..Memory::new(bytes, row_bytes as u64) });
        for step in &steps {
            pipeline = with_step(pipeline, *step, layout);
        }
        pipeline
            .sink(Collect::new(&landed))
            .rows(todo)
            .chunk(Bytes(chunk))
            .depth(depth)
            .schedule(SCHEDULES[schedule])
            .host_work(if inline { HostWork::Inline } else { HostWork::Threads })
            .untraced()
            .run()
            .expect("a run without faults");
        prop_assert!(landed.into_inner().expect("no panic").bytes == wanted);
    }
}

/// Two medians over a stack of images.
fn medians(
    device: &Device,
    pixels: &[u16],
    [width, height]: [u32; 2],
    radii: [u32; 2],
    (granule, chunk): (u64, u64),
) -> Vec<u16> {
    let bytes = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
    let mut source = Memory::new(bytes, u64::from(width) * 2);
    source.layout = source.layout.granule(granule);
    let landed: Mutex<Landed> = Mutex::default();
    let mut pipeline = Pipeline::on(device).source(source);
    for radius in radii {
        // Chunks of whole images need no halo.
        let halo = if granule == u64::from(height) { 0 } else { u64::from(radius) };
        pipeline = pipeline
            .stage(move |s, x, y| {
                let (first_out, first_in) = (s.y_rows().start, s.x_rows().start);
                median::<u16>(s, x, y, Rows { width, height, first_out, first_in }, radius)
            })
            .halo(halo);
    }
    let run = pipeline.sink(Collect::new(&landed)).chunk(Bytes(chunk)).depth(2);
    run.host_work(HostWork::Inline).run().expect("a run without faults");
    let landed = landed.into_inner().expect("no test panics with this lock");
    landed.bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()
}

#[test]
fn a_median_of_medians_is_right_at_the_edges_of_chunks_and_images() {
    let (width, height, images) = (7, 9, 4);
    let bytes = noise(8, 2 * width * height * images);
    let pixels: Vec<u16> = bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    for radii in [[1, 1], [2, 1], [1, 3], [7, 7]] {
        let [first, second] = radii.map(|radius| radius as usize);
        let once = median_by_sorting(&pixels, width, height, first);
        let expected = median_by_sorting(&once, width, height, second);
        for chunk_rows in [1, 2, 4, 8, 9, 10, 13, 36] {
            for granule in [1, 3, 9] {
                let sizes = (granule, 14 * chunk_rows);
                let found = medians(&threads(), &pixels, [7, 9], radii, sizes);
                assert!(found == expected, "radii {radii:?}, {chunk_rows} rows, granule {granule}");
                let device = simulated(Order::Seeded(chunk_rows));
                let found = medians(&device, &pixels, [7, 9], radii, sizes);
                assert!(found == expected, "radii {radii:?}, {chunk_rows} rows, granule {granule}");
            }
        }
    }
}

/// The results between two stages of a chunk have more rows than the chunk. The memory limit
/// includes them.
#[test]
fn halos_take_part_in_the_memory_of_a_run() {
    let run = |halo, memory| {
        let device = crate::host(HostConfig::new().memory(Bytes(memory)));
        let landed: Mutex<Landed> = Mutex::default();
        let report = Pipeline::on(&device)
            .source(Memory::new(noise(2, 40_000), 100))
            .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)))
            .stage::<u32, u32>(|s, x, mut y| {
                let before = usize::try_from(s.y_rows().start - s.x_rows().start).expect("small");
                s.copy(&x.slice(before * 25..before * 25 + y.len()), &mut y)
            })
            .halo(halo)
            .sink(Collect::new(&landed))
            .chunk(Bytes(4000))
            .depth(1)
            .schedule(Schedule::RoleStreams)
            .run()?;
        let bytes = landed.into_inner().expect("no test panics with this lock").bytes;
        assert!(bytes == noise(2, 40_000), "halo {halo}, {memory} bytes");
        trijet::Result::Ok(report.plan.chunk_rows)
    };
    // Three buffers of 40 rows. Two of them have 20 rows around them.
    assert_eq!(run(0, 12_400).expect("it fits"), 40);
    assert_eq!(run(20, 1 << 20).expect("it fits"), 40);
    assert!(run(20, 18_000).expect("smaller chunks fit") < 40);
    assert_eq!(run(200, 20_000).expect_err("no halo fits").kind(), ErrorKind::OutOfMemory);
}

#[test]
fn the_reach_of_halos_is_what_a_chunk_in_the_middle_reads() {
    let device = threads();
    for (granule, halos, reach) in
        [(1, &[][..], 0), (1, &[3, 0, 2], 5), (10, &[3, 0, 11], 30), (10, &[10, 1], 20)]
    {
        let mut source = Memory::new(noise(1, 1000), 1);
        source.layout = source.layout.granule(granule);
        let todo = std::iter::once(500..510).collect();
        let mut pipeline = Pipeline::on(&device).source(source).rows(todo);
        for halo in halos {
            pipeline = pipeline.stage::<u8, u8>(|_, _, _| Ok(())).halo(*halo);
        }
        let layout = Layout::rows(1000, 1).granule(granule);
        assert_eq!(layout.reach(halos.iter().copied()), reach, "{granule}, {halos:?}");
        let plan = pipeline.chunk(Bytes(1000)).plan().expect("one chunk");
        assert_eq!(plan.chunks[0].input, 500 - reach..510 + reach, "{granule}, {halos:?}");
    }
}

#[test]
fn a_halo_without_a_stage_is_refused() {
    let device = threads();
    let words = "`halo` was called before `stage`";
    let early = || Pipeline::on(&device).source(Memory::new(noise(1, 100), 10)).halo(1);
    let landed: Mutex<Landed> = Mutex::default();
    let copy = early().stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y));
    let runs = [
        copy.sink(Collect::new(&landed)).run().map(drop),
        early().sink(Collect::new(&landed)).run().map(drop),
        early().plan().map(drop),
    ];
    for run in runs {
        let error = run.expect_err("no stage has the halo");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.to_string().contains(words), "{error}");
    }
}
