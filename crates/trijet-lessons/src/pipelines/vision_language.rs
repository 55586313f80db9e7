//! Images and texts, in one stream or in two towers that join.
#![forbid(unsafe_code)]

use crate::common::ground::Ground;
use crate::common::towers::Towers;
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use std::cell::RefCell;
use trijet::check::lint::Rule;
use trijet::staged::Staged;
use trijet::{Device, Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "vision-language",
    topic: Topic::Pipelines,
    texts: &["guide:549"],
    claim: "A model of images and texts is faster if each of its stages has a stream.",
    forms: &["one stream", "a stream for each stage"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::NoOverlap),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: vision_language,
};

/// Bad: all stages of all pairs are in one stream. Good: both encoders and the model have a stream
/// each, and work on different pairs.
struct VisionLanguage {
    device: Device,
    stream: Stream,
    towers: Towers,
}

fn vision_language(ground: &Ground) -> Result<Box<dyn Program>> {
    let (device, towers) = (ground.device.clone(), Towers::new(ground)?);
    Ok(Box::new(VisionLanguage { stream: device.stream()?, device, towers }))
}

impl Program for VisionLanguage {
    fn prepare(&mut self) -> Result<()> {
        self.towers.spoil()
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Self { device, stream, towers } = self;
        if form == BAD {
            return towers.all([stream; 3]);
        }
        let (pairs, towers) = (towers.pairs, RefCell::new(towers));
        let mut staged = Staged::<usize>::on(device);
        let pair = staged.item();
        let vision = staged.stage("vision", pair, |s, &pair| {
            towers.borrow_mut().tower([s, s], 0, pair).map(|()| pair)
        });
        let language =
            staged.stage("language", pair, |s, &pair| towers.borrow_mut().tower([s, s], 1, pair));
        let answer = staged.stage("model", (vision, language), |s, (&pair, ())| {
            towers.borrow_mut().join([s, s], pair)
        });
        staged.run((0..pairs).map(Ok), answer, |()| Ok(())).map(drop)
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.towers.wrong()
    }
}
