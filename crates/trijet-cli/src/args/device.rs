//! The values of `--device`. Completions propose some, and the help names all.
#![forbid(unsafe_code)]

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::str::FromStr;

/// The devices of most commands.
pub(super) const ONE: &[&str] = &["auto", "host", "cuda:0", "cuda:1"];
/// The devices of `trijet map`.
pub(super) const ONE_OR_ALL: &[&str] = &["auto", "all", "host", "cuda:0", "cuda:1"];

/// Reads a device.
#[derive(Debug)]
pub(super) struct DeviceParser<T> {
    proposed: &'static [&'static str],
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for DeviceParser<T> {
    fn clone(&self) -> Self {
        Self { proposed: self.proposed, of: PhantomData }
    }
}

/// A parser for which completions propose these values.
pub(super) fn proposing<T>(proposed: &'static [&'static str]) -> DeviceParser<T> {
    DeviceParser { proposed, of: PhantomData }
}

impl<T> TypedValueParser for DeviceParser<T>
where
    T: FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        StringValueParser::new().try_map(|text| text.parse()).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.proposed.iter().map(PossibleValue::new)))
    }
}
