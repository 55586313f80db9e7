//! The parameters of an operation as text: `3,reflect,z=1`.
//!
//! Parameters are separated by commas. The first ones may be given by their order alone, and any of
//! them by its name. A parameter without a default must be given.
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use trijet::kernels::median::Edges;
use trijet::{Dtype, Error, ErrorKind, Result};

/// A parameter of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The name, as in `z=1`.
    pub name: &'static str,
    /// The text of the default; `None` for a parameter that must be given.
    pub default: Option<&'static str>,
    /// Whether [`Values::words`] leave the parameter out if it has its default.
    is_minor: bool,
}

/// A parameter that must be given.
pub(super) const fn needed(name: &'static str) -> Parameter {
    Parameter { name, default: None, is_minor: false }
}

/// A parameter with a default.
pub(super) const fn or(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, default: Some(default), is_minor: false }
}

/// A parameter that most users leave at its default.
pub(super) const fn minor(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, default: Some(default), is_minor: true }
}

/// The texts of the parameters of one operation.
#[derive(Debug, Clone)]
pub struct Values {
    operation: &'static str,
    parameters: &'static [Parameter],
    texts: Vec<String>,
    /// Whether each parameter was given.
    given: Vec<bool>,
}

impl Values {
    /// Reads the parameters of `operation` from the text after its name, without the colon.
    pub(super) fn parse(
        operation: &'static str,
        parameters: &'static [Parameter],
        text: Option<&str>,
    ) -> Result<Self> {
        let mut texts: Vec<Option<String>> = vec![None; parameters.len()];
        let mut has_named = false;
        for (place, value) in text.into_iter().flat_map(|text| text.split(',')).enumerate() {
            let named = value.split_once('=');
            let known = |name: &str| parameters.iter().position(|one| one.name == name);
            let (index, value) = match named.and_then(|(name, value)| Some((known(name)?, value))) {
                Some((index, value)) => {
                    has_named = true;
                    (index, value)
                }
                None if named.is_some() => {
                    let name = named.map_or(value, |(name, _)| name);
                    return Err(refused(operation, format!("there is no parameter `{name}`")));
                }
                None if has_named => {
                    let cause = format!("`{value}` comes after a parameter with a name; name it");
                    return Err(refused(operation, cause));
                }
                None if place >= parameters.len() => {
                    let cause = format!("`{value}` is one parameter too many");
                    return Err(refused(operation, cause));
                }
                None => (place, value),
            };
            if texts[index].replace(value.to_owned()).is_some() {
                let name = parameters[index].name;
                return Err(refused(operation, format!("`{name}` is given twice")));
            }
        }
        let given = texts.iter().map(Option::is_some).collect();
        let filled = parameters.iter().zip(texts).map(|(parameter, text)| {
            text.or_else(|| parameter.default.map(str::to_owned)).ok_or_else(|| {
                refused(operation, format!("the parameter `{}` is missing", parameter.name))
            })
        });
        Ok(Self { operation, parameters, texts: filled.collect::<Result<_>>()?, given })
    }

    /// The text of a parameter.
    ///
    /// # Panics
    /// If the operation has no parameter of this name.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        &self.texts[self.index(name)]
    }

    /// Whether a parameter was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.given[self.index(name)]
    }

    fn index(&self, name: &str) -> usize {
        let index = self.parameters.iter().position(|one| one.name == name);
        index.unwrap_or_else(|| panic!("{} has no parameter {name}", self.operation))
    }

    /// The name of the operation with its parameters, `median radius=3`. The same parameters have
    /// the same words, however their numbers were typed.
    #[must_use]
    pub(super) fn words(&self) -> String {
        let mut words = self.operation.to_owned();
        for (parameter, text) in self.parameters.iter().zip(&self.texts) {
            if parameter.is_minor && parameter.default == Some(text) {
                continue;
            }
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            let text = number.map_or_else(|| text.clone(), |number| number.to_string());
            words.push_str(&format!(" {}={text}", parameter.name));
        }
        words
    }

    /// A parameter that is a finite number.
    pub(super) fn number(&self, name: &str) -> Result<f64> {
        let number: f64 = self.parsed(name, "a number")?;
        if number.is_finite() { Ok(number) } else { Err(self.wrong(name, "a finite number")) }
    }

    /// A parameter that is a whole number.
    pub(super) fn integer<T: FromStr>(&self, name: &str) -> Result<T> {
        self.parsed(name, "a whole number")
    }

    /// A parameter that names the values beyond the edges of an image.
    pub(super) fn edges(&self, name: &str) -> Result<Edges> {
        let known = [Edges::Nearest, Edges::Reflect, Edges::Mirror, Edges::Constant, Edges::Wrap];
        known
            .into_iter()
            .find(|edges| edges.to_string() == self.text(name))
            .ok_or_else(|| self.wrong(name, "one of nearest, reflect, mirror, constant and wrap"))
    }

    /// A parameter that names an element type.
    pub(super) fn dtype(&self, name: &str) -> Result<Dtype> {
        self.text(name).parse().map_err(|error: Error| error.context(self.operation))
    }

    /// A parameter that is a range, `10:20`. A missing end is `end`.
    pub(super) fn range(&self, name: &str, end: u64) -> Result<Range<u64>> {
        let wrong = || self.wrong(name, "a range such as 10:20, :20 or 10:");
        let (from, to) = self.text(name).split_once(':').ok_or_else(wrong)?;
        let part = |text: &str, missing| {
            if text.is_empty() { Ok(missing) } else { text.parse().map_err(|_| wrong()) }
        };
        Ok(part(from, 0)?..part(to, end)?)
    }

    fn parsed<T: FromStr>(&self, name: &str, kind: &str) -> Result<T> {
        self.text(name).parse().map_err(|_| self.wrong(name, kind))
    }

    /// The error for a parameter that is not of the kind that `kind` names.
    pub(super) fn wrong(&self, name: &str, kind: &str) -> Error {
        refused(self.operation, format!("`{name}` is `{}`, which is not {kind}", self.text(name)))
    }
}

pub(super) fn refused(operation: &'static str, cause: impl fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidValue, operation, cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: [Parameter; 3] = [needed("radius"), minor("edges", "nearest"), or("z", "0")];

    fn values(text: &str) -> Result<Values> {
        Values::parse("median", &PARAMETERS, Some(text))
    }

    #[test]
    fn parameters_are_given_by_order_or_by_name() {
        for text in
            ["3,reflect,1", "3,reflect,z=1", "radius=3,z=1,edges=reflect", "3,z=1,edges=reflect"]
        {
            let values = values(text).unwrap();
            assert_eq!(values.integer::<u32>("radius").unwrap(), 3, "{text}");
            assert_eq!(values.edges("edges").unwrap(), Edges::Reflect, "{text}");
            assert_eq!(values.integer::<u32>("z").unwrap(), 1, "{text}");
        }
        let values = values("7").unwrap();
        assert_eq!((values.text("edges"), values.text("z")), ("nearest", "0"));
    }

    #[test]
    fn words_are_the_same_for_the_same_parameters() {
        assert_eq!(values("3,wrap").unwrap().words(), "median radius=3 edges=wrap z=0");
        for text in ["3", "3.0", "z=0,radius=3", "3,nearest,0e0"] {
            assert_eq!(values(text).unwrap().words(), "median radius=3 z=0", "{text}");
        }
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        for (text, words) in [
            ("", "`radius` is ``, which is not a whole number"),
            ("x", "`radius` is `x`, which is not a whole number"),
            ("1,up", "`edges` is `up`, which is not one of nearest"),
            ("1,edge=wrap", "there is no parameter `edge`"),
            ("1,radius=2", "`radius` is given twice"),
            ("z=1,2", "`2` comes after a parameter with a name"),
            ("1,wrap,0,9", "`9` is one parameter too many"),
            ("z=1", "the parameter `radius` is missing"),
        ] {
            let found = values(text).and_then(|values| {
                values.integer::<u32>("radius")?;
                values.edges("edges").map(drop)
            });
            let found = found.expect_err(text).to_string();
            assert!(found.contains(words) && found.contains("median"), "{text}: {found}");
        }
    }

    #[test]
    fn a_range_may_lack_its_ends() {
        let range = |text: &'static str| {
            const PARAMETERS: [Parameter; 1] = [or("y", ":")];
            Values::parse("crop", &PARAMETERS, Some(text)).unwrap().range("y", 9)
        };
        assert_eq!(range("2:5").unwrap(), 2..5);
        assert_eq!(range(":").unwrap(), 0..9);
        assert_eq!(range("4:").unwrap(), 4..9);
        assert!(range("4").is_err() && range("a:b").is_err() && range("-1:2").is_err());
    }
}
