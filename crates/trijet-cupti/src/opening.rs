//! The start of a recording: the library of CUPTI, and the first blocks of a trace file.

use crate::api::CuptiApi;
use crate::file;
use crate::layout;
use crate::search;
use crate::system::Library;

/// The environment variables in which launchers give each process its rank: torchrun, Open MPI,
/// MVAPICH2, MPICH and related launchers, PMIx, Slurm. If several variables are set, the first one
/// counts, because the processes of torchrun may run inside one task of another launcher. The table
/// of launchers in `trijet` takes the variables from here.
pub const RANKS: [&str; 6] = [
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
];

/// Maximum number of bytes of the command line in the trace file.
const COMMAND_BYTES: usize = 512;

/// The command line of this process, cut off after [`COMMAND_BYTES`] bytes.
pub(crate) fn command() -> String {
    let arguments: Vec<_> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let line = arguments.join(" ");
    line.chars().take(COMMAND_BYTES / 4).collect()
}

/// The rank of this process, from the environment variables [`RANKS`].
fn rank() -> Option<u32> {
    let number = |name: &&str| std::env::var(name).ok()?.trim().parse().ok();
    RANKS.iter().find_map(number)
}

/// Opens CUPTI. If the environment does not name a CUPTI library, a CUPTI library that the program
/// has already loaded is preferred. PyTorch brings its own CUPTI, and two CUPTI libraries in one
/// process do not work together. The second value states whether the program had already loaded the
/// library.
fn open() -> Result<(Library, bool), String> {
    let names = search::CUPTI;
    if std::env::var_os(names.variable).is_none() {
        let loaded = names.files.iter().find_map(|name| Library::open(name.as_ref(), true).ok());
        if let Some(library) = loaded {
            return Ok((library, true));
        }
    }
    let mut first = None;
    for path in names.candidates() {
        match Library::open(&path, false) {
            Ok(library) => return Ok((library, false)),
            Err(reason) => first = first.or(Some(reason)),
        }
    }
    let first = first.unwrap_or_default();
    Err(format!(
        "CUPTI was not found: {first}; set {} to the path of the CUPTI library",
        names.variable
    ))
}

/// Opens CUPTI, and checks that the layout of its records is known. The second value states whether
/// the program had already loaded CUPTI.
pub(crate) fn usable() -> Result<(CuptiApi, bool), String> {
    let (library, own) = open()?;
    // SAFETY: the library stays open until the process ends.
    let api = unsafe { CuptiApi::load(|symbol| library.symbol(symbol)) };
    if let Some(symbol) = api.missing() {
        return Err(format!("the CUPTI library has no `{symbol}`; install a newer CUPTI library"));
    }
    let version = api.version_number();
    if !layout::VERSIONS.contains(&version) {
        let (first, last) = (layout::VERSIONS.start(), layout::VERSIONS.end());
        return Err(format!(
            "CUPTI has version {version}; the layout of its records is known for {first} to {last}"
        ));
    }
    Ok((api, own))
}

/// The first blocks of a trace file.
pub(crate) fn first_blocks(api: Option<CuptiApi>) -> Vec<u8> {
    let mut first = Vec::new();
    file::header(
        &mut first,
        std::process::id(),
        api.map_or(0, |api| api.version_number()),
        api.map_or(0, |api| api.now()),
    );
    file::command(&mut first, &command());
    if let Some(rank) = rank() {
        file::rank(&mut first, rank);
    }
    first
}
