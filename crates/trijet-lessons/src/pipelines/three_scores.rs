//! Three scores of each image, one after the other or at the same time.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, differs, part, sourced};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::testing::WORK;
use trijet::{Buffer, PinnedBuffer, Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "three-scores",
    topic: Topic::Pipelines,
    texts: &["guide:1012", "guide:730"],
    claim: "Three small kernels that score one image take less time in three streams than in one.",
    forms: &["one stream", "a stream for each score"],
    expect: Expect::Faster,
    flag: Flag::None("no rule knows how many blocks of other kernels a GPU has room for"),
    timed: None,
    rows: Rows::Streams,
    unmodelled: Some("The model runs one kernel at a time"),
    make: three_scores,
};

/// The kernels have a few blocks each, so a GPU has room for all three. Score `k` makes `k` more
/// rounds than score 0.
struct ThreeScores {
    streams: [Stream; 3],
    images: Vec<Buffer<u32>>,
    /// For each image, the memory of its three scores.
    scores: Vec<[Buffer<u32>; 3]>,
    back: PinnedBuffer<u32>,
    rounds: u32,
}

fn three_scores(ground: &Ground) -> Result<Box<dyn Program>> {
    let (device, words, chunks) = (&ground.device, ground.size.small_words, ground.size.chunks);
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let (s, host, back) = (&streams[0], sourced(device, words * chunks)?, device.pinned(words)?);
    let (mut images, mut scores) = (Vec::new(), Vec::new());
    for number in 0..chunks {
        let mut image = s.alloc(words)?;
        s.copy(&host.slice(part(number, words)), &mut image)?;
        images.push(image);
        scores.push([s.alloc(words)?, s.alloc(words)?, s.alloc(words)?]);
    }
    Ok(Box::new(ThreeScores { streams, images, scores, back, rounds: ground.small_rounds }))
}

impl Program for ThreeScores {
    fn prepare(&mut self) -> Result<()> {
        let mut all = self.scores.iter_mut().flatten();
        all.try_for_each(|score| self.streams[0].fill_bytes(score, 0xee))
    }

    fn run(&mut self, form: Form) -> Result<()> {
        for (image, scores) in self.images.iter().zip(&mut self.scores) {
            for ((stream, score), rounds) in self.streams.iter().zip(scores).zip(self.rounds..) {
                let stream = if form == BAD { &self.streams[0] } else { stream };
                stream.launch(&WORK, (rounds, image, score))?;
            }
        }
        Ok(())
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        for (number, scores) in self.scores.iter().enumerate() {
            for (score, rounds) in scores.iter().zip(self.rounds..) {
                self.streams[0].copy(score, &mut self.back)?;
                let start = number * score.len();
                let found = differs(&self.back.read()?, rounds, |index| start + index);
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }
}
