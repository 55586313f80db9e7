//! A program that any bytes choose, as its text: the body of the fuzz target `program`.

use crate::explore::examine;
use crate::text::parse;

/// Longer texts only take longer.
const TEXT_MAX: usize = 4096;

/// The first byte chooses the orders, the rest is the text of a program; what is none does nothing.
///
/// # Panics
/// When the program computes something else than one call after the other, when a conflict is not
/// ordered, when a wait is idle, and when a call or a drop fails.
pub(crate) fn check(bytes: &[u8]) {
    let (order, rest) = bytes.split_first().unwrap_or((&0, bytes));
    let text = std::str::from_utf8(rest).ok().filter(|text| text.len() <= TEXT_MAX);
    let Some(Ok(program)) = text.map(parse) else { return };
    examine(&program, u64::from(*order)).unwrap_or_else(|why| panic!("{why}"));
}
