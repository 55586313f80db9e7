//! One case: a job with its folder and its output. The programs that take turns are the command,
//! the peers, and threads that only move the bytes.
#![forbid(unsafe_code)]

use super::definition::{Case, Definition, End, Job, Kind, Output, Variant};
use super::plain::{self, Way};
use super::stack::{Hashes, Stack, failed};
use crate::peer::{Peer, Scripts, Words, filled};
use crate::process;
use crate::results::Results;
use crate::rounds::{Figure, Side, Value, round, warm_up};
use crate::setting::Setting;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trijet::{Error, ErrorKind, Result};
use trijet_tools::progress::Steps;

/// The name of the figure for the time of a command's process, from start to end.
const PROCESS: &str = "process";
/// The name of the figure for the time that a command measures itself and prints: from the
/// allocation of its buffers to its last write. Threads of this process have this figure as well.
const RUN: &str = "run";
/// The value of every byte of an existing output before a run overwrites it.
const OLD: u8 = 0xa5;

/// The path of the input in a folder.
pub(super) fn input(folder: &Path) -> PathBuf {
    folder.join("in.raw")
}

/// The kind of a program that a case compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    /// The command that the definition names.
    Ours(End),
    Peer,
    /// Threads that only move the bytes.
    Plain(End),
}

impl Program {
    fn end(self) -> End {
        match self {
            Self::Ours(end) | Self::Plain(end) => end,
            Self::Peer => End::Written,
        }
    }
}

pub(super) struct Comparison<'a> {
    pub(super) name: String,
    pub(super) setting: &'a Setting<'a>,
    pub(super) definition: &'a Definition,
    pub(super) job: &'a Job,
    pub(super) case: Case,
    pub(super) stack: &'a Stack,
    /// The expected hashes of the result.
    pub(super) expected: &'a Hashes,
    /// The hashes of the input, which no program may change.
    pub(super) unchanged: &'a Hashes,
    pub(super) folder: &'a Path,
    pub(super) scripts: &'a Scripts,
    /// The peers that can run on this machine.
    pub(super) peers: &'a [&'a Peer],
}

impl<'a> Comparison<'a> {
    fn out(&self) -> PathBuf {
        self.folder.join("out.raw")
    }

    /// Removes the output of the last run, or overwrites it with other bytes.
    fn prepare(&self) -> Result<()> {
        let prepared = match self.case.output {
            Output::New => match fs::remove_file(self.out()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            Output::Existing => plain::fill(self.stack, &self.out(), OLD),
        };
        prepared.map_err(failed)
    }

    fn verify(&self, expected: &Hashes) -> Result<()> {
        self.stack.verify(&self.out(), expected).map_err(failed)
    }

    /// The values that replace names in braces, such as `{in}`, in the commands of the definition.
    fn words(&self) -> Vec<Words<'static>> {
        let info = self.setting.device.info();
        let device = match info.compute.0 > 0 {
            true => format!("cuda:{}", self.setting.device.id().0),
            false => "host".to_owned(),
        };
        let size = self.stack.size;
        let path = |path: &Path| vec![path.display().to_string()];
        vec![
            self.scripts.words(),
            ("trijet", path(&self.setting.trijet)),
            ("in", path(&input(self.folder))),
            ("out", path(&self.out())),
            ("pages", vec![size.pages.to_string()]),
            ("height", vec![size.height.to_string()]),
            ("width", vec![size.width.to_string()]),
            ("device", vec![device]),
            ("op", self.job.op.options()),
            ("rule", self.job.op.rule()),
        ]
    }

    /// Whether a program with an output in the state `end` waits until the output is on a disk.
    fn waits(&self, end: End) -> bool {
        end == End::Synced && self.case.place == Kind::Disk
    }

    /// Lets a program that waits for the disk run in only some of the rounds.
    fn paced(&self, side: Side<'a>, end: End) -> Side<'a> {
        if self.waits(end) { side.every(self.definition.slow_every) } else { side }
    }

    fn ours(&'a self, variant: &'a Variant) -> Side<'a> {
        let over = match self.case.output {
            Output::New => &[][..],
            Output::Existing => &self.definition.over_existing,
        };
        let side = Side::new(&variant.name, move || {
            let broken = |why| Error::new(ErrorKind::Unsupported, "run the command", why);
            let mut command = filled(&self.definition.command, &self.words()).map_err(broken)?;
            command.extend(variant.options.iter().chain(over).cloned());
            self.prepare()?;
            let limit = Duration::from_secs(self.definition.limit_s);
            let ran = process::run(&command, limit).map_err(broken)?;
            self.verify(self.expected)?;
            let mut values = vec![Value::seconds(PROCESS, ran.seconds)];
            let report: serde_json::Value = serde_json::from_str(&ran.out)
                .map_err(|error| broken(format!("printed no JSON: {error}")))?;
            // On a device with modelled times, `wall_ns` is null.
            let ns = |key: &str| report[key].as_f64();
            if let (Some(setup_ns), Some(wall_ns)) = (ns("cold_setup_ns"), ns("wall_ns")) {
                values.push(Value::seconds(RUN, (setup_ns + wall_ns) * 1e-9));
            }
            Ok(values)
        });
        self.paced(side, variant.end)
    }

    fn peer(&'a self, peer: &'a Peer) -> Side<'a> {
        let side = Side::new(&peer.name, move || {
            self.prepare()?;
            let outcome = peer.run(&self.words())?;
            self.verify(self.expected)?;
            let mut values = vec![Value::seconds(PROCESS, outcome.seconds)];
            values.extend(outcome.values);
            Ok(values)
        });
        side.every(self.definition.slow_every)
    }

    fn plain(&'a self, way: Way, threads: usize, end: End) -> Side<'a> {
        let mark = if end == End::Synced { ", synced" } else { "" };
        let name = format!("plain threads={threads} {}{mark}", way.name());
        let side = Side::new(name, move || {
            self.prepare()?;
            let (from, to) = (input(self.folder), self.out());
            let copied = plain::copy(way, threads, end, self.stack, &from, &to);
            let seconds = copied.map_err(failed)?;
            self.verify(self.unchanged)?;
            Ok(vec![Value::seconds(RUN, seconds)])
        });
        self.paced(side, end)
    }

    /// Runs threads that only move the bytes, once for each way and each number of threads. Returns
    /// the fastest of these programs. If the output is on a disk, the list then has each program a
    /// second time, with an output that is also synchronized.
    fn fastest(&'a self, results: &mut Results) -> Result<Vec<(Side<'a>, Program)>> {
        let counts = self.definition.threads.iter().filter(|count| **count <= self.stack.threads);
        let ways: Vec<_> = counts.flat_map(|count| Way::ALL.map(|way| (way, *count))).collect();
        let mut sides: Vec<_> =
            ways.iter().map(|(way, count)| self.plain(*way, *count, End::Written)).collect();
        warm_up(&mut sides, &self.setting.cancel)?;
        let seconds = |side: &Side<'_>| side.warm.first().map_or(f64::INFINITY, |warm| warm.value);
        let mut tried: Vec<_> = sides.into_iter().zip(ways).collect();
        tried.sort_by(|(a, _), (b, _)| seconds(a).total_cmp(&seconds(b)));
        let text = tried.iter().map(|(side, _)| format!("{} {:.3} s", side.name, seconds(side)));
        let text = text.collect::<Vec<_>>().join(", ");
        results.note(format!("{}: plain threads in the warm-up", self.name), text);
        let (mut kept, mut synced) = (Vec::new(), Vec::new());
        for (side, (way, count)) in tried.into_iter().take(self.definition.plain_kept) {
            kept.push((side, Program::Plain(End::Written)));
            if self.waits(End::Synced) {
                let side = self.plain(way, count, End::Synced);
                synced.push((side, Program::Plain(End::Synced)));
            }
        }
        kept.append(&mut synced);
        Ok(kept)
    }

    /// Runs the case and adds its rows.
    pub(super) fn run(
        &'a self,
        repeats: usize,
        steps: &mut Steps<'_>,
        results: &mut Results,
    ) -> Result<()> {
        steps.begin(&format!("{}: warm-up", self.name));
        let variants = &self.definition.variants;
        let ours = variants.iter().map(|variant| (self.ours(variant), Program::Ours(variant.end)));
        let peers = self.peers.iter().map(|peer| (self.peer(peer), Program::Peer));
        let (mut sides, mut programs): (Vec<_>, Vec<_>) = ours.chain(peers).unzip();
        warm_up(&mut sides, &self.setting.cancel)?;
        for (side, program) in self.fastest(results)? {
            sides.push(side);
            programs.push(program);
        }
        for number in 0..repeats {
            steps.begin(&format!("{}: round {} of {repeats}", self.name, number + 1));
            round(&mut sides, number, &self.setting.cancel)?;
        }
        self.report(&sides, &programs, results);
        fs::remove_file(self.out()).map_err(failed)
    }

    /// Adds one row for each figure. The bound is the smallest median time of the threads that only
    /// move the bytes. If the program of the row waits for the disk, the bound is from threads that
    /// wait for the disk as well. Otherwise it is from threads that do not wait.
    fn report(&self, sides: &[Side<'_>], programs: &[Program], results: &mut Results) {
        let peers: Vec<_> =
            sides.iter().zip(programs).filter(|(_, program)| **program == Program::Peer).collect();
        for (side, program) in sides.iter().zip(programs) {
            let waits = self.waits(program.end());
            let bound = sides.iter().zip(programs).filter_map(|(plain, program)| match program {
                Program::Plain(end) if self.waits(*end) == waits => Some(plain.median(RUN)),
                _ => None,
            });
            let bound = bound.reduce(f64::min);
            for figure in &side.figures {
                let name = format!("{}: {}, {}", self.name, side.name, figure.what);
                let mut note = self.rate(figure);
                if let Program::Ours(_) = program {
                    for (peer, _) in &peers {
                        let times = peer.median(&figure.what) / figure.samples.quantile(0.5);
                        note += &format!("; {times:.2} times as fast as {}", peer.name);
                    }
                }
                let samples = figure.samples.clone();
                results.push_with(name, &figure.unit, samples, bound, note);
            }
        }
    }

    fn rate(&self, figure: &Figure) -> String {
        let rate = self.stack.bytes() as f64 / figure.samples.quantile(0.5) / 1e9;
        format!("{rate:.3} GB/s in; spread {:.3}", figure.samples.spread())
    }
}
