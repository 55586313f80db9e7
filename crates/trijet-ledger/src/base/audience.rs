//! The reader of a text.
#![forbid(unsafe_code)]

/// The reader of a summary, of advice or of findings. These texts name only things that their
/// reader can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Audience {
    /// The author of the program.
    #[default]
    Author,
    /// The user of a command, who cannot change the program.
    User,
}
