//! The outcome of a call, and of its context.

use super::held::Held;
use super::verbs::verb::Call;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use trijet::{Result, Stream};

/// The line that a process prints before a fault.
pub(crate) const FAULT: &str = "@fault ";

/// The result of a call in a context.
#[derive(Debug)]
pub(crate) enum Got {
    Answer(Result<()>),
    Panicked(String),
}

impl fmt::Display for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(Ok(())) => write!(f, "it succeeds"),
            Self::Answer(Err(error)) => write!(f, "{:?} ({error})", error.kind()),
            Self::Panicked(words) => write!(f, "a panic ({words})"),
        }
    }
}

/// The result of a call that has ended, and the handles.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) got: Got,
    pub(crate) held: Held,
}

pub(crate) type Outcome<T> = std::result::Result<T, String>;

/// The failure of a context itself.
pub(crate) fn because<T>(what: &str, outcome: Result<T>) -> Outcome<T> {
    outcome.map_err(|error| format!("{what}: {error}"))
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no text").to_owned()
}

/// Makes the call. The values that the call captured are dropped here as well.
pub(crate) fn made(call: Call, held: &mut Held, stream: &Stream) -> Got {
    match catch_unwind(AssertUnwindSafe(|| call(held, stream))) {
        Ok(answer) => Got::Answer(answer),
        Err(payload) => Got::Panicked(words(&*payload)),
    }
}
