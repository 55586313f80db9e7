//! `trijet completions`, `trijet man` and `trijet map --kernel-template`: texts about the command
//! itself, made from the definition of its options.
#![forbid(unsafe_code)]

use super::print;
use crate::args::{KernelTemplate, ManOptions, Options};
use clap::CommandFactory;
use clap_complete::Shell;
use trijet::{Error, ErrorKind, Result};

/// Prints a kernel to begin with.
pub(crate) fn kernel_template(template: KernelTemplate) -> Result<()> {
    let text = match template {
        KernelTemplate::Element => include_str!("template/element.cu"),
        KernelTemplate::Halo => include_str!("template/halo.cu"),
    };
    print(text.trim_end())
}

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Options::command(), "trijet", &mut text);
    print(String::from_utf8_lossy(&text).trim_end())
}

/// Writes a manual page for each command.
pub(crate) fn man(options: &ManOptions) -> Result<()> {
    let folder = &options.folder;
    let failed = |cause: std::io::Error| {
        let told = format!("{}: {cause}", folder.display());
        Error::new(ErrorKind::Io, "man", told).caused_by(cause)
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Options::command(), folder).map_err(failed)?;
    print(format_args!("{}: one page for each command", folder.display()))
}
