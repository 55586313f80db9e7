//! A program whose text is arbitrary bytes: the body of the fuzz target `program`.

use crate::explore::examine;
use crate::text::parse;

/// Maximum length of the text in bytes. Longer texts would only take longer.
const TEXT_MAX: usize = 4096;

/// Runs a program. The first byte chooses the orders, and the rest is the text of the program.
/// Bytes that are no program do nothing.
///
/// # Panics
/// If the outcome differs from the outcome of a serial run, if a conflict is not ordered, if a wait
/// is unnecessary, or if a call or a drop fails.
pub(crate) fn check(bytes: &[u8]) {
    let (order, rest) = bytes.split_first().unwrap_or((&0, bytes));
    let text = std::str::from_utf8(rest).ok().filter(|text| text.len() <= TEXT_MAX);
    let Some(Ok(program)) = text.map(parse) else { return };
    examine(&program, u64::from(*order)).unwrap_or_else(|why| panic!("{why}"));
}
