//! Schedules: the stream on which each stage of each chunk runs.
//!
//! A schedule is a [`Table`] from (stage, chunk) to stream. A row of the table has the streams of
//! one stage, and successive chunks use these streams in turn. When the table is made, a run only
//! looks up streams in the table. So another schedule, or a pipeline with more stages, only needs
//! another table.
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Range;

/// Number of streams for kernels in the tuned schedule. The last blocks of one chunk's kernels
/// leave multiprocessors idle, and the first blocks of the next chunk's kernels use these
/// multiprocessors.
const COMPUTE_STREAMS: usize = 2;

/// How chunks share streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Schedule {
    /// All operations in one stream: nothing overlaps.
    OneStream,
    /// A stream for each slot. The stream does the upload, the kernels and the download of the
    /// chunks in the slot.
    SlotStreams,
    /// A stream for each role: upload, compute, download.
    RoleStreams,
    /// All operations in one stream, and nothing is copied: the first stage reads the page-locked
    /// input over the link, and the last stage writes the page-locked output over the link. This is
    /// the fastest schedule for small jobs whose kernels access each byte once; see
    /// [`Pipeline::prepare`](crate::Pipeline::prepare). Without a stage, the data are copied.
    InPlace,
    /// A stream for each copy engine, two streams for kernels, and chunk sizes from a measurement
    /// before the first chunk. Successive chunks use the two streams for kernels in turn.
    ///
    /// A device may share the memory of the host
    /// ([`DeviceInfo::integrated`](crate::DeviceInfo::integrated)). On an integrated device nothing
    /// is copied: the first stage reads the page-locked input, and the last stage writes the
    /// page-locked output. With a checker ([`DeviceBuilder::check`](crate::DeviceBuilder::check)),
    /// data are copied on an integrated device too, because the checker needs the copies and waits
    /// of a GPU.
    #[default]
    Tuned,
}

impl Schedule {
    /// The name of the schedule, for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OneStream => "one stream",
            Self::SlotStreams => "slot streams",
            Self::RoleStreams => "role streams",
            Self::InPlace => "in place",
            Self::Tuned => "tuned",
        }
    }
}

/// A step of a chunk through a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) enum StageId {
    Upload,
    /// The kernels of the stage with this number, counted from 0.
    Kernels(usize),
    Download,
}

impl fmt::Display for StageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upload => f.write_str("upload"),
            Self::Kernels(number) => write!(f, "stage {number}"),
            Self::Download => f.write_str("download"),
        }
    }
}

/// The stream of each stage and chunk in a run. Streams are numbered from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::pipeline) struct Table {
    /// The name of each stream.
    names: Vec<String>,
    /// The numbers of the streams of each stage: first the upload, then the stages with kernels,
    /// then the download.
    rows: Vec<Range<usize>>,
}

impl Table {
    /// The table of a pipeline with `stages` stages of kernels and `slots` slots.
    pub(in crate::pipeline) fn new(schedule: Schedule, stages: usize, slots: usize) -> Self {
        let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let (names, [upload, kernels, download]) = match schedule {
            Schedule::OneStream | Schedule::InPlace => (named(&["pipeline"]), [0..1, 0..1, 0..1]),
            Schedule::SlotStreams => {
                let names = (0..slots).map(|slot| format!("slot {slot}")).collect();
                (names, [0..slots, 0..slots, 0..slots])
            }
            Schedule::RoleStreams => {
                (named(&["upload", "compute", "download"]), [0..1, 1..2, 2..3])
            }
            Schedule::Tuned => {
                let mut names: Vec<_> = named(&["upload", "download"]);
                names.extend((0..COMPUTE_STREAMS).map(|number| format!("compute {number}")));
                (names, [0..1, 2..2 + COMPUTE_STREAMS, 1..2])
            }
        };
        let mut rows = vec![kernels; stages + 2];
        rows[0] = upload;
        rows[stages + 1] = download;
        Self { names, rows }
    }

    /// The names of the streams, in the order of their numbers.
    pub(in crate::pipeline) fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of the stream on which `stage` of chunk `chunk` runs.
    pub(in crate::pipeline) fn stream(&self, stage: StageId, chunk: u64) -> usize {
        let row = match stage {
            StageId::Upload => 0,
            StageId::Kernels(number) => 1 + number,
            StageId::Download => self.rows.len() - 1,
        };
        let streams = &self.rows[row];
        streams.start + turn(chunk, streams.len())
    }
}

/// The index of the stream, slot or event that chunk `chunk` uses, if successive chunks use `count`
/// streams, slots or events in turn.
pub(in crate::pipeline) fn turn(chunk: u64, count: usize) -> usize {
    usize::try_from(chunk % count as u64).expect("less than `count`")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the streams of the first four chunks, one line for each stage.
    fn printed(schedule: Schedule, stages: usize, slots: usize) -> String {
        let table = Table::new(schedule, stages, slots);
        let kernels = (0..stages).map(StageId::Kernels);
        let all = [StageId::Upload].into_iter().chain(kernels).chain([StageId::Download]);
        let name = |stage, chunk| format!(" {:10}", table.names()[table.stream(stage, chunk)]);
        let line = |stage: StageId| {
            let chunks: String = (0..4).map(|chunk| name(stage, chunk)).collect();
            format!("{:9}{}\n", stage.to_string(), chunks.trim_end())
        };
        all.map(line).collect()
    }

    #[test]
    fn one_stream_takes_everything() {
        let table = "\
upload    pipeline   pipeline   pipeline   pipeline
stage 0   pipeline   pipeline   pipeline   pipeline
download  pipeline   pipeline   pipeline   pipeline
";
        assert_eq!(printed(Schedule::OneStream, 1, 3), table);
    }

    #[test]
    fn a_stream_per_slot_takes_all_stages_of_its_chunks() {
        let table = "\
upload    slot 0     slot 1     slot 2     slot 0
stage 0   slot 0     slot 1     slot 2     slot 0
download  slot 0     slot 1     slot 2     slot 0
";
        assert_eq!(printed(Schedule::SlotStreams, 1, 3), table);
    }

    #[test]
    fn a_stream_per_engine_takes_one_kind_of_stage() {
        let table = "\
upload    upload     upload     upload     upload
stage 0   compute    compute    compute    compute
stage 1   compute    compute    compute    compute
download  download   download   download   download
";
        assert_eq!(printed(Schedule::RoleStreams, 2, 3), table);
    }

    #[test]
    fn the_tuned_schedule_has_two_compute_streams_in_turn() {
        let table = "\
upload    upload     upload     upload     upload
stage 0   compute 0  compute 1  compute 0  compute 1
stage 1   compute 0  compute 1  compute 0  compute 1
download  download   download   download   download
";
        assert_eq!(printed(Schedule::Tuned, 2, 3), table);
    }

    #[test]
    fn a_pipeline_without_kernels_has_two_stages() {
        let table = "\
upload    upload     upload     upload     upload
download  download   download   download   download
";
        assert_eq!(printed(Schedule::Tuned, 0, 3), table);
    }

    /// The table has a stream for every stage and chunk.
    #[test]
    fn every_entry_names_a_stream() {
        let schedules =
            [Schedule::OneStream, Schedule::SlotStreams, Schedule::RoleStreams, Schedule::Tuned];
        for schedule in schedules.into_iter().chain([Schedule::InPlace]) {
            for (stages, slots) in [(0, 1), (1, 2), (3, 5)] {
                let table = Table::new(schedule, stages, slots);
                let stages = (0..stages).map(StageId::Kernels);
                for stage in stages.chain([StageId::Upload, StageId::Download]) {
                    for chunk in (0..20).chain(u64::MAX - 20..=u64::MAX) {
                        let stream = table.stream(stage, chunk);
                        assert!(stream < table.names().len(), "{schedule:?}, {stage}, {chunk}");
                    }
                }
            }
        }
    }
}
