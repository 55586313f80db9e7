//! Several processes that write one output: each writes its rows, the last one gives the output its
//! name, and any of them can be started again.

use crate::common::demand;
use crate::workdir::{Workdir, only};
use std::fs;
use std::sync::Barrier;
use std::thread;
use trijet::testing::Prng;
use trijet::{ErrorKind, Result, Sink};
use trijet_io::{Array, Dtype, Fingerprint, Output, Shard, Start, Stopped, Target};

const ROWS: u64 = 12;

/// An output of 12 rows of 4 bytes: a file, or a folder of 6 images of 2 rows.
struct Job {
    workdir: Workdir,
    name: &'static str,
    array: Array,
    data: Vec<u8>,
}

impl Job {
    fn new(name: &'static str) -> Self {
        let array = Array::new(Dtype::U8, vec![6, 2, 4]).unwrap();
        let data = (1..=48).collect();
        Self { workdir: Workdir::new(), name, array, data }
    }

    fn target(&self, index: u64, count: u64) -> Target {
        let path = self.workdir.path(self.name);
        let target = Target::new(&path, self.array.clone(), &self.workdir.input).unwrap();
        let granule = target.granule();
        target.of_shard(Shard::new(index, count).unwrap(), granule)
    }

    fn open(&self, index: u64, count: u64, start: Start) -> Result<Output> {
        let target = self.target(index, count);
        let run = Fingerprint::new(&self.workdir.input, "copy", &target);
        Output::open(&target, &run, start)
    }

    /// Writes the rows that are missing, in pieces of two; at most `most` pieces.
    fn write_some(&self, output: &mut Output, most: usize) {
        let pieces = output.missing().into_iter().flat_map(|rows| {
            let end = rows.end;
            rows.step_by(2).map(move |start| start..end.min(start + 2))
        });
        for rows in pieces.take(most) {
            let place = |row: u64| usize::try_from(row * 4).unwrap();
            output.write(rows.clone(), &self.data[place(rows.start)..place(rows.end)]).unwrap();
        }
    }

    fn write(&self, output: &mut Output) {
        self.write_some(output, usize::MAX);
    }

    fn run(&self, index: u64, count: u64, start: Start) {
        let mut output = self.open(index, count, start).unwrap();
        self.write(&mut output);
        output.finish().unwrap();
    }

    /// Asserts that the output is complete, and that no other file is next to it.
    #[track_caller]
    fn is_complete(&self) {
        let mut wanted = vec!["in.npy".to_owned(), self.name.to_owned()];
        wanted.sort();
        assert_eq!(self.workdir.names(), wanted);
        let raw = self.name.ends_with(".raw").then(|| self.array.clone());
        let read = trijet_io::Input::open(&self.workdir.path(self.name), raw).unwrap();
        let mut bytes = vec![0; self.data.len()];
        trijet::Source::read(&read, 0..ROWS, &mut bytes).unwrap();
        assert_eq!(bytes, self.data);
    }

    fn exists(&self) -> bool {
        self.workdir.path(self.name).exists()
    }
}

const NAMES: [&str; 3] = ["out.npy", "out.raw", "images"];

#[test]
fn the_last_process_gives_the_output_its_name() {
    for name in NAMES {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let job = Job::new(name);
            for (done, index) in order.into_iter().enumerate() {
                assert!(!job.exists(), "{name} after {done} of 3");
                job.run(index, 3, Start::New);
            }
            job.is_complete();
        }
    }
}

/// Exactly one process gives the name, and none of them fails.
#[test]
fn processes_that_begin_and_finish_at_once_give_one_output() {
    for round in 0..20 {
        let job = Job::new(NAMES[round % 3]);
        let together = Barrier::new(4);
        thread::scope(|scope| {
            for index in 0..4 {
                let (job, together) = (&job, &together);
                scope.spawn(move || {
                    together.wait();
                    let mut output = job.open(index, 4, Start::Resume).unwrap();
                    job.write(&mut output);
                    together.wait();
                    output.finish().unwrap();
                });
            }
        });
        job.is_complete();
    }
}

#[test]
fn any_process_can_be_started_again() {
    for name in NAMES {
        let job = Job::new(name);
        let mut output = job.open(0, 2, Start::New).unwrap();
        assert_eq!(output.missing(), only(0..6));
        output.write(2..4, &job.data[8..16]).unwrap();
        drop(output);
        demand(job.open(0, 2, Start::New), ErrorKind::InvalidValue, name, &["2 of 6 rows"]);
        job.run(1, 2, Start::New);
        // A process that has finished has nothing left to do.
        let mut again = job.open(1, 2, Start::Resume).unwrap();
        assert_eq!(again.missing(), []);
        again.finish().unwrap();
        assert!(!job.exists());
        let mut output = job.open(0, 2, Start::Resume).unwrap();
        assert_eq!(output.missing(), [0..2, 4..6], "{name}");
        job.write(&mut output);
        output.finish().unwrap();
        job.is_complete();
    }
}

/// A process that died after its last row, and before it could give the name.
#[test]
fn a_process_without_rows_left_still_gives_the_name() {
    let job = Job::new("out.npy");
    let mut output = job.open(0, 2, Start::New).unwrap();
    job.write(&mut output);
    drop(output);
    job.run(1, 2, Start::New);
    assert!(!job.exists());
    job.run(0, 2, Start::Resume);
    job.is_complete();
}

#[test]
fn restarting_one_process_keeps_the_rows_of_the_others() {
    for name in NAMES {
        let job = Job::new(name);
        job.run(1, 2, Start::New);
        let mut output = job.open(0, 2, Start::New).unwrap();
        output.write(0..2, &[9; 8]).unwrap();
        drop(output);
        let output = job.open(0, 2, Start::Restart).unwrap();
        assert_eq!(output.missing(), only(0..6));
        drop(output);
        job.run(0, 2, Start::Restart);
        job.is_complete();
    }
}

#[test]
fn a_finished_process_that_is_restarted_is_waited_for() {
    let job = Job::new("out.npy");
    job.run(0, 2, Start::New);
    let mut again = job.open(0, 2, Start::Restart).unwrap();
    again.write(0..2, &job.data[..8]).unwrap();
    job.run(1, 2, Start::New);
    assert!(!job.exists(), "shard 0 writes again");
    job.write(&mut again);
    again.finish().unwrap();
    job.is_complete();
}

#[test]
fn another_number_of_processes_is_another_job() {
    let job = Job::new("out.npy");
    job.run(0, 2, Start::New);
    let mut other = job.open(0, 3, Start::New).unwrap();
    demand(other.write(0..2, &[0; 8]), ErrorKind::InvalidValue, "out.npy", &["shards was 2"]);
    let target = Target::new(&job.workdir.path("out.npy"), job.array.clone(), &job.workdir.input);
    let alone = job.workdir.begin(&target.unwrap(), "copy", Start::New);
    demand(alone, ErrorKind::InvalidValue, "out.npy", &["shards was 2, now it is 1"]);
    job.run(1, 2, Start::New);
    job.is_complete();
}

#[test]
fn processes_that_have_written_nothing_leave_nothing() {
    let job = Job::new("out.npy");
    let (first, second) =
        (job.open(0, 2, Start::New).unwrap(), job.open(1, 2, Start::New).unwrap());
    assert_eq!(first.stop().unwrap(), Stopped::Nothing);
    assert_eq!(second.stop().unwrap(), Stopped::Nothing);
    assert_eq!(job.workdir.names(), ["in.npy"]);
}

#[test]
fn one_process_at_a_time_has_a_shard() {
    let job = Job::new("out.npy");
    let _first = job.open(0, 2, Start::New).unwrap();
    demand(job.open(0, 2, Start::Resume), ErrorKind::InvalidValue, "out.npy", &["another run"]);
    drop(job.open(1, 2, Start::New).unwrap());
}

/// Rows that were in a partial output which does not exist any more are not part of the output.
#[test]
fn rows_of_a_partial_output_that_was_deleted_are_not_taken() {
    let job = Job::new("out.npy");
    job.run(0, 2, Start::New);
    fs::remove_file(job.workdir.path("out.npy.partial")).unwrap();
    job.run(1, 2, Start::New);
    assert!(!job.exists(), "the rows of shard 0 are gone");
    let words = ["is not the partial output that the journal next to it names"];
    demand(job.open(0, 2, Start::Resume), ErrorKind::InvalidValue, "out.npy", &words);
    job.run(0, 2, Start::Restart);
    job.is_complete();
}

/// The process that creates the partial output may die before it can record that.
#[test]
fn a_process_that_died_while_it_created_the_output_leaves_the_way_free() {
    for name in NAMES {
        let job = Job::new(name);
        let mut output = job.open(0, 2, Start::New).unwrap();
        output.write(0..2, &job.data[..8]).unwrap();
        drop(output);
        let shared = job.workdir.path(&format!("{name}.journal"));
        let text = fs::read_to_string(&shared).unwrap();
        let header = text.lines().next().unwrap();
        assert!(text.contains("created"), "{text}");
        fs::write(&shared, format!("{header}\n")).unwrap();
        fs::remove_file(job.workdir.path(&format!("{name}.0-of-2.journal"))).unwrap();
        job.run(0, 2, Start::New);
        job.run(1, 2, Start::New);
        job.is_complete();
    }
}

#[test]
fn what_lies_in_the_way_is_never_changed() {
    let job = Job::new("out.npy");
    fs::write(job.workdir.path("out.npy.partial"), b"precious").unwrap();
    let mut output = job.open(0, 2, Start::New).unwrap();
    let words = ["has no journal that names its job"];
    demand(output.write(0..2, &[0; 8]), ErrorKind::InvalidValue, "out.npy.partial", &words);
    drop(output);
    assert_eq!(fs::read(job.workdir.path("out.npy.partial")).unwrap(), b"precious");
}

/// Processes that are started and end at random: the output is complete when each has finished.
#[test]
fn processes_that_die_at_random_give_the_right_bytes() {
    for seed in 0..60 {
        let mut draw = Prng::new(seed);
        let job = Job::new(NAMES[usize::try_from(draw.below(3)).unwrap()]);
        let count = 1 + draw.below(5);
        let mut starts = 0;
        while !job.exists() {
            starts += 1;
            assert!(starts < 1000, "seed {seed}: it never ends");
            let mut output = job.open(draw.below(count), count, Start::Resume).unwrap();
            job.write_some(&mut output, usize::try_from(draw.below(5)).unwrap());
            if output.missing().is_empty() && draw.below(3) > 0 {
                output.finish().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        }
        job.is_complete();
    }
}
