//! Tests of the host device through its driver.
#![forbid(unsafe_code)]

mod laws;
mod losses;
