//! Feeds: the host adds tasks while the workers run.
#![forbid(unsafe_code)]

use super::options::{Policy, RunOptions};
use super::program::Program;
use super::run::{Run, Work, start};
use super::run_report::RunReport;
use super::setup::host;
use super::task::WorkerTask;
use super::twin::{self, Kinds};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::driver::{Clock, Readiness};
use crate::launch::{Args, ArgsFor};
use crate::log::calling;
use crate::stream::Stream;

/// The ring of tasks and the ring of answers have `1 << BITS` slots each.
const BITS: u32 = 12;

/// Workers that get tasks from the host until the host has no more; see [`Stream::feed_workers`].
#[derive(Debug)]
pub struct Feed<'a, K, P> {
    stream: &'a Stream,
    program: &'a Program<K, P>,
    options: RunOptions,
    args: Args<'a>,
    /// The run that gets the tasks. `None` on a host device, where each call of [`Feed::push`]
    /// makes a run of its own.
    resident: Option<Run>,
    /// The number of tasks that the host has fed, modulo 2^32.
    fed: u32,
    /// The number of answers that the host has taken, modulo 2^32.
    taken: u32,
    /// The number of tasks that the workers had taken when the host last read this number, modulo
    /// 2^32.
    seen: u32,
    answers: Vec<u64>,
    /// The totals of the runs that have ended.
    report: RunReport,
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

fn refused(cause: &str) -> Error {
    Error::new(ErrorKind::InvalidValue, "feed_workers", cause.to_owned())
}

impl Stream {
    /// Starts workers to which the host adds tasks later. Bodies return values by
    /// `answer(w, value)`. The host gets the values in the order in which they arrive. On a GPU,
    /// the warp of one worker copies up to 32 tasks at once from page-locked memory. This warp runs
    /// no tasks until the feed is closed. A task costs little if each call of [`Feed::push`] has
    /// many tasks. On a host device, a push runs its tasks before it returns.
    ///
    /// The feed borrows the arguments until it is dropped, because the kernel uses their memory
    /// until then.
    ///
    /// ```
    /// use trijet::workers::{Body, Kinds, Program, ProgramSpec, RunOptions, WorkerTask};
    /// use trijet::{Device, Select};
    ///
    /// const BODY: &str = "
    /// DEV void times(Worker& w, const Args& args, u64 payload) {
    ///   if (lane_id() == 0) answer(w, args.factor * payload);
    /// }";
    /// struct Times;
    /// impl Kinds for Times {
    ///     const KINDS: &'static [(&'static str, Body)] =
    ///         &[("times", |w, payload| w.answer(w.scalar::<u64>(0) * payload))];
    /// }
    /// static TIMES: Program<Times, (u64,)> = {
    ///     // SAFETY: the body uses no memory.
    ///     unsafe { Program::declare(ProgramSpec::new("times", BODY, "u64 factor")) }
    /// };
    ///
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// let mut feed = s.feed_workers(&TIMES, &RunOptions::default(), (3_u64,))?;
    /// for batch in 0..3 {
    ///     let task = |at: u64| WorkerTask::new(0, 100 * batch + at);
    ///     feed.push(&(0..100).map(task).collect::<Vec<WorkerTask>>())?;
    /// }
    /// let (report, mut answers) = feed.finish()?;
    /// answers.sort_unstable();
    /// assert!(answers.iter().copied().eq((0..300).map(|at| 3 * at)));
    /// assert_eq!(report.ran, 300);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for the policies `Static` and `Levels`, which accept no later tasks, or for
    /// fewer than two workers; otherwise as for [`Stream::run_workers`].
    #[track_caller]
    pub fn feed_workers<'a, K: Kinds, P, A: ArgsFor<'a, P>>(
        &'a self,
        program: &'a Program<K, P>,
        options: &RunOptions,
        args: A,
    ) -> Result<Feed<'a, K, P>> {
        calling::refuse("feed_workers")?;
        if matches!(options.policy, Policy::Static | Policy::Levels) {
            return Err(refused(
                "the policies `static` and `levels` accept no tasks after the start; use another policy",
            ));
        }
        if options.workers.is_some_and(|workers| workers < 2) {
            return Err(refused(
                "a feed needs at least two workers, because one worker only takes the tasks from \
                 the host",
            ));
        }
        let mut collected = Args::new();
        args.push_all(&mut collected)?;
        // The twin of the kernel does not see words that the host writes while the twin runs. So a
        // host device has no resident run.
        let resident = if self.device().info.clock == Clock::Device {
            Some(start(self, program, Work::Tasks(&[]), options, BITS, collected.again())?)
        } else {
            None
        };
        let (stream, args, options) = (self, collected, *options);
        let (answers, report) = (Vec::new(), RunReport::default());
        Ok(Feed {
            stream,
            program,
            options,
            args,
            resident,
            fed: 0,
            taken: 0,
            seen: 0,
            answers,
            report,
        })
    }
}

impl<K: Kinds, P> Feed<'_, K, P> {
    /// Adds tasks for the workers. If the ring is full of tasks that the workers have not taken,
    /// this call waits, and takes answers meanwhile.
    ///
    /// # Errors
    /// `InvalidValue` for a kind that the program lacks; on a GPU, the error of work that failed;
    /// on a host device, every error of the run of these tasks.
    #[track_caller]
    pub fn push(&mut self, tasks: &[WorkerTask]) -> Result<()> {
        Work::Tasks(tasks).check(self.program, self.options.policy)?;
        let Some(run) = &self.resident else {
            let work = Work::Tasks(tasks);
            let run = start(self.stream, self.program, work, &self.options, 0, self.args.again())?;
            self.report.add(&run.end()?);
            self.answers.extend(twin::answers(run.host.address()));
            return Ok(());
        };
        for task in tasks {
            while self.fed.wrapping_sub(self.seen) >= 1 << BITS {
                run.host.set(host::FED, self.fed);
                self.seen = run.host.get(host::SEEN);
                take(run, &mut self.taken, &mut self.answers);
                if run.ticket.query()? == Readiness::Ready {
                    // The run has ended with an error. `finish` returns this error.
                    return Ok(());
                }
            }
            let at = host::task(BITS, self.fed);
            let [low, high] = halves(task.word());
            run.host.set(at, low);
            run.host.set(at + 1, high);
            self.fed = self.fed.wrapping_add(1);
        }
        run.host.set(host::FED, self.fed);
        Ok(())
    }

    /// Returns the answers that have come since the last call.
    pub fn answers(&mut self) -> Vec<u64> {
        if let Some(run) = &self.resident {
            take(run, &mut self.taken, &mut self.answers);
        }
        std::mem::take(&mut self.answers)
    }

    /// Tells the workers that there are no more tasks, and waits until all tasks have run. Returns
    /// the report of the workers, and the answers that the program has not taken yet.
    ///
    /// # Errors
    /// As for [`Run::wait`].
    #[track_caller]
    pub fn finish(mut self) -> Result<(RunReport, Vec<u64>)> {
        calling::refuse("feed_workers")?;
        if let Some(run) = self.resident.take() {
            run.host.set(host::CLOSED, 1);
            while run.ticket.query()? == Readiness::NotReady && !run.is_hung() {
                take(&run, &mut self.taken, &mut self.answers);
                std::thread::yield_now();
            }
            take(&run, &mut self.taken, &mut self.answers);
            let report = run.wait()?;
            self.report.add(&report);
        }
        Ok((std::mem::take(&mut self.report), std::mem::take(&mut self.answers)))
    }

    /// Asks the workers to leave; see [`Run::cancel`].
    pub fn cancel(&self) {
        if let Some(run) = &self.resident {
            run.cancel();
        }
    }
}

/// Appends the new answers of the run to `answers`.
fn take(run: &Run, taken: &mut u32, answers: &mut Vec<u64>) {
    let before = *taken;
    loop {
        let at = host::answer(BITS, *taken);
        // The first word of an answer is the number of its round of the ring, counted from 1.
        if run.host.get(at) != (*taken >> BITS) + 1 {
            break;
        }
        answers.push(u64::from(run.host.get(at + 3)) << 32 | u64::from(run.host.get(at + 2)));
        *taken = taken.wrapping_add(1);
    }
    if *taken != before {
        run.host.set(host::TAKEN, *taken);
    }
}

/// If the feed was not finished, its drop asks the workers to leave. Tasks that have not started do
/// not run.
impl<K, P> Drop for Feed<'_, K, P> {
    fn drop(&mut self) {
        if let Some(run) = &self.resident {
            run.cancel();
        }
    }
}
