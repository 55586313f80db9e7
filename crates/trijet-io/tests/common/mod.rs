//! Helpers of the tests of formats and outputs.

mod demand;
mod files;

pub(crate) use demand::demand;
pub(crate) use files::{GRAY8, GRAY16, dictionary, npy, png};
