//! Operations by their names: `affine:0.5,3`, as on a command line.
#![forbid(unsafe_code)]

mod table;
mod values;

pub use table::OPERATIONS;
pub use values::{Parameter, Values};

use crate::operation::Operation;
use crate::pointwise::Image;
use std::fmt;
use trijet::Result;
use values::refused;

/// A function that reads the image in the file of this name.
pub type LoadImage<'a> = &'a dyn Fn(&str) -> Result<Image>;

/// An operation that has a name.
pub struct Named {
    /// The name.
    pub name: &'static str,
    /// The operation and its parameters, in one or a few sentences.
    pub help: &'static str,
    /// The parameters, in their order.
    pub parameters: &'static [Parameter],
    /// The parameters that are names of image files.
    pub files: &'static [&'static str],
    build: fn(&Values, LoadImage<'_>) -> Result<Box<dyn Operation>>,
}

/// An operation with its parameters, as text.
#[derive(Debug, Clone)]
pub struct OperationText {
    named: &'static Named,
    values: Values,
}

impl Named {
    /// The form of the text of this operation: `affine:SCALE,OFFSET`.
    ///
    /// ```
    /// let affine = trijet_ops::OPERATIONS.iter().find(|one| one.name == "affine").unwrap();
    /// assert_eq!(affine.form(), "affine:SCALE,OFFSET");
    /// ```
    #[must_use]
    pub fn form(&self) -> String {
        let names: Vec<String> =
            self.parameters.iter().map(|one| one.name.to_uppercase()).collect();
        match names.is_empty() {
            true => self.name.to_owned(),
            false => format!("{}:{}", self.name, names.join(",")),
        }
    }
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
            return Err(refused("", cause));
        };
        let parsed = Values::parse(named.name, named.parameters, values)
            .map(|values| Self { named, values })
            .and_then(|text| {
                if named.files.is_empty() {
                    text.build(&|_| Err(refused(named.name, "the operation has no files")))?;
                }
                Ok(text)
            });
        parsed.map_err(|error| error.context(format!("write {}", named.form())))
    }

    /// The name of the operation.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.named.name
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

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named").field("name", &self.name).finish_non_exhaustive()
    }
}
