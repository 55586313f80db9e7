//! Every claim that a lesson can test: the times of all forms of its program, and the verdict.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::setting::Setting;
use serde::Deserialize;
use trijet::Result;
use trijet_lessons::{Ground, Judgement, Size, lessons};
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    repeats: usize,
    model_repeats: usize,
}

/// Measures all lessons on the GPU of the setting, or else on the model.
///
/// # Errors
/// `InvalidValue` for a wrong result of a form that must be right; every error of the device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let ground = match setting.is_gpu() {
        true => {
            let size = Size { repeats: definition.repeats, ..Size::GPU };
            Ground::on_gpu(setting.device.id().0, size)?
        }
        false => Ground::on_model(Size { repeats: definition.model_repeats, ..Size::MODEL })?,
    };
    let mut results = Results::of_device(&ground.device);
    steps.expect(lessons().len() as u64);
    let (mut hold, mut shown) = (0, 0);
    for lesson in lessons() {
        let name = lesson.name;
        steps.begin(name);
        let is_alone = ground.devices.len() < 2;
        if is_alone && lesson.needs_two_devices() {
            results.note(name, "not run: it needs two GPUs");
            continue;
        }
        let outcome = lesson.measure(&ground).map_err(|error| error.context(name))?;
        let verdict = outcome.verdict();
        results.note(name, verdict.sentence);
        for (form, measured) in lesson.forms.iter().zip(&outcome.forms) {
            let samples = Samples::of(measured.ms.clone());
            results.push(format!("{name}, {form}"), "ms", samples, None);
        }
        shown += usize::from(verdict.judgement != Judgement::NotShown);
        hold += usize::from(verdict.judgement == Judgement::Holds);
    }
    let verified = format!(
        "the results of all forms that must be right; {hold} of {shown} claims hold on this device"
    );
    results.note("verified", verified);
    Ok(results)
}
