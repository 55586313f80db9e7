//! Tidy: the rules of the repository that no compiler lint checks.
//!
//! A rule is a function from text to findings, so each rule has two tests: the repository must give
//! no finding, and a small bad sample must give one. Everything is read from the source text. The
//! scanner in `source` knows comments, strings and braces, and nothing else of the language. It
//! needs no network and no git.

mod budgets;
mod calls;
mod coverage;
mod cycles;
mod docs;
mod english;
mod faults;
mod files;
mod imports;
mod names;
mod paths;
mod quotes;
mod results;
mod safety;
mod shape;
mod source;
mod text;
mod traits;
mod tree;
mod tuples;
mod types;
mod verbs;
mod words;

use files::{File, Finding, demand_none, files, lines};
