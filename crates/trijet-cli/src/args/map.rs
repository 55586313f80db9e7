//! The options of `trijet map`.
#![forbid(unsafe_code)]

use super::shared::{dtype_of, existing, timeline_file};
use crate::against::{Condition, PlanMetric};
use crate::ranks::ShardChoice;
use crate::steps::RunSteps;
use crate::values::{MapDevice, MapReport, Shape, Slice, bytes, header, memory, shape, slice};
use clap::builder::RangedU64ValueParser;
use clap::{ArgGroup, Args, ValueEnum};
use std::path::{Path, PathBuf};
use trijet::Bytes;
use trijet_io::{Dtype, Existing, Target, is_plain, shown};
use trijet_tools::command::device::{LiveCheck, ONE_OR_ALL, proposing};

/// A kernel that `trijet map --kernel-template` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KernelTemplate {
    /// A kernel that computes each element from one element of the input.
    Element,
    /// A kernel that computes each element from its row and the rows around it.
    Halo,
}

/// The axis along which `trijet map` reads a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Axis {
    /// The images in their order.
    #[default]
    #[value(name = "0")]
    First,
    /// The first two axes exchanged: sinograms of a stack of projections.
    #[value(name = "1")]
    Second,
}

/// The byte order of a raw input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Endian {
    Little,
    Big,
}

/// The text at the end of `trijet map --help`.
const MAP_HELP: &str = "\
Examples:
  trijet map stack.npy -o clean.npy --op median --radius 3
  trijet map scans/ -o scans-clean --op median
  trijet map in.raw -o out.raw --shape 4096x4096 --dtype u16 --op affine:2
  trijet map stack.npy -o small.zarr --to f32 --op gaussian:1.5 --op bin:2
  trijet map stack.npy -o flat.tif --op flatfield:dark.npy,bright.npy
  trijet map stack.npy -o maximum.tif --axis 1 --op project:max
  trijet map stack.npy -o try.npy --op median --radius 5 --slice 1:3
  trijet map in.npy -o out.npy --kernel gain.cu --entry gain --arg factor=2
  trijet map scans/ -o out --op median --kernel blur.cu --entry blur --halo 1

The signature of your kernel:

  extern \"C\" __global__ void NAME(
      const T* x, unsigned long long x_len,  // the input, only read
      U* y, unsigned long long y_len,        // the output, all written
      unsigned long long row_len,      // with --halo: elements of a row
      unsigned long long rows_before,  // with --halo: rows of x before y
      ...)                             // each --arg, in order: float, int

T is TRIJET_T, which is defined before the first line of your file: unsigned char for u8, signed \
char for i8, unsigned short for u16, short for i16, unsigned int for u32, int for i32, unsigned \
long long for u64, long long for i64, float for f32, double for f64, float2 for c64 and double2 for \
c128. For f16 and bf16, it is a type that is float in expressions. U is TRIJET_U, the type of --out-dtype, or T. There are \
no headers. The kernel \
computes y[i] for every i < y_len, with one thread per element, in blocks of 256 threads. With \
--halo R, x begins rows_before rows before the first row of y. rows_before is R, but less near the \
start of the array, and more if the rows of a chunk are whole images of a folder. With --out-rows \
A/B, the kernel writes A rows for each B rows of an image, and has row_len and rows_before too.

`trijet map --kernel-template` prints such a kernel, ready to compile, and `--kernel-template \
halo` prints a kernel with a halo. Your own kernel runs only on a GPU. Without a GPU, the kernel \
is still compiled if the run-time compiler is installed, and the exit status is 3. `trijet \
devices` shows the GPU and the run-time compiler.";

/// The usage line of `trijet map`, which fits into one line of a terminal.
const USAGE: &str = "trijet map <INPUT> -o <OUTPUT> (--op <OP> | --kernel <FILE>)... [OPTIONS]";

/// Whether a path means the standard input or the standard output.
pub(crate) fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// The options of `trijet map`.
#[derive(Debug, Args)]
#[command(after_long_help = MAP_HELP, override_usage = USAGE, group(ArgGroup::new("operation").required(true).multiple(true)))]
pub(crate) struct MapOptions {
    /// The input: a file of NumPy (.npy, .npz), TIFF, HDF5 (.h5, .nxs), MRC (.mrc) or NIfTI (.nii,
    /// .nii.gz), a Zarr array, a raw file (.raw, .bin or .dat), - for an .npy or raw file on
    /// standard input, or a folder of PNG images, or of TIFF files with one page each, of one size.
    /// A path inside a file or a Zarr group follows two colons: scan.h5::/entry/data. The images of
    /// a folder are in the natural order of their names (im1, im2, im10); hidden files are skipped.
    pub(crate) input: PathBuf,
    /// The output: a file named .npy, .tif, .h5 or .mrc; a Zarr array (.zarr); a folder of PNG
    /// images (a name without extension, or any name with a slash at the end); plain bytes without
    /// a header (.raw, .bin or .dat); or - for an .npy file on standard output, with --raw plain
    /// bytes. The report then goes to standard error.
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) steps: RunSteps,
    /// Print a kernel to start from, and do nothing else.
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        num_args = 0..=1,
        default_missing_value = "element",
        exclusive = true,
        group = "operation"
    )]
    pub(crate) kernel_template: Option<KernelTemplate>,
    /// The shape of a raw input, slowest dimension first: 100x512x512.
    #[arg(long, value_parser = shape, requires = "dtype")]
    pub(crate) shape: Option<Shape>,
    /// The element type of a raw input.
    #[arg(long, value_parser = dtype_of(&Dtype::ALL), requires = "shape")]
    pub(crate) dtype: Option<Dtype>,
    /// The byte order of a raw input: little for the lowest byte first, big for the highest byte
    /// first. Outputs are always little-endian.
    #[arg(long, value_enum, value_name = "ORDER", requires = "shape")]
    pub(crate) endian: Option<Endian>,
    /// The bytes of a raw input to skip before the data. The rest must have exactly the size of
    /// --shape and --dtype.
    #[arg(long, value_name = "BYTES", value_parser = header, requires = "shape")]
    pub(crate) header: Option<Bytes>,
    /// The axis whose slices are the images of the operations. 1 exchanges the first two axes, so
    /// that a stack of projections becomes a stack of sinograms, in the output too.
    #[arg(long, value_enum, default_value = "0", hide_possible_values = true)]
    pub(crate) axis: Axis,
    /// Process only these images of a stack, or rows of an image: indices of the first axis of the
    /// input, counted from 0, without the last one. 10: has no end, and :20 has no start. Rows
    /// outside of the slice are still read where the operation needs them, so the result equals
    /// that part of the whole result.
    #[arg(long, value_name = "A:B", value_parser = slice)]
    pub(crate) slice: Option<Slice>,
    /// Treat files with other extensions, such as .vol or .mha, as plain bytes. With --shape and
    /// --dtype, an input is then read as plain bytes, whatever its name and its first bytes are.
    /// Without this option, such files are refused. The option does not affect an output that is
    /// named .npy or .tif, or has no extension.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Skip damaged images of a folder. The report names them, and the exit status is 4. An output
    /// folder has no file for them, another output has zeros. When they are repaired, --resume adds
    /// them. Without this option, the run ends at a damaged image.
    #[arg(long, conflicts_with_all = ["shard", "shape"])]
    pub(crate) skip_bad: bool,
    /// The device: auto, cuda:N or host; or all, for all GPUs of this host at once.
    #[arg(long, default_value = "auto", hide_possible_values = true, value_parser = proposing::<MapDevice>(ONE_OR_ALL))]
    pub(crate) device: MapDevice,
    /// Write only the rows of shard I of N (0/4 to 3/4). The last process that finishes its shard
    /// gives the output its name. Each process can be started again with --resume. With auto, the
    /// variables of a launcher, or of an array of Slurm or SGE, set the part; 0/1 is the whole job
    /// [default: as set by torchrun, MPI or srun, if this process was started by it; a task of an
    /// array does the whole job].
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<ShardChoice>,
    /// Share the job with any number of processes, on any machines that see the same folder. Start
    /// this command as often as you like, at any time: each process takes rows as they are free,
    /// and the last one gives the output its name. A process that ends, is killed or is cut off
    /// costs only its own rows, which the others take over. A job that is finished succeeds at
    /// once.
    #[arg(long, conflicts_with_all = ["shard", "restart", "overwrite", "skip_bad", "no_sync", "trace", "unverified"])]
    pub(crate) claim: bool,
    /// With --claim, the seconds without a sign of life after which the rows of a process are taken
    /// over. Each process writes a sign of life six times in this time.
    #[arg(long, value_name = "SECONDS", default_value = "30", requires = "claim", value_parser = RangedU64ValueParser::<u64>::new().range(1..=86_400))]
    pub(crate) lease: u64,
    /// Keep the partial output and the state of the job in this folder, instead of beside the
    /// output. It must be on the file system of the output. For engines that start a job again in
    /// another folder, such as Nextflow. Outputs with one file name need a folder each.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// The size of a chunk, for example 16MiB [default: tuned].
    #[arg(long, value_parser = bytes)]
    pub(crate) chunk: Option<Bytes>,
    /// The number of chunks in flight.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) depth: Option<usize>,
    /// Maximum host memory that the run may use, for example 16GiB [default: what is available].
    /// Chunks are made smaller until they fit.
    #[arg(long, value_parser = memory)]
    pub(crate) memory: Option<Bytes>,
    /// Print what the job reads and writes, the memory that it needs, and the minimum time of its
    /// copies on a modelled H200. Nothing is created, and no GPU is needed.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Compare the plan with an earlier one, as `--plan --json` printed it.
    #[arg(long, value_name = "FILE", requires = "plan")]
    pub(crate) against: Option<PathBuf>,
    /// Fail if this holds, for example "device > +10 %". May be repeated.
    #[arg(long, value_name = "CONDITION", requires = "against", value_parser = Condition::<PlanMetric>::parse)]
    pub(crate) fail_if: Vec<Condition<PlanMetric>>,
    /// Save a timeline of the run, with the hazards that --check finds. The extension chooses the
    /// format: .html is a page for a browser, .pftrace is for Perfetto, .json for tools that read
    /// PyTorch's traces, .ledger for `trijet check`.
    #[arg(long, value_name = "FILE", value_parser = timeline_file())]
    pub(crate) trace: Option<PathBuf>,
    /// The report: none, a few lines, or every figure.
    #[arg(long, value_enum, default_value = "short")]
    pub(crate) report: MapReport,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) check: LiveCheck,
    /// Continue an interrupted run of the same job. The output is the same, byte for byte. Rows
    /// that differ from what the run has written, such as after a loss of power, are computed
    /// again. If the complete output of this job exists already, the command succeeds at once. The
    /// input must be the same: the name, size, times of modification and of change (ctime) and
    /// inode of each file on which finished rows depend.
    #[arg(long)]
    pub(crate) resume: bool,
    /// With --resume, accept a file of the input as unchanged if only its time of change (ctime)
    /// differs. A new permission, name or hard link changes that time, and so do new bytes, even if
    /// the time of modification was restored.
    #[arg(long, requires = "resume")]
    pub(crate) same_input: bool,
    /// With --resume, trust the rows that are known to have reached the disk, without reading them.
    #[arg(long, requires = "resume")]
    pub(crate) unverified: bool,
    /// Discard what an interrupted run of the same job has written, and start over. Without this
    /// option or --resume, such a run is kept, and the command fails.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) restart: bool,
    /// Write over the output if it exists. This reuses the pages of the output, which is faster
    /// than a new file. The old output is lost when the first row is written. If the run is then
    /// interrupted, it leaves a partial output like any other run. A file of --trace is replaced
    /// when the new file is complete. Without this option, files that exist are kept, and the
    /// command fails. The input and the files of kernels are always kept.
    #[arg(long, conflicts_with = "shard")]
    pub(crate) overwrite: bool,
    /// Do not wait for the disk. Without this option, rows are brought to the disk while the run
    /// goes on, and the output and its name are on the disk when the command ends with success.
    /// With it, a loss of power may take bytes of a complete output, or all rows of an incomplete
    /// run. In both cases, nothing is lost if the process dies.
    #[arg(long)]
    pub(crate) no_sync: bool,
}

impl MapOptions {
    /// Returns an error text if an option requests output that `--report none` leaves out.
    pub(super) fn wrong_report(&self) -> Option<String> {
        let asks = [(self.plan, "--plan"), (self.json, "--json")];
        let (_, option) = asks.into_iter().find(|(is_given, _)| *is_given)?;
        (self.report == MapReport::None).then(|| {
            format!("--report none prints nothing, and {option} asks for output; leave out one of the two")
        })
    }

    /// Returns an error text if an option does not fit the standard input or the standard output.
    pub(super) fn wrong_stream(&self) -> Option<String> {
        let refused = |options: &[(bool, &str)], stream: &str| {
            let (_, option) = options.iter().find(|(is_given, _)| *is_given)?;
            Some(format!("{option} cannot be used with {stream}; use the name of a file"))
        };
        let reads = is_stream(&self.input).then(|| {
            let options = [
                (self.resume, "--resume"),
                (self.shard.is_some(), "--shard"),
                (self.claim, "--claim"),
                (self.state.is_some(), "--state"),
                (self.slice.is_some(), "--slice"),
                (self.skip_bad, "--skip-bad"),
            ];
            refused(&options, "standard input")
        });
        let writes = is_stream(&self.output).then(|| {
            let options = [
                (self.resume, "--resume"),
                (self.restart, "--restart"),
                (self.overwrite, "--overwrite"),
                (self.shard.is_some(), "--shard"),
                (self.claim, "--claim"),
                (self.state.is_some(), "--state"),
                (self.slice.is_some(), "--slice"),
                (self.skip_bad, "--skip-bad"),
                (self.plan, "--plan"),
                (self.json, "--json"),
                (self.trace.is_some(), "--trace"),
            ];
            refused(&options, "standard output")
        });
        reads.flatten().or(writes.flatten())
    }

    /// Returns an error text if the name of the output is wrong, or if the name of the input
    /// requires other options.
    pub(super) fn wrong_name(&self) -> Option<String> {
        if self.shape.is_none() && is_plain(&self.input) && !self.input.is_dir() {
            let input = shown(&self.input);
            return Some(format!("{input}: a file of plain bytes needs --shape and --dtype"));
        }
        if self.raw || is_stream(&self.output) {
            return None;
        }
        Target::check_name(&self.output).err().map(|error| error.to_string())
    }

    /// Returns whether an existing timeline file is kept or replaced.
    pub(crate) fn existing(&self) -> Existing {
        existing(self.overwrite)
    }
}
