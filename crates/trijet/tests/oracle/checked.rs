//! The checker is compared with the judge on the same ledgers. Both state the laws, and they share
//! no code.
//!
//! The judge compares all pairs of uses and finds the first unordered pair of each block. The
//! checker keeps only the last uses. Both must agree on whether a block races and on the first call
//! of a race. The judge must also find the pair of the checker unordered.

use crate::clean::options;
use crate::closure::{Use, uses};
use crate::draw::draw;
use crate::explore::{Tally, close, exhausted, explore, seeded};
use crate::ledger::history;
use crate::program::Program;
use crate::run::run;
use crate::seeds::asked_or;
use crate::verdict::{Orders, Wrong, judge};
use std::collections::{BTreeMap, BTreeSet};
use trijet::Buffer;
use trijet::Uses;
use trijet::check::{Checker, Finding, FindingClass, Severity, check_with};
use trijet::testing::{self, Prng};
use trijet::trace::{HostStep, LedgerNote, Op, OpKind, StreamMark, WaitOutcome, Waited};

/// The number of findings that get a witness by default.
const WITNESSES: usize = 8;

/// The ledger of a run that leaves out the wait with this number.
fn record(program: &Program, seed: u64, without: Option<u64>) -> Result<Vec<Op>, String> {
    // Refused calls are not needed here.
    let program = &Program { refusals: Vec::new(), ..program.clone() };
    let devices = seeded(program, seed);
    let zero = devices[0].stream().map_err(|error| error.to_string())?;
    if let Some(number) = without {
        testing::drop_wait(&devices[0], number);
    }
    devices[0].start_trace(&zero).map_err(|error| error.to_string())?;
    run(&devices, program)?;
    let ops = devices[0].take_trace().map_err(|error| error.to_string())?.ops;
    drop(zero);
    close(devices)?;
    Ok(ops)
}

/// For each block, the first call without an order with an earlier call, and all such earlier
/// calls.
type Races = BTreeMap<u64, (usize, BTreeSet<usize>)>;

/// Writes the number of each entry into its label. The calls of a history have other numbers,
/// because a history leaves out some entries and adds starts and joins.
fn numbered(ops: &[Op]) -> Vec<Op> {
    let mut ops = ops.to_vec();
    for (number, op) in ops.iter_mut().enumerate() {
        op.label = format!("={number}=").into();
    }
    ops
}

fn races_of_the_judge(ops: &[Op]) -> Races {
    let history = history(&numbered(ops));
    let number = |call: usize| -> usize {
        let label = &history.calls[call].label;
        let number = label.split('=').nth(1).expect("all entries are numbered");
        number.parse().expect("a number")
    };
    let orders = Orders::new(&history);
    let mut blocks: BTreeMap<u64, Vec<(usize, Use)>> = BTreeMap::new();
    for call in 0..history.calls.len() {
        for used in uses(&history, call) {
            blocks.entry(used.access.block).or_default().push((call, used));
        }
    }
    let mut races = Races::new();
    for (block, uses) in blocks {
        for (n, (later, b)) in uses.iter().enumerate() {
            let open = uses[..n].iter().filter(|(earlier, a)| {
                earlier != later
                    && a.access.conflicts(&b.access)
                    && !orders.orders(&history, a, (*later, b))
            });
            let open: BTreeSet<usize> = open.map(|(earlier, _)| number(*earlier)).collect();
            let first = races.get(&block).map(|(later, _)| *later);
            if !open.is_empty() && first.is_none_or(|first| first == number(*later)) {
                races
                    .entry(block)
                    .or_insert_with(|| (number(*later), BTreeSet::new()))
                    .1
                    .extend(open);
            }
        }
    }
    races
}

/// Whether the judge can know the pair. For the judge, each allocation has its own bytes.
fn is_pair(finding: &Finding) -> bool {
    finding.conflict.is_some() && finding.class != FindingClass::ReuseRacesUse
}

/// Demands that both give the same verdict on a ledger. Returns whether the ledger has a race.
fn agree(ops: &[Op]) -> Result<bool, String> {
    let options = options();
    let verdict = check_with(ops, options.findings_max(100_000));
    let races = races_of_the_judge(ops);
    let mut found: Races = Races::new();
    for finding in verdict.findings.iter().filter(|finding| is_pair(finding)) {
        let block = finding.block.expect("a pair is about a block").0;
        let index = |op: u64| usize::try_from(op).expect("an index");
        let second = index(finding.second.op);
        let first = index(finding.first.as_ref().expect("a pair").op);
        let entry = found.entry(block).or_insert_with(|| (second, BTreeSet::new()));
        if entry.0 == second {
            entry.1.insert(first);
        }
    }
    let same = races.len() == found.len()
        && races.iter().zip(&found).all(|((block, (later, all)), (other, (second, firsts)))| {
            block == other && later == second && firsts.is_subset(all)
        });
    let judged = matches!(judge(&history(ops)), Err(Wrong::Race(..)));
    if !same || judged == races.is_empty() {
        return Err(format!("judge: {judged} {races:?}\nchecker: {found:?}\n{verdict}"));
    }
    let pairs = || verdict.findings.iter().filter(|finding| is_pair(finding));
    for finding in pairs().filter(|finding| finding.witness.is_some()) {
        let witness = finding.witness.expect("it has one");
        if witness.kept == witness.swapped {
            return Err(format!("both orders compute the same: {finding:?}\n{verdict}"));
        }
    }
    if pairs().take(WITNESSES).any(|finding| finding.witness.is_none()) {
        return Err(format!("a race without a witness\n{verdict}"));
    }
    let others = verdict.findings.iter().filter(|finding| !is_pair(finding));
    // A ledger may lack an order that only a later owner of the same memory needs.
    let others = others.filter(|finding| finding.class != FindingClass::ReuseRacesUse);
    let mut wrong = others.filter(|finding| finding.class.severity() == Severity::Error);
    if let Some(wrong) = wrong.next_back() {
        return Err(format!("{:?} in a ledger of the library\n{verdict}", wrong.class));
    }
    Ok(!races.is_empty())
}

/// Demands that the checker and the judge find a race exactly if two orders of the program differ
/// in the results of the program, or of the two operations of the race.
pub(crate) fn race_if_different(program: &Program, seed: u64) -> Result<Tally, String> {
    let (outcomes, runs, complete) = exhausted(program, 1000)?;
    let ops = record(program, seed, None)?;
    let races = agree(&ops)?;
    if outcomes.len() > 1 && !races {
        return Err(format!("{} outcomes and no race: {outcomes:?}", outcomes.len()));
    }
    let orders_differ = || {
        let verdict = check_with(&ops, options());
        let mut witnesses = verdict.findings.iter().filter_map(|finding| finding.witness);
        witnesses.any(|witness| witness.kept != witness.swapped)
    };
    if races && complete && outcomes.len() == 1 && !orders_differ() {
        return Err("a race, and all orders compute the same".to_owned());
    }
    Ok(plain(u64::from(races), runs))
}

fn plain(programs: u64, runs: u64) -> Tally {
    Tally { programs, runs, ..Tally::default() }
}

#[test]
fn the_checker_agrees_with_the_judge_when_a_wait_is_left_out() {
    let (seeds, workers) = asked_or(0..120);
    let judged = explore(seeds.clone(), workers, &|program, seed| {
        let program = &Program { refusals: Vec::new(), ..program.clone() };
        let devices = seeded(program, seed);
        run(&devices, program)?;
        let waits = devices[0].ordering().waits;
        close(devices)?;
        let mut races = 0;
        for number in (1..=waits).take(6) {
            races += u64::from(agree(&record(program, seed, Some(number))?)?);
        }
        Ok(plain(waits.min(6), races))
    });
    println!("{} runs with a wait left out, {} race", judged.programs, judged.runs);
    assert!(judged.runs > 0 || seeds.end - seeds.start < 100, "nothing raced");
}

/// Law A31: launches on two streams, whose memory is ordered by hand, race exactly if they launch
/// two graphs and not one.
#[test]
fn the_checker_and_the_judge_order_the_launches_of_a_graph() -> trijet::Result<()> {
    for graphs in [1, 2] {
        let device = seeded(&Program { devices: 1, ..Program::default() }, 7).remove(0);
        let (a, b) = (device.stream()?, device.stream()?);
        let mut x = a.alloc_zeroed::<u32>(64)?;
        device.synchronize()?;
        // SAFETY: the launches write numbers, and nothing depends on these.
        unsafe { x.order_manually() };
        let record = |x: &mut Buffer<u32>| {
            device.record(|g| {
                g.argument(&*x)?;
                g.stream()?.fill(x, 5)
            })
        };
        let mut all = vec![record(&mut x)?];
        if graphs == 2 {
            all.push(record(&mut x)?);
        }
        device.start_trace(&a)?;
        for turn in 0..4 {
            let arguments = Uses::new().write(x.view_mut());
            [&a, &b][turn % 2].launch_graph(&mut all[turn % graphs], arguments)?;
        }
        device.synchronize()?;
        let ops = device.take_trace()?.ops;
        assert_eq!(agree(&ops), Ok(graphs == 2), "{graphs} graphs");
        drop((x, all));
        device.close()?;
    }
    Ok(())
}

/// Whether leaving the entry out can change the order.
fn orders(op: &Op) -> bool {
    matches!(
        op.kind,
        OpKind::Mark(StreamMark::Wait { .. } | StreamMark::Record { .. })
            | OpKind::Host(HostStep::Sync { outcome: WaitOutcome::Complete, .. })
    )
}

#[test]
fn the_checker_agrees_with_the_judge_when_an_order_is_taken_out_of_the_ledger() {
    let (seeds, workers) = asked_or(0..400);
    let judged = explore(seeds.clone(), workers, &|program, seed| {
        let whole = record(program, seed, None)?;
        let mut prng = Prng::new(seed);
        let mut races = 0;
        for _ in 0..4 {
            let mut ops = whole.clone();
            for _ in 0..=prng.below(3) {
                let all: Vec<usize> = (0..ops.len()).filter(|n| orders(&ops[*n])).collect();
                let Some(drawn) = all.len().checked_sub(1) else { break };
                let drawn = prng.below(drawn as u64 + 1);
                ops.remove(all[usize::try_from(drawn).expect("an index")]);
            }
            races += u64::from(agree(&ops)?);
        }
        Ok(plain(4, races))
    });
    println!("{} damaged ledgers, {} race", judged.programs, judged.runs);
    assert!(judged.runs > 0 || seeds.end - seeds.start < 100, "nothing raced");
}

/// The ledger of a later run. It has other blocks, events and threads, except the first thread.
fn shifted(ops: &[Op], round: u64) -> impl Iterator<Item = Op> {
    let blocks = ops.iter().flat_map(|op| &op.accesses).map(|access| access.block.0).max();
    let (blocks, main) = (blocks.unwrap_or(0) + 1, ops.first().map(|op| op.thread));
    ops.iter().cloned().map(move |mut op| {
        for access in &mut op.accesses {
            access.block.0 += round * blocks;
        }
        if Some(op.thread) != main {
            op.thread += round * 1000;
        }
        match &mut op.kind {
            OpKind::Mark(StreamMark::Record { event, .. } | StreamMark::Wait { event, .. })
            | OpKind::Host(HostStep::Sync {
                what: Waited::Event(event) | Waited::Recorded(event),
                ..
            })
            | OpKind::Note(LedgerNote::Gone { event } | LedgerNote::Settled { event }) => {
                *event += round << 40
            }
            OpKind::Work(_)
            | OpKind::Memory(_)
            | OpKind::Host(HostStep::Sync { what: Waited::Stream | Waited::Device, .. })
            | OpKind::Host(HostStep::Access | HostStep::Lent | HostStep::Begin | HostStep::Open)
            | OpKind::Host(HostStep::Load | HostStep::Release | HostStep::Refused)
            | OpKind::Host(HostStep::Failed | HostStep::Fault { .. })
            | OpKind::Signal(_) => {}
            OpKind::Note(LedgerNote::Ran | LedgerNote::Name { .. } | LedgerNote::ThreadGone) => {}
            new => panic!("{new:?}: say whether it names an event"),
        }
        op
    })
}

/// A checker forgets old state while it reads. This does not change its findings. It finds nothing
/// in many rounds, and then finds in a damaged ledger the same as in that ledger alone.
#[test]
fn a_program_repeated_many_times_is_judged_like_one() {
    let seen = |checker: Checker, skipped: u64| {
        let pairs = checker.finish().findings.into_iter().filter(is_pair);
        let numbers = |f: Finding| {
            let first = f.first.expect("a pair").op.checked_sub(skipped);
            (f.class.code(), first, f.second.op - skipped, f.ranges)
        };
        pairs.map(numbers).collect::<Vec<_>>()
    };
    let mut raced = false;
    for seed in asked_or(0..30).0 {
        let options = options();
        let ops =
            record(&draw(seed), seed, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let all: Vec<usize> = (0..ops.len()).filter(|n| orders(&ops[*n])).collect();
        let drawn = Prng::new(seed).below(all.len() as u64);
        let mut damaged = ops.clone();
        damaged.remove(all[usize::try_from(drawn).expect("an index")]);
        let mut alone = Checker::new(options.clone());
        damaged.iter().for_each(|op| alone.push(op));
        let mut checker = Checker::new(options);
        let rounds = 20_000 / ops.len() as u64;
        for round in 0..rounds {
            shifted(&ops, round).for_each(|op| checker.push(&op));
        }
        shifted(&damaged, rounds).for_each(|op| checker.push(&op));
        let alone = seen(alone, 0);
        assert_eq!(seen(checker, rounds * ops.len() as u64), alone, "seed {seed}");
        raced |= !alone.is_empty();
    }
    assert!(raced || asked_or(0..30).0.count() < 30, "no damaged ledger raced");
}
