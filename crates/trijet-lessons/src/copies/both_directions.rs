//! Uploads and downloads in one stream, or in a stream for each direction.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, part};
use crate::common::job::{Job, Step};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::lint::Rule;

pub(crate) const LESSON: Lesson = Lesson {
    name: "both-directions",
    topic: Topic::Copies,
    texts: &["examples:132", "book:175", "notes:120"],
    claim: "A GPU with two copy engines uploads and downloads at the same time, in two streams.",
    forms: &["both directions in one stream", "a stream for each direction"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::NoOverlap),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: both,
};

/// A program whose uploads write `x`, and whose downloads read `y`.
struct Directions(Job);

fn both(ground: &Ground) -> Result<Box<dyn Program>> {
    let streams = vec![ground.device.stream()?, ground.device.stream()?];
    let mut job = Job::new(ground, ground.size.chunks, streams, copies)?;
    // Without a kernel, the results are the words of the source.
    job.rounds = 0;
    Ok(Box::new(Directions(job)))
}

/// Bad: uploads and downloads alternate in one stream. Good: the downloads have their own stream.
fn copies(job: &mut Job, form: Form) -> Result<()> {
    let down = usize::from(form != BAD);
    for chunk in 0..job.source.len() / job.words {
        job.enqueue(0, Step::Upload, part(chunk, job.words))?;
        job.enqueue(down, Step::Download, part(chunk, job.words))?;
    }
    Ok(())
}

impl Program for Directions {
    fn prepare(&mut self) -> Result<()> {
        self.0.prepare()?;
        self.0.streams[0].copy(&self.0.source, &mut self.0.y)
    }

    fn run(&mut self, form: Form) -> Result<()> {
        self.0.run(form)
    }

    fn wrong(&mut self, form: Form) -> Result<Option<String>> {
        let downloaded = self.0.wrong(form)?;
        self.0.streams[0].copy(&self.0.x, &mut self.0.landed)?;
        let uploaded = self.0.wrong(form)?;
        Ok(downloaded.or(uploaded))
    }
}
