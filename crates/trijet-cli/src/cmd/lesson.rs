//! `trijet lesson`: lists the lessons, or runs one.
#![forbid(unsafe_code)]

use super::document::print_json;
use super::print;
use super::progress::Progress;
use crate::args::LessonOptions;
use crate::key::key;
use serde_json::{Value, json};
use std::io::Write;
use trijet::Result;
use trijet::trace::critical::Category;
use trijet_io::NewFile;
use trijet_lessons::{FormOutcome, Ground, Judgement, Lesson, Outcome, Size, lessons, named};
use trijet_tools::command::device::DeviceName;
use trijet_tools::progress::{Step, Steps};

/// Opens the device, and calibrates its kernels. If `name` is `auto` and there is no GPU, opens a
/// host device with modelled times.
fn ground(name: DeviceName) -> Result<Ground> {
    match name {
        DeviceName::Cuda(ordinal) => Ground::on_gpu(ordinal, Size::GPU),
        DeviceName::Host => Ground::on_model(Size::MODEL),
        DeviceName::Auto => match Ground::on_gpu(0, Size::GPU) {
            Err(e) if e.is_missing_gpu() => Ground::on_model(Size::MODEL),
            other => other,
        },
    }
}

/// Runs the lesson that `options` names. Without a name, lists all lessons.
pub(crate) fn run(options: &LessonOptions) -> Result<()> {
    let Some(lesson) = options.name.as_deref().and_then(named) else {
        return list(options.json);
    };
    let existing = options.overwrite.existing();
    let page = options.trace.as_deref().map(|page| NewFile::new("trace", page, existing, &[]));
    let page = page.transpose()?;
    let progress = Progress::on_stderr();
    let mut show = |step: Step<'_>| progress.show(step);
    let mut steps = Steps::new(&mut show);
    steps.expect(2);
    steps.begin("calibrating the kernels");
    let ground = ground(options.device)?;
    steps.begin(lesson.name);
    let outcome = lesson.measure(&ground)?;
    drop(progress);
    if let Some(page) = &page {
        page.write(|file| file.write_all(outcome.page().render().as_bytes()))?;
    }
    let device = &ground.device.info().name;
    if options.json {
        return print_json("lesson", &document(&outcome, device));
    }
    let times = match outcome.is_modelled {
        true => "times of a model",
        false => "median of the timed runs; one more run, with a trace, is drawn",
    };
    print(format_args!("{}: {}\n{device}: {times}\n", lesson.name, lesson.claim))?;
    print(outcome.text())?;
    match &page {
        Some(page) => print(format_args!("timeline: {}", trijet_io::shown(page.path()))),
        None => Ok(()),
    }
}

/// Prints all lessons by topic.
fn list(json: bool) -> Result<()> {
    if json {
        let all: Vec<Value> = lessons().iter().map(described).collect();
        return print_json("lesson", &json!({ "lessons": all }));
    }
    let mut topic = None;
    for lesson in lessons() {
        if topic != Some(lesson.topic) {
            topic = Some(lesson.topic);
            print(format_args!("{}:", lesson.topic.name()))?;
        }
        print(format_args!("  {:<22} {}", lesson.name, lesson.claim))?;
    }
    print("\n`trijet lesson NAME` runs one.")
}

fn described(lesson: &Lesson) -> Value {
    json!({
        "name": lesson.name,
        "topic": lesson.topic.name(),
        "texts": lesson.texts,
        "claim": lesson.claim,
    })
}

fn document(outcome: &Outcome, device: &str) -> Value {
    let form = |(name, form): (&&str, &FormOutcome)| {
        json!({
            "name": name,
            "median_ns": form.median_ms() * 1e6,
            "runs": form.runs,
            "wrong_runs": form.wrong,
            "seen": form.seen,
            "remark": form.said.flag,
        })
    };
    let forms: Vec<Value> = outcome.lesson.forms.iter().zip(&outcome.forms).map(form).collect();
    let bound = outcome.bound();
    let verdict = outcome.verdict();
    json!({
        "lesson": described(&outcome.lesson),
        "device": device,
        "clock": if outcome.is_modelled { "model" } else { "device" },
        "forms": forms,
        "bound_ns": bound.map(|(_, busy)| busy.0),
        "limit": bound.map(|(engine, _)| key(&Category::Engine(engine).to_string())),
        "judgement": judgement(verdict.judgement),
        "verdict": verdict.sentence,
    })
}

fn judgement(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Holds => "holds",
        Judgement::Fails => "fails",
        Judgement::NoDifference => "no_difference",
        Judgement::NotShown => "not_shown",
    }
}
