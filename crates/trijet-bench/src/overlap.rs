//! Upload, kernel and download of one array, with every schedule, chunk size and number of slots.
//! Each run is compared with its bound. The device measures all times, from the start of the first
//! operation to the end of the last operation.
#![forbid(unsafe_code)]

use crate::peer::{Peer, Scripts};
use crate::results::Results;
use crate::rounds::{Side, round};
use crate::setting::Setting;
use serde::Deserialize;
use std::cell::RefCell;
use trijet::pipeline::{Calibration, Chunk, Copies, Plan, Schedule};
use trijet::testing::WORK;
use trijet::{Bytes, Device, Error, ErrorKind, Nanos, PinnedBuffer, Pipeline, Report, Result};
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;
use trijet_tools::work::hash;

const ROW: usize = 1024;
/// Maximum number of rounds for which the host recomputes every element.
const CHEAP_ROUNDS: u32 = 8;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    bytes: u64,
    repeats: usize,
    probe_rounds: u32,
    chunks_mib: Vec<u64>,
    slots: Vec<usize>,
    heavy: f64,
    heavy_chunks_mib: Vec<u64>,
    heavy_slots: Vec<usize>,
    /// The number of times that a peer is started. These starts are spread over the repeats.
    #[serde(default)]
    peer_starts: usize,
    #[serde(default)]
    peers: Vec<Peer>,
}

/// One configuration. Each is a row of the results.
#[derive(Debug, Clone, Copy)]
struct Case {
    schedule: Schedule,
    chunk: Option<u64>,
    slots: Option<usize>,
    rounds: u32,
}

impl Case {
    fn name(&self) -> String {
        let mut name = self.schedule.name().replace(' ', "-");
        if let Some(chunk) = self.chunk {
            name += &format!(" chunk={}MiB", chunk >> 20);
        }
        if let Some(slots) = self.slots {
            name += &format!(" slots={slots}");
        }
        name + &format!(" rounds={}", self.rounds)
    }
}

struct Bench<'a> {
    device: &'a Device,
    x: PinnedBuffer<u32>,
    y: PinnedBuffer<u32>,
}

impl Bench<'_> {
    fn run(&mut self, case: Case) -> Result<Report> {
        let rounds = case.rounds;
        let mut pipeline = Pipeline::on(self.device)
            .pinned_source(&self.x, ROW)
            .stage::<u32, u32>(move |s, x, y| s.launch(&WORK, (rounds, x, y)))
            .pinned_sink(&mut self.y)
            .schedule(case.schedule);
        if let Some(chunk) = case.chunk {
            pipeline = pipeline.chunk(Bytes(chunk));
        }
        if let Some(slots) = case.slots {
            pipeline = pipeline.depth(slots);
        }
        // Only the runs on one stream need a trace. The trace shows how long the kernel takes while
        // no copy overlaps it.
        if case.schedule != Schedule::OneStream {
            pipeline = pipeline.untraced();
        }
        pipeline.run()
    }

    /// Overwrites the target, runs once and compares the result.
    fn verify(&mut self, case: Case) -> Result<Report> {
        self.y.write()?.fill(0xdead_beef);
        let report = self.run(case)?;
        let (x, y) = (self.x.read()?, self.y.read()?);
        // If there are many rounds, the host would take minutes to recompute every element. So it
        // compares only every 1021st element.
        let step = if case.rounds > CHEAP_ROUNDS { 1021 } else { 1 };
        let pairs = x.iter().zip(y.iter()).step_by(step);
        let wrong = pairs.into_iter().position(|(x, y)| hash(case.rounds, *x) != *y);
        match wrong {
            None => Ok(report),
            Some(at) => Err(Error::new(
                ErrorKind::InvalidValue,
                "bench overlap",
                format!("{}: element {} has a wrong value", case.name(), at * step),
            )),
        }
    }
}

fn cases(definition: &Definition, heavy_rounds: u32) -> Vec<Case> {
    let mut cases = Vec::new();
    for rounds in [0, heavy_rounds] {
        let (chunks, slots) = if rounds == 0 {
            (&definition.chunks_mib, &definition.slots)
        } else {
            (&definition.heavy_chunks_mib, &definition.heavy_slots)
        };
        cases.push(Case { schedule: Schedule::Tuned, chunk: None, slots: None, rounds });
        for chunk in chunks {
            let chunk = Some(chunk << 20);
            let one = Schedule::OneStream;
            cases.push(Case { schedule: one, chunk, slots: Some(1), rounds });
            for slots in slots {
                for schedule in [Schedule::SlotStreams, Schedule::RoleStreams] {
                    cases.push(Case { schedule, chunk, slots: Some(*slots), rounds });
                }
            }
        }
    }
    cases
}

/// The peers that can run here, and the reasons why the other peers cannot.
struct Peers<'a> {
    sides: Vec<Side<'a>>,
    missing: Vec<(&'a str, String)>,
}

impl<'a> Peers<'a> {
    /// Runs the probes of the peers, but not the peers themselves. When the peers run later, their
    /// notes go to `notes`.
    fn new(
        definition: &'a Definition,
        scripts: &'a Scripts,
        notes: &'a RefCell<Vec<String>>,
    ) -> Self {
        let (mut sides, mut missing) = (Vec::new(), Vec::new());
        let repeats = definition.repeats.div_ceil(definition.peer_starts.max(1)).to_string();
        for peer in &definition.peers {
            if let Some(why) = peer.missing() {
                missing.push((peer.name.as_str(), why));
                continue;
            }
            let number = sides.len();
            notes.borrow_mut().push(String::new());
            let words = [scripts.words(), ("repeats", vec![repeats.clone()])];
            sides.push(Side::new(&peer.name, move || {
                let outcome = peer.run(&words)?;
                notes.borrow_mut()[number] = outcome.note;
                Ok(outcome.values)
            }));
        }
        Self { sides, missing }
    }

    fn add_to(self, results: &mut Results, notes: &[String], bound: f64) {
        for (side, note) in self.sides.into_iter().zip(notes) {
            for figure in side.figures {
                results.push_with(figure.what, &figure.unit, figure.samples, Some(bound), note);
            }
        }
        for (name, why) in self.missing {
            results.note(name, why);
        }
    }
}

/// The strictest lower bound of the time of a run. It is the sum of the time of all bytes on the
/// link, the cost of each copy, and the time in which the pipeline fills and drains.
fn last_limit(calibration: &Calibration, plan: &Plan, bytes: Bytes) -> Nanos {
    let copies = Copies { count: plan.chunks.len() as u64, bytes };
    let of = |chunk: Option<&Chunk>| {
        let rows = chunk.map_or(0, |chunk| chunk.rows.end - chunk.rows.start);
        Bytes(rows * (ROW * size_of::<u32>()) as u64)
    };
    let ends = (of(plan.chunks.first()), of(plan.chunks.last()));
    calibration.bound_with_fill_and_drain(copies, copies, ends)
}

/// Adds the rows about the link: the times of an upload, of a download and of both, and the cost of
/// one copy.
fn link(calibration: &Calibration, results: &mut Results) {
    for (what, time) in [
        ("upload alone (best)", calibration.upload),
        ("download alone (best)", calibration.download),
        ("both directions (best)", calibration.duplex),
    ] {
        results.push(what, "ms", Samples::one(time.seconds() * 1e3), None);
    }
    for (what, cost) in [
        ("each upload alone, beyond its bytes", calibration.upload_copy),
        ("each download alone, beyond its bytes", calibration.download_copy),
        ("each copy of both directions, beyond its bytes", calibration.duplex_copy),
    ] {
        results.push(what, "us", Samples::one(cost.seconds() * 1e6), None);
    }
}

/// A text with the strictest bound and its ratio to the median time. The text is empty for runs in
/// one stream: there, every chunk fills and drains the pipeline, so the bound does not apply.
fn limited(case: Case, limit: f64, samples: &Samples) -> String {
    if case.schedule == Schedule::OneStream {
        return String::new();
    }
    let part = limit / samples.quantile(0.5);
    format!("with copies, fill and drain {limit:.3} ms: {part:.4} of the median")
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; `OutOfMemory`; every error of the device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let device = setting.device;
    let (scripts, notes) = (Scripts::new()?, RefCell::default());
    let mut peers = Peers::new(definition, &scripts, &notes);
    let starts = if peers.sides.is_empty() { 0 } else { definition.peer_starts };
    steps.expect(3 + (definition.repeats + starts) as u64);
    steps.begin("measuring the link");
    let elements = Bytes(definition.bytes / 4).to_usize();
    let mut bench = Bench { device, x: device.pinned(elements)?, y: device.pinned(elements)? };
    for (x, value) in bench.x.write()?.iter_mut().zip(1u32..) {
        *x = hash(1, value);
    }
    let bytes = Bytes(definition.bytes);
    let calibration = Calibration::measure(device, bytes)?;
    let bound = calibration.bound(bytes, bytes).seconds() * 1e3;
    steps.begin("measuring the kernel");
    let rounds = definition.probe_rounds;
    let probe =
        Case { schedule: Schedule::OneStream, chunk: Some(64 << 20), slots: Some(1), rounds };
    let alone = |report: &Report| report.engine("compute").map_or(0.0, |e| e.work().seconds());
    let per_round = alone(&bench.run(probe)?) / f64::from(rounds) * 1e3;
    let heavy_rounds = (0..1 << 20).find(|r| f64::from(*r) * per_round >= definition.heavy * bound);
    let cases = cases(definition, heavy_rounds.unwrap_or(0));
    let mut samples = vec![Samples::default(); cases.len()];
    let mut kernels = vec![None; cases.len()];
    let mut limits = vec![0.0; cases.len()];
    steps.begin(&format!("verifying {} cases", cases.len()));
    for ((case, kernel), limit) in cases.iter().zip(&mut kernels).zip(&mut limits) {
        let report = bench.verify(*case)?;
        *limit = last_limit(&calibration, &report.plan, bytes).seconds() * 1e3;
        *kernel = report.engine("compute").map(|e| e.work().seconds() * 1e3);
    }
    for repeat in 1..=definition.repeats {
        steps.begin(&format!("timing {} cases, {repeat} of {}", cases.len(), definition.repeats));
        for (case, samples) in cases.iter().zip(&mut samples) {
            samples.push(bench.run(*case)?.elapsed.seconds() * 1e3);
        }
        // The starts of a peer are spread over the repeats. The last start comes after the last
        // repeat.
        if starts > 0 && repeat * starts % definition.repeats < starts {
            let start = repeat * starts / definition.repeats;
            steps.begin(&format!("peers, {start} of {starts}"));
            round(&mut peers.sides, start, &setting.cancel)?;
        }
    }
    let mut results = Results::of_device(device);
    results
        .note("verified", "every case once: all elements without rounds, every 1021st with many");
    link(&calibration, &mut results);
    for (((case, samples), kernel), limit) in cases.iter().zip(samples).zip(kernels).zip(limits) {
        let note = limited(*case, limit, &samples);
        results.push_with(case.name(), "ms", samples, Some(bound), note);
        if let Some(kernel) = kernel {
            results.push(
                format!("kernel alone, {}", case.name()),
                "ms",
                Samples::one(kernel),
                None,
            );
        }
    }
    peers.add_to(&mut results, &notes.borrow(), bound);
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{ByDevice, parse};
    use crate::setting::{assert_no_finding, checked_device};
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    #[test]
    fn every_case_has_no_finding() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let missing = toml::from_str(
            "name = 'no peer'\nprobe = ['no-such-program']\ncommand = []\nlimit_s = 1",
        );
        let missing = missing.expect("a peer");
        let fake = toml::from_str(
            "name = 'a peer'\nprobe = ['true']\nlimit_s = 60
             command = ['sh', '-c', 'printf \"note\\\\tversion 1\\\\npeer slots=1\\\\tms\\\\t{repeats}\\\\n\"']",
        );
        let fake = fake.expect("another peer");
        let small = Definition {
            bytes: 3 << 20,
            repeats: 1,
            probe_rounds: 256,
            chunks_mib: vec![1],
            slots: vec![2],
            heavy: 0.0,
            heavy_chunks_mib: vec![1],
            heavy_slots: vec![2],
            peer_starts: 1,
            peers: vec![missing, fake],
        };
        let mut begun = Vec::new();
        let mut show = |step: Step<'_>| begun.push((step.number, step.of));
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &small, &mut Steps::new(&mut show))?.to_string();
        assert!(printed.contains(",no peer,,,,,,,,not run: `no-such-program`"), "{printed}");
        let row =
            printed.lines().find(|row| row.contains(",peer slots=1,ms,1.000")).expect("a row");
        assert!(row.contains(",1.000,1.000,1,") && row.ends_with(",version 1"), "{row}");
        assert_eq!(begun, [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)], "every step is announced");
        assert_no_finding(&device, 100);
        Ok(())
    }

    #[test]
    fn the_definition_has_every_schedule_and_size() {
        let text = include_str!("../definitions/overlap.toml");
        let ByDevice { gpu, host } = parse::<ByDevice<Definition>>(text).expect("it parses");
        let cases = cases(&gpu, 9);
        assert_eq!(cases.len(), 1 + 4 * 9 + 1 + 3);
        assert!(cases.iter().any(|c| c.name() == "role-streams chunk=16MiB slots=3 rounds=9"));
        // A processor moves the bytes of all runs within seconds.
        let runs = super::cases(&host, 9).len() * (1 + host.repeats);
        assert!(runs as u64 * host.bytes <= 1 << 30, "{runs} runs of {} bytes", host.bytes);
    }
}
