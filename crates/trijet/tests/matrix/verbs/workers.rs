//! Tasks that a device schedules itself.

use super::super::held::Held;
use super::super::rows as row;
use super::verb::{Verb, call};
use trijet::workers::queens::{self, QUEENS};
use trijet::workers::{Chooser, Feed, Run, RunOptions, TaskGraph, Work, WorkerTask};
use trijet::{Buffer, Result, Stream};
use trijet_programs::echo::{ECHO, EchoParams, Echoes};

fn options() -> RunOptions {
    RunOptions::new().workers(2)
}

/// Counts the solutions of the problem of four queens.
fn run(s: &Stream, total: &mut Buffer<u64>) -> Result<Run> {
    s.run_workers(&QUEENS, Work::Tasks(&[queens::root(4)]), &options(), (total, 2_u32))
}

/// A run on another stream.
fn started(held: &Held) -> Result<(Run, Buffer<u64>)> {
    let mut total = held.other.alloc_zeroed::<u64>(1)?;
    Ok((run(&held.other, &mut total)?, total))
}

type Fed = Feed<'static, Echoes, EchoParams>;

/// A feed. The stream and the memory that it borrows are leaked.
fn feed(held: &Held) -> Result<Fed> {
    let s: &'static Stream = Box::leak(Box::new(held.device.stream()?));
    let sum: &'static mut Buffer<u64> = Box::leak(Box::new(s.alloc_zeroed(1)?));
    s.feed_workers(&ECHO, &options(), (sum,))
}

/// The verbs.
pub(super) const VERBS: &[Verb] = &[
    Verb::new("Stream::run_workers", row::WAITS, |h| {
        let mut total = h.other.alloc_zeroed::<u64>(1)?;
        call(move |_, s| {
            let outcome = run(s, &mut total)?.wait()?;
            assert_eq!((outcome.ran, s.download(&total)?[0]), (outcome.spawned + 1, 2));
            Ok(())
        })
    }),
    Verb::new("Run::wait", row::DEVICE, |h| {
        let (run, total) = started(h)?;
        call(move |_, _| {
            run.wait()?;
            drop(total);
            Ok(())
        })
    }),
    Verb::new("Run::cancel", row::LOCAL, |h| {
        let (run, total) = started(h)?;
        call(move |_, _| {
            run.cancel();
            drop((run, total));
            Ok(())
        })
    }),
    Verb::new("Run::drop", row::LOCAL, |h| {
        let run = started(h)?;
        call(move |_, _| {
            drop(run);
            Ok(())
        })
    }),
    Verb::new("Chooser::run", row::WAITS, |h| {
        let mut total = h.other.alloc_zeroed::<u64>(1)?;
        call(move |_, s| {
            let (chooser, root) = (Chooser::new(), [queens::root(4)]);
            let args = (&mut total, 2_u32);
            let chosen = chooser.run(s, &QUEENS, Work::Tasks(&root), &options(), args)?;
            chosen.wait().map(drop)
        })
    }),
    Verb::new("Chosen::wait", row::DEVICE, |h| {
        let chooser: &'static Chooser = Box::leak(Box::new(Chooser::new()));
        let (root, mut total) = ([queens::root(4)], h.other.alloc_zeroed::<u64>(1)?);
        let work = Work::Tasks(&root);
        let args = (&mut total, 2_u32);
        let chosen = chooser.run(&h.other, &QUEENS, work, &options(), args)?;
        call(move |_, _| {
            chosen.wait()?;
            drop(total);
            Ok(())
        })
    }),
    Verb::new("Chosen::cancel", row::LOCAL, |h| {
        let chooser: &'static Chooser = Box::leak(Box::new(Chooser::new()));
        let (root, mut total) = ([queens::root(4)], h.other.alloc_zeroed::<u64>(1)?);
        let work = Work::Tasks(&root);
        let args = (&mut total, 2_u32);
        let chosen = chooser.run(&h.other, &QUEENS, work, &options(), args)?;
        call(move |_, _| {
            chosen.cancel();
            drop((chosen, total));
            Ok(())
        })
    }),
    Verb::new("Stream::feed_workers", row::WAITS, |h| {
        let mut sum = h.other.alloc_zeroed::<u64>(1)?;
        call(move |_, s| {
            let mut feed = s.feed_workers(&ECHO, &options(), (&mut sum,))?;
            feed.push(&[WorkerTask::new(0, 1)])?;
            let (_, answers) = feed.finish()?;
            assert_eq!(answers.len(), 1);
            Ok(())
        })
    }),
    Verb::new("Feed::push", row::OWN_STREAMS, |h| {
        let mut feed = feed(h)?;
        call(move |_, _| feed.push(&[WorkerTask::new(0, 1)]))
    })
    .on_host(),
    Verb::new("Feed::answers", row::LOCAL, |h| {
        let mut feed = feed(h)?;
        feed.push(&[WorkerTask::new(0, 1)])?;
        call(move |_, _| {
            drop(feed.answers());
            Ok(())
        })
    }),
    Verb::new("Feed::finish", row::OBJECT, |h| {
        let mut feed = feed(h)?;
        feed.push(&[WorkerTask::new(0, 1)])?;
        call(move |_, _| feed.finish().map(drop))
    }),
    Verb::new("Feed::cancel", row::LOCAL, |h| {
        let feed = feed(h)?;
        call(move |_, _| {
            feed.cancel();
            drop(feed);
            Ok(())
        })
    }),
    Verb::new("Feed::drop", row::LOCAL, |h| {
        let feed = feed(h)?;
        call(move |_, _| {
            drop(feed);
            Ok(())
        })
    }),
    Verb::new("Stream::load_graph", row::WAITS, |_| {
        call(|_, s| {
            let mut graph = TaskGraph::new();
            let [a, b] = [graph.node(0), graph.node(0)];
            graph.edge(a, b);
            s.load_graph(&graph).map(drop)
        })
    }),
];
