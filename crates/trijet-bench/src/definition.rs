//! Definitions of benchmarks: the files of `definitions/`, which are compiled into the program.
#![forbid(unsafe_code)]

use serde::Deserialize;
use serde::de::DeserializeOwned;
use trijet::{Error, ErrorKind, Result};

/// The sizes on a GPU, and the sizes on a host device, whose processor computes every element.
#[derive(Debug, Deserialize)]
pub(crate) struct ByDevice<D> {
    pub(crate) gpu: D,
    pub(crate) host: D,
}

/// Reads a definition.
///
/// # Errors
/// `InvalidValue` for a text that is not a definition, with the first wrong line.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let cause = format!("the definition does not parse: {error}");
        Error::new(ErrorKind::InvalidValue, "bench", cause).caused_by(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_definition_is_refused_with_its_line() {
        #[derive(Debug, Deserialize)]
        struct Small {
            repeats: usize,
        }
        assert_eq!(parse::<Small>("repeats = 3").unwrap().repeats, 3);
        let error = parse::<Small>("\nrepeats = 'three'").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
