//! The options of `trijet lesson`.
#![forbid(unsafe_code)]

use super::Overwrite;
use super::shared::has_extension;
use clap::Args;
use std::path::PathBuf;
use trijet_io::shown;
use trijet_tools::command::device::{DeviceName, ONE, proposing};

/// The text at the end of `trijet lesson --help`.
const LESSON_HELP: &str = "\
Examples:
  trijet lesson
  trijet lesson one-stream
  trijet lesson pageable --trace pageable.html

Without a name, the lessons are listed by topic. A lesson is a claim of a teaching text about streams, and two \
or more forms of one program. The command runs all forms in turn, compares their results with values that the \
host computes, and judges the claim by the measured times. Without a GPU the times come from a model.";

/// The options of `trijet lesson`.
#[derive(Debug, Args)]
#[command(after_long_help = LESSON_HELP)]
pub(crate) struct LessonOptions {
    /// The name of a lesson. Without one, all lessons are listed.
    pub(crate) name: Option<String>,
    /// The device: auto, cuda:N or host. Without a GPU the times come from a model of one.
    #[arg(long, default_value = "auto", hide_possible_values = true, value_parser = proposing::<DeviceName>(ONE))]
    pub(crate) device: DeviceName,
    /// Write the timelines of all forms, one after the other, to this page (.html).
    #[arg(long, value_name = "FILE", requires = "name")]
    pub(crate) trace: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
}

impl LessonOptions {
    /// Returns an error text if a name on the command line is wrong. Nothing runs before this
    /// check.
    pub(crate) fn wrong_name(&self) -> Option<String> {
        if let Some(name) = &self.name
            && trijet_lessons::named(name).is_none()
        {
            return Some(format!("there is no lesson `{name}`; `trijet lesson` lists all lessons"));
        }
        let page = self.trace.as_ref().filter(|page| !has_extension(page, "html"))?;
        Some(format!("{}: the timelines of a lesson are a page (.html)", shown(page)))
    }
}
