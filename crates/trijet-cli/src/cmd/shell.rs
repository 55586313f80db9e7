//! `trijet completions`, `trijet man` and `trijet map --kernel-template`: texts about the command
//! itself, made from the definition of its options.
#![forbid(unsafe_code)]

use super::{print, print_text};
use crate::args::{KernelTemplate, ManOptions, Options};
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;
use std::io::{ErrorKind as Io, Write};
use std::path::{Path, PathBuf};
use trijet::{Error, ErrorKind, Result};
use trijet_io::{Complete, Existing, NewFile, file_error, shown};

/// Prints a kernel to start from.
pub(crate) fn kernel_template(template: KernelTemplate) -> Result<()> {
    let text = match template {
        KernelTemplate::Element => include_str!("template/element.cu"),
        KernelTemplate::Halo => include_str!("template/halo.cu"),
    };
    print_text(text.trim_end())
}

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Options::command(), "trijet", &mut text);
    print_text(String::from_utf8_lossy(&text).trim_end())
}

/// Writes a manual page for each command.
pub(crate) fn man(options: &ManOptions) -> Result<()> {
    let folder = &options.folder;
    let mut pages = Vec::new();
    let mut command = Options::command().disable_help_subcommand(true);
    command.build();
    render(&command, &mut pages)?;
    let created = create_folders(folder)?;
    let written = write(&pages, folder, options.overwrite.existing());
    if written.is_err() {
        for folder in created.iter().rev() {
            // An error of the removal is ignored, because the error of the write is reported.
            drop(fs::remove_dir(folder));
        }
    }
    written?;
    print(format_args!("{}: one page for each command", shown(folder)))
}

/// Adds the page of a command and the pages of its subcommands to `pages`. A page is a file name
/// and a text.
fn render(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        render(below, pages)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)
        .map_err(|error| Error::new(ErrorKind::Io, "man", error.to_string()).caused_by(error))?;
    pages.push((page.get_filename(), with_lines_kept(&text)));
    Ok(())
}

/// The text of a page, in which a formatter does not join the lines of examples and signatures.
/// These are the lines that start with two spaces. Formatting is switched off around these lines.
/// The lines are moved 2 columns to the left, so that they fit into 80 columns.
fn with_lines_kept(page: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(page.len());
    let mut is_text = true;
    for line in page.split_inclusive(|byte| *byte == b'\n') {
        let code = line.strip_prefix(b"  ");
        if code.is_none() != is_text {
            is_text = code.is_none();
            kept.extend_from_slice(if is_text { b".in +2n\n.fi\n" } else { b".nf\n.in -2n\n" });
        }
        kept.extend_from_slice(code.unwrap_or(line));
    }
    kept
}

/// Creates a folder and its missing parents. Returns the folders that did not exist, the topmost
/// one first.
fn create_folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|one| !one.as_os_str().is_empty() && fs::symlink_metadata(one).is_err())
        .collect();
    fs::create_dir_all(folder).map_err(|error| match error.kind() {
        Io::AlreadyExists | Io::NotADirectory => {
            let cause = "a file is at this path or at one of its parents; give the path of a \
                         folder";
            file_error::refused("man", folder, cause)
        }
        _ => file_error::io("man", folder, error),
    })?;
    Ok(missing.into_iter().rev().map(Path::to_owned).collect())
}

/// Writes all pages, or none.
fn write(pages: &[(String, Vec<u8>)], folder: &Path, existing: Existing) -> Result<()> {
    let target = |(name, _): &(String, _)| NewFile::new("man", &folder.join(name), existing, &[]);
    let targets: Vec<NewFile> = pages.iter().map(target).collect::<Result<_>>()?;
    let mut complete = Vec::new();
    for (target, (_, text)) in targets.iter().zip(pages) {
        complete.push(target.complete(|file| file.write_all(text))?);
    }
    complete.into_iter().try_for_each(Complete::name)
}
