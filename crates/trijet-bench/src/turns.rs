//! Samples of programs that take turns, as rows of results.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::rounds::{Side, round, warm_up};
use crate::setting::Setting;
use trijet::Result;

/// Runs all sides in turn and collects their samples. Adds the figures under the name that `name`
/// makes from the name of the side.
///
/// # Errors
/// The first error of a side; `Cancelled`.
pub(crate) fn record(
    setting: &Setting<'_>,
    sides: &mut [Side<'_>],
    samples: usize,
    name: impl Fn(&str) -> String,
    results: &mut Results,
) -> Result<()> {
    warm_up(sides, &setting.cancel)?;
    for number in 0..samples {
        round(sides, number, &setting.cancel)?;
    }
    for side in sides.iter() {
        for figure in &side.figures {
            let what = format!("{}: {}", name(&side.name), figure.what);
            results.push(what, &figure.unit, figure.samples.clone(), None);
        }
    }
    Ok(())
}
