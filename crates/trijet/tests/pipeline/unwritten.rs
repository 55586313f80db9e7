//! Stages that leave a part of their output unwritten.

use crate::{Memory, noise};
use trijet::check::{CheckOptions, FindingClass, Verdict};
use trijet::pipeline::Schedule;
use trijet::sim::HostConfig;
use trijet::testing::WORK;
use trijet::{Bytes, Device, Pipeline, Result};

const SCHEDULES: [Schedule; 4] =
    [Schedule::Tuned, Schedule::OneStream, Schedule::SlotStreams, Schedule::RoleStreams];

/// The verdict of a run of 30 chunks of 10 rows. Its first stage writes `written` rows of each
/// chunk.
fn verdict(schedule: Schedule, written: impl Fn(u64) -> usize) -> Result<Verdict> {
    let device =
        Device::builder().host(HostConfig::default()).check(CheckOptions::default()).open()?;
    let mut results: Vec<u8> = Vec::new();
    Pipeline::on(&device)
        .source(Memory::new(noise(3, 300 * 60), 60))
        .chunk(Bytes(600))
        .schedule(schedule)
        .stage::<u32, u32>(|s, x, y| {
            let elements = y.len().min(written(s.chunk().index) * 15);
            s.launch(&WORK, (0, x.slice(..elements), y.slice(..elements)))
        })
        .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)))
        .sink(&mut results)
        .run()?;
    Ok(device.verdict().expect("it is checked"))
}

#[test]
fn a_stage_that_writes_all_of_its_output_is_clean() -> Result<()> {
    for schedule in SCHEDULES {
        let verdict = verdict(schedule, |_| 10)?;
        assert_eq!(verdict.findings, [], "{schedule:?}: {verdict}");
    }
    Ok(())
}

/// The unwritten bytes of a chunk are bytes of an earlier chunk in the same slot, so only the
/// checker finds them.
#[test]
fn a_stage_that_leaves_rows_of_one_late_chunk_unwritten_is_found_with_its_line() -> Result<()> {
    for schedule in SCHEDULES {
        let verdict = verdict(schedule, |chunk| if chunk == 23 { 7 } else { 10 })?;
        let [finding] = &verdict.findings[..] else { panic!("{schedule:?}: {verdict}") };
        assert_eq!(finding.class, FindingClass::ReadUninit);
        assert_eq!((finding.ranges.len(), &finding.ranges[0]), (1, &(7 * 60..10 * 60)));
        let stage = finding.first.as_ref().expect("the stage");
        assert_eq!(stage.label, "stage 0 of rows 230 to 240", "{verdict}");
        assert!(verdict.to_string().contains("unwritten.rs:"), "{verdict}");
    }
    Ok(())
}

/// One finding for each stage is enough, however many chunks there are.
#[test]
fn a_stage_that_never_writes_the_end_of_its_output_is_found_once() -> Result<()> {
    for schedule in SCHEDULES {
        let verdict = verdict(schedule, |_| 9)?;
        let [finding] = &verdict.findings[..] else { panic!("{schedule:?}: {verdict}") };
        assert_eq!((finding.class, verdict.more), (FindingClass::ReadUninit, 29), "{verdict}");
    }
    Ok(())
}

/// A stage in place may leave the bytes that the program's own output has.
#[test]
fn rows_that_a_stage_in_place_keeps_in_the_output_of_the_program_are_no_finding() -> Result<()> {
    let device =
        Device::builder().host(HostConfig::default()).check(CheckOptions::default()).open()?;
    let mut x = device.pinned::<u32>(150)?;
    let mut y = device.pinned::<u32>(150)?;
    x.write()?.fill(1);
    y.write()?.fill(7);
    Pipeline::on(&device)
        .pinned_source(&x, 15)
        .schedule(Schedule::InPlace)
        .stage::<u32, u32>(|s, x, y| {
            let half = y.len() / 2;
            s.launch(&WORK, (0, x.slice(..half), y.slice(..half)))
        })
        .pinned_sink(&mut y)
        .run()?;
    let kept = y.read()?.iter().filter(|value| **value == 7).count();
    let verdict = device.verdict().expect("it is checked");
    assert_eq!((kept, &verdict.findings[..]), (75, &[][..]), "{verdict}");
    Ok(())
}
