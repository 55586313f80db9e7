//! The operations on neighbourhoods, compared with naive computations and with SciPy. They run on a
//! GPU if there is one.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]
#![expect(clippy::cast_possible_truncation, reason = "drawn numbers and arrays are small")]

mod draw;
mod extremum;
mod gaussian;
mod naive;
mod rank;
mod reference;
mod run;
mod twin;
