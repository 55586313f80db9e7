//! An entry of the table of operations.
#![forbid(unsafe_code)]

use super::values::{Parameter, Values};
use crate::operation::Operation;
use crate::pointwise::Image;
use std::fmt;
use trijet::Result;

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
    pub(super) build: fn(&Values, LoadImage<'_>) -> Result<Box<dyn Operation>>,
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

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named").field("name", &self.name).finish_non_exhaustive()
    }
}
