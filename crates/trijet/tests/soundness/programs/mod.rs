//! Random programs against the laws: each computes the same as its steps one after another,
//! whatever streams, threads and orders of the device it uses, and goes on after any of its
//! closures has failed or panicked.
//!
//! This generator was written from the laws and the public interface alone, so it shares no mistake
//! with the library or with `tests/oracle`. A program is a list of steps on a few variables.
//! [`draw`] draws it, and [`world`] performs it and notes with each piece of memory the values that
//! it must have. Programs that order their memory by hand are in [`manual`], with a model of
//! happens-before.
//!
//! `TRIJET_PROGRAMS=7..1007` runs these seeds. `TRIJET_PROGRAMS_KEEP=0,3` runs only these of their
//! steps. The switches are in [`switch`]. A program that fails is shortened and printed. One that
//! hangs ends the process.

mod closures;
mod draw;
mod floats;
mod graphs;
mod luck;
mod manual;
mod memory;
mod step;
mod streams;
mod switch;
mod tasks;
mod world;

use luck::caught;
use std::io::Write as _;
use std::ops::Range;
use std::panic::{set_hook, take_hook};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Once};
use std::time::Duration;
use step::Step;
use trijet::testing::Prng;
use world::{Setup, World};

/// A program that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The seeds of the tests, unless the caller asks for others.
const SEEDS: Range<u64> = 0..1000;

/// The limit for the runs of a program to shorten it.
const SHORTENINGS: u32 = 400;

/// Hides panics that were drawn.
fn hide_drawn_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |info| {
            if !luck::is_drawn(info.payload()) {
                print(info);
            }
        }));
    });
}

/// A program with the numbers of its steps.
type Program = Vec<(usize, Step)>;

fn program(seed: u64) -> (Setup, Program) {
    let mut prng = Prng::new(seed);
    let setup = Setup::draw(&mut prng);
    let mut steps: Program = draw::draw(&mut prng).into_iter().enumerate().collect();
    if let Ok(kept) = std::env::var("TRIJET_PROGRAMS_KEEP") {
        let kept: Vec<usize> = kept.split(',').filter_map(|number| number.parse().ok()).collect();
        steps.retain(|(number, _)| kept.contains(number));
    }
    steps.retain_mut(|(_, step)| switch::keeps(step));
    (setup, steps)
}

fn run(setup: &Setup, program: &Program) -> Result<(), String> {
    let mut world = World::open(setup).map_err(|error| error.to_string())?;
    for (number, step) in program {
        let outcome = caught(|| world.step(step));
        let outcome = outcome.unwrap_or_else(|| Err("a panic came through".to_owned()));
        outcome.map_err(|why| format!("step {number}: {why}"))?;
    }
    caught(|| world.close()).unwrap_or_else(|| Err("the end: a panic came through".to_owned()))
}

/// Leaves out steps while the program still fails.
fn shorten(setup: &Setup, mut program: Program, mut why: String) -> (Program, String) {
    let (mut runs, mut size) = (0, program.len().div_ceil(2).max(1));
    loop {
        let mut at = 0;
        while at < program.len() && runs < SHORTENINGS {
            let mut shorter = program.clone();
            shorter.drain(at..(at + size).min(program.len()));
            runs += 1;
            match run(setup, &shorter) {
                Err(new) => (program, why) = (shorter, new),
                Ok(()) => at += size,
            }
        }
        if size == 1 || runs >= SHORTENINGS {
            return thin(setup, program, why);
        }
        size = size.div_ceil(2);
    }
}

/// Leaves out parts of steps while the program still fails.
fn thin(setup: &Setup, mut program: Program, mut why: String) -> (Program, String) {
    let mut at = 0;
    while at < program.len() {
        let mut is_thinner = false;
        for step in program[at].1.thinner() {
            let mut other = program.clone();
            other[at].1 = step;
            if let Err(new) = run(setup, &other) {
                (program, why, is_thinner) = (other, new, true);
                break;
            }
        }
        at += usize::from(!is_thinner);
    }
    (program, why)
}

/// The report of a seed whose program fails.
fn failure(seed: u64) -> Option<String> {
    let (setup, steps) = program(seed);
    let why = run(&setup, &steps).err()?;
    let (steps, why) = shorten(&setup, steps, why);
    Some(format!("seed {seed}: {why}\n{setup:?}\n{}", step::text(&steps)))
}

/// The seeds that the caller asks for. Then one run finds all failures, up to a limit.
fn seeds() -> Range<u64> {
    let Ok(asked) = std::env::var("TRIJET_PROGRAMS") else { return SEEDS };
    let number = |text: &str| text.parse::<u64>().expect("TRIJET_PROGRAMS is 7 or 0..100");
    match asked.split_once("..") {
        Some((start, end)) => number(start)..number(end),
        None => number(&asked)..number(&asked) + 1,
    }
}

/// Runs seeds on all processors, and ends the process if one of them hangs.
fn run_all(check: fn(u64) -> Option<String>, print: fn(u64) -> String) {
    hide_drawn_panics();
    let seeds = seeds();
    let next = Arc::new(AtomicU64::new(seeds.start));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let (send, news) = channel::<(usize, Option<u64>, Option<String>)>();
    for worker in 0..workers {
        let (next, send, end) = (Arc::clone(&next), send.clone(), seeds.end);
        let work = move |send: &Sender<_>| loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end || send.send((worker, Some(seed), None)).is_err() {
                return;
            }
            if send.send((worker, None, check(seed))).is_err() {
                return;
            }
        };
        std::thread::spawn(move || work(&send));
    }
    drop(send);
    let mut current = vec![None; workers];
    let mut failures = 0;
    loop {
        match news.recv_timeout(PATIENCE) {
            Ok((worker, seed, report)) => {
                current[worker] = seed;
                failures += report.iter().inspect(|report| println!("{report}")).count();
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                // The harness does not capture this; it captures the output of a test by macros.
                let mut out = std::io::stderr();
                for seed in current.iter().flatten() {
                    drop(writeln!(out, "seed {seed} may hang:\n{}", print(*seed)));
                }
                std::process::abort();
            }
        }
    }
    println!("explored programs={} failures={failures}", seeds.end - seeds.start);
    assert_eq!(failures, 0, "programs have other results; they are printed above");
}

/// The program of a seed, as text.
fn text(seed: u64) -> String {
    let (setup, steps) = program(seed);
    format!("{setup:?}\n{}", step::text(&steps))
}

#[test]
fn programs_compute_what_their_steps_compute_one_after_another() {
    run_all(failure, text);
}

#[test]
fn programs_ordered_by_hand_have_one_outcome_or_a_finding() {
    run_all(manual::failure, manual::text);
}
