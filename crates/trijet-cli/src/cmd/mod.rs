//! The commands.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod lesson;
pub(crate) mod map;
pub(crate) mod overlap;
pub(crate) mod program;
pub(crate) mod queues;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod sample;
pub(crate) mod shell;
pub(crate) mod status;
pub(crate) mod trace;
pub(crate) mod what_if;

use trijet_tools::command::device::{open, with_check};
use trijet_tools::command::print::{print, print_stderr, print_text};
use trijet_tools::command::usage::wrong_usage;
use trijet_tools::command::{document, progress, stop, verdict};
