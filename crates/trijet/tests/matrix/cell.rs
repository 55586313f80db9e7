//! One verb in one context.

use super::context::Context;
use super::contexts::run;
use super::held::{Held, LEN, Open, job};
use super::outcome::{Got, Ran};
use super::rows::{Answer, Does, Either, Is, May};
use super::verbs::verb::Verb;
use trijet::{ErrorKind, Result};

/// Runs a cell. Returns the failure of the cell as an error.
pub(crate) fn cell(open: Open, context: Context, verb: &Verb) -> std::result::Result<(), String> {
    let prepared = || -> Result<_> {
        let mut held = Held::new(open, context == Context::Lost)?;
        let call = (verb.make)(&mut held)?;
        Ok((held, call))
    };
    let (held, call) = prepared().map_err(|error| format!("the preparation fails: {error}"))?;
    let demanded = verb.row.answer(context);
    let Ran { got, held } = run(context, (held, call), &verb.row, |got| compare(got, demanded))?;
    if context != Context::Fork {
        compare(&got, demanded)?;
    }
    if context == Context::Lost {
        return Ok(());
    }
    let has_done = matches!(got, Got::Answer(Ok(()))) && context != Context::Fork;
    demand_bytes(&held, verb.bytes[usize::from(has_done)])?;
    match job(&held.device) {
        Ok(true) => {}
        Ok(false) => return Err("a job afterwards has wrong bytes".to_owned()),
        Err(error) => return Err(format!("a job afterwards: {error}")),
    }
    let device = held.device.clone();
    drop(held);
    // A call that is refused in a host function is a finding.
    let is_finding =
        matches!(&got, Got::Answer(Err(error)) if error.kind() == ErrorKind::InCallback);
    match device.verdict() {
        Some(verdict) if verdict.is_clean() == is_finding => {
            return Err(format!("the checker: {verdict}"));
        }
        _ => {}
    }
    device.close().map_err(|error| format!("the close: {error}"))
}

/// Compares the bytes of `x`, `y` and `h`.
fn demand_bytes(held: &Held, expected: [u8; 3]) -> std::result::Result<(), String> {
    let bytes = held.bytes().map_err(|error| format!("the bytes afterwards: {error}"))?;
    if bytes.iter().zip(expected).all(|(bytes, byte)| bytes.iter().all(|one| *one == byte)) {
        return Ok(());
    }
    let [x, y, h] = bytes.map(|bytes| bytes[LEN / 2]);
    Err(format!("the bytes afterwards are {:?} and others, and not {expected:?}", [x, y, h]))
}

/// Compares an answer with the demanded one.
fn compare(got: &Got, demanded: Answer) -> std::result::Result<(), String> {
    let is_right = match got {
        Got::Panicked(_) => false,
        Got::Answer(Ok(())) => matches!(demanded, Does | May(_)),
        Got::Answer(Err(error)) => match demanded {
            Is(kind) | May(kind) => error.kind() == kind,
            Either(one, other) => [one, other].contains(&error.kind()),
            Does => false,
        },
    };
    if is_right { Ok(()) } else { Err(format!("{got}, and not {demanded:?}")) }
}
