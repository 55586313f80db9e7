//! An operation with its parameters, as text.
#![forbid(unsafe_code)]

use super::entry::{LoadImage, Named};
use super::table::OPERATIONS;
use super::values::{Values, refused};
use crate::operation::Operation;
use trijet::{Error, ErrorKind, Result};

/// An operation with its parameters, as text.
#[derive(Debug, Clone)]
pub struct OperationText {
    named: &'static Named,
    values: Values,
}

impl OperationText {
    /// Reads the text of an operation, and checks its parameters. Files are not opened.
    ///
    /// ```
    /// use trijet_ops::OperationText;
    /// let affine = OperationText::parse("affine:0.5,3")?;
    /// assert_eq!(affine.words(), "affine scale=0.5 offset=3");
    /// let unknown = OperationText::parse("blur:3").unwrap_err();
    /// assert!(unknown.to_string().contains("there is no operation `blur`"));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for an unknown operation, and for wrong parameters. The message has the form
    /// of the operation.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, values) =
            text.split_once(':').map_or((text, None), |(name, values)| (name, Some(values)));
        let Some(named) = OPERATIONS.iter().find(|one| one.name == name) else {
            let names: Vec<&str> = OPERATIONS.iter().map(|one| one.name).collect();
            let cause = format!("there is no operation `{name}`; use one of {}", names.join(", "));
            return Err(Error::new(ErrorKind::InvalidValue, "operation", cause));
        };
        let parsed = Values::parse(named.name, named.parameters, values)
            .map(|values| Self { named, values })
            .and_then(|text| {
                if named.files.is_empty() {
                    text.build(&|_| Err(refused(named.name, "the operation has no files")))?;
                }
                Ok(text)
            });
        parsed.map_err(|error| {
            let cause = format!("{error}; write {}", named.form());
            Error::new(ErrorKind::InvalidValue, "operation", cause)
        })
    }

    /// The name of the operation.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.named.name
    }

    /// Whether the text has a value of its own for this parameter.
    ///
    /// # Panics
    /// If the operation has no parameter of this name.
    #[must_use]
    pub fn has(&self, parameter: &str) -> bool {
        self.values.has(parameter)
    }

    /// The name of the operation with its parameters: `affine scale=0.5 offset=3`.
    #[must_use]
    pub fn words(&self) -> String {
        self.values.words()
    }

    /// The names of the image files that the operation reads.
    #[must_use]
    pub fn files(&self) -> Vec<&str> {
        let given = self.named.files.iter().map(|name| self.values.text(name));
        given.filter(|name| !name.is_empty()).collect()
    }

    /// The operation. `load` reads the image in a file.
    ///
    /// # Errors
    /// Errors of `load`, and of an operation that its images do not fit.
    pub fn build(&self, load: LoadImage<'_>) -> Result<Box<dyn Operation>> {
        (self.named.build)(&self.values, load)
    }
}
