//! The part of a trace that the timeline of a page shows, from `--from` and `--to`.
#![forbid(unsafe_code)]

use crate::args::TraceOptions;
use std::ops::Range;
use trijet::Nanos;

/// Returns an error if `--from` is not before `--to`.
pub(super) fn in_order(options: &TraceOptions) -> Result<(), String> {
    match (options.from, options.to) {
        (Some(from), Some(to)) if from >= to => {
            Err(format!("--from {} is not before --to {}", exact(from), exact(to)))
        }
        _ => Ok(()),
    }
}

/// The range of times that `--from` and `--to` choose in a trace of the given length; `None`
/// without these options.
pub(super) fn window(
    options: &TraceOptions,
    length: Nanos,
) -> Result<Option<Range<Nanos>>, String> {
    if options.from.is_none() && options.to.is_none() {
        return Ok(None);
    }
    let range = format!("the trace is from 0s to {}", exact(length));
    in_order(options).map_err(|wrong| format!("{wrong}; {range}"))?;
    let outside = |option: &str, time: Nanos| {
        Err(format!("{option} {} is outside of the trace: {range}", exact(time)))
    };
    match (options.from, options.to) {
        (Some(from), _) if from >= length => outside("--from", from),
        (_, Some(to)) if to.0 == 0 || to > length => outside("--to", to),
        (from, to) => Ok(Some(from.unwrap_or_default()..to.unwrap_or(length))),
    }
}

/// A time with all its digits, in the form that the options accept.
fn exact(time: Nanos) -> String {
    let (seconds, rest) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    let digits = format!("{seconds}.{rest:09}");
    format!("{}s", digits.trim_end_matches('0').trim_end_matches('.'))
}
