//! The laws of streams. Other pages name them by number, such as law [A1](#a1). The column of the
//! tests names tests of the repository of Trijet.
#![doc = include_str!("laws.md")]
#![forbid(unsafe_code)]
