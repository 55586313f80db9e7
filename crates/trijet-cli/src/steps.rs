//! The operations of `trijet map` on the command line, in the order in which they are applied.
//!
//! `--op`, `--to` and `--kernel` may be repeated. The operations are applied in the order of these
//! options on the command line. The options of a kernel belong to the last `--kernel` before them.
//! With only one kernel, its options may be anywhere. `--radius`, `--edges`, `--scale` and
//! `--offset` are for a single operation. Contradicting options are refused here, as wrong usage.
#![forbid(unsafe_code)]

use crate::args::dtype_of;
use crate::values::{EdgesName, finite, radius};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::ffi::OsStr;
use std::path::PathBuf;
use trijet::kernels::median::Edges;
use trijet_io::{Dtype, shown};
use trijet_map::{KernelArg, KernelFile, RowRatio, Step};
use trijet_ops::{OPERATIONS, OperationText};

/// The operations of a run in the order of the command line. A run has at least one operation.
#[derive(Debug, Clone)]
pub(crate) struct RunSteps(Vec<Step>);

impl RunSteps {
    pub(crate) fn all(&self) -> &[Step] {
        &self.0
    }
}

impl FromArgMatches for RunSteps {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let options = StepOptions::from_arg_matches(matches)?;
        let steps = options.steps(matches);
        steps.map(Self).map_err(|cause| clap::Error::raw(ErrorKind::ArgumentConflict, cause))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RunSteps {
    fn augment_args(command: Command) -> Command {
        StepOptions::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        StepOptions::augment_args_for_update(command)
    }
}

/// The options of operations, as the user types them.
#[derive(Debug, Args)]
#[group(skip)]
struct StepOptions {
    /// An operation to apply; may be repeated, and combined with --kernel. Each operation takes the
    /// result of the previous one, in the order of the command line, in one pass over the file. The
    /// output is the same as with a separate run for each operation.
    #[arg(long, value_parser = OpParser, group = "operation")]
    op: Vec<OpText>,
    /// Convert the elements to this type; the same as --op convert:TYPE.
    #[arg(long, value_name = "TYPE", value_parser = dtype_of(&Dtype::ALL), group = "operation")]
    to: Vec<Dtype>,
    /// The radius of a single median, 1 to 7 [default: 1].
    #[arg(long, value_parser = radius)]
    radius: Option<u32>,
    /// The pixels that a single median assumes beyond the edges of an image. In the list, abcd is a
    /// row of the image [default: nearest].
    #[arg(long, value_enum, value_name = "MODE")]
    edges: Option<EdgesName>,
    /// The factor of a single affine [default: 1].
    #[arg(long, allow_negative_numbers = true, value_parser = finite)]
    scale: Option<f32>,
    /// The summand of a single affine [default: 0].
    #[arg(long, allow_negative_numbers = true, value_parser = finite)]
    offset: Option<f32>,
    /// The file of your own kernel: CUDA C++ (.cu), PTX (.ptx) or a cubin (.cubin). May be
    /// repeated, and combined with --op.
    #[arg(long, value_name = "FILE", group = "operation")]
    kernel: Vec<PathBuf>,
    /// The name of your kernel in that file. With several kernels, this option and the next two
    /// belong to the --kernel before them.
    #[arg(long)]
    entry: Vec<String>,
    /// A further argument of your kernel; may be repeated. 2.5 is a float, 3 an int, and 3u64 has
    /// the type that it names.
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    args: Vec<KernelArg>,
    /// The number of rows that your kernel reads before and after the rows that it writes.
    #[arg(long)]
    halo: Vec<u64>,
    /// The element type that your kernel writes [default: the type of its input].
    #[arg(long, value_name = "TYPE", value_parser = dtype_of(&Dtype::ALL))]
    out_dtype: Vec<Dtype>,
    /// The number of rows that your kernel writes for a number of rows of its input, within each
    /// image: 1/2 writes one row for two rows [default: 1/1].
    #[arg(long, value_name = "OUT/IN")]
    out_rows: Vec<RowRatio>,
}

/// A built-in operation, and its text as the user typed it.
#[derive(Debug, Clone)]
struct OpText {
    text: OperationText,
    typed: String,
}

/// Reads an operation. The help and the completions list the names.
#[derive(Clone)]
struct OpParser;

impl TypedValueParser for OpParser {
    type Value = OpText;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<OpText, clap::Error> {
        let read = |typed: String| {
            OperationText::parse(&typed).map(|text| OpText { text, typed }).map_err(words)
        };
        StringValueParser::new().try_map(read).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |one: &'static trijet_ops::Named| {
            PossibleValue::new(one.name).help(format!("{}. {}", one.form(), one.help))
        };
        Some(Box::new(OPERATIONS.iter().map(value)))
    }
}

/// The message of an error about the text of an operation.
fn words(error: trijet::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("operation: ").map_or_else(|| text.clone(), str::to_owned)
}

/// A kernel on the command line, with its position `at` and the options that belong to it.
struct Typed {
    at: usize,
    file: PathBuf,
    entry: Option<String>,
    args: Vec<KernelArg>,
    halo: Option<u64>,
    out_dtype: Option<Dtype>,
    out_rows: Option<RowRatio>,
}

impl Typed {
    fn new(at: usize, file: PathBuf) -> Self {
        let (entry, args, halo, out_dtype, out_rows) = (None, Vec::new(), None, None, None);
        Self { at, file, entry, args, halo, out_dtype, out_rows }
    }

    fn step(self) -> Result<Step, String> {
        let Self { file, entry, args, halo, out_dtype, out_rows, .. } = self;
        let Some(entry) = entry else {
            let file = shown(&file);
            return Err(format!("--kernel {file} requires --entry, the name of the kernel in it"));
        };
        let extension = file.extension().and_then(OsStr::to_str);
        if !extension.is_some_and(|extension| ["cu", "ptx", "cubin"].contains(&extension)) {
            let file = shown(&file);
            return Err(format!("--kernel {file}: unknown extension; use .cu, .ptx or .cubin"));
        }
        Ok(Step::Kernel(KernelFile { file, source: None, entry, args, halo, out_dtype, out_rows }))
    }
}

/// The kernel that the option at position `at` of the command line belongs to. With several
/// kernels, it is the last kernel before the option.
fn owner<'k>(kernels: &'k mut [Typed], at: usize, option: &str) -> Result<&'k mut Typed, String> {
    let before = kernels.partition_point(|kernel| kernel.at < at);
    match (kernels.len(), before) {
        (0, _) => Err(format!("{option} requires --kernel")),
        (1, _) => Ok(&mut kernels[0]),
        (_, 0) => Err(format!(
            "{option} is before the first of several --kernel; write it after the --kernel that it \
             belongs to"
        )),
        _ => Ok(&mut kernels[before - 1]),
    }
}

fn once<T>(option: &str, held: &mut Option<T>, value: T, kernel: &str) -> Result<(), String> {
    match held.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{option} is given twice for --kernel {kernel}")),
    }
}

/// The values of an option, each with its position on the command line.
fn placed<T>(matches: &ArgMatches, id: &str, values: Vec<T>) -> Vec<(usize, T)> {
    matches.indices_of(id).into_iter().flatten().zip(values).collect()
}

impl StepOptions {
    /// The operations, sorted by their positions on the command line.
    fn steps(mut self, matches: &ArgMatches) -> Result<Vec<Step>, String> {
        let ops = placed(matches, "op", std::mem::take(&mut self.op));
        let conversions = placed(matches, "to", std::mem::take(&mut self.to));
        let files = placed(matches, "kernel", std::mem::take(&mut self.kernel));
        self.check(&ops, ops.len() + conversions.len() + files.len())?;
        let mut kernels: Vec<Typed> =
            files.into_iter().map(|(at, file)| Typed::new(at, file)).collect();
        for (at, entry) in placed(matches, "entry", std::mem::take(&mut self.entry)) {
            let kernel = owner(&mut kernels, at, "--entry")?;
            once("--entry", &mut kernel.entry, entry, &shown(&kernel.file).to_string())?;
        }
        for (at, arg) in placed(matches, "args", std::mem::take(&mut self.args)) {
            owner(&mut kernels, at, "--arg")?.args.push(arg);
        }
        for (at, halo) in placed(matches, "halo", std::mem::take(&mut self.halo)) {
            let kernel = owner(&mut kernels, at, "--halo")?;
            once("--halo", &mut kernel.halo, halo, &shown(&kernel.file).to_string())?;
        }
        for (at, dtype) in placed(matches, "out_dtype", std::mem::take(&mut self.out_dtype)) {
            let kernel = owner(&mut kernels, at, "--out-dtype")?;
            once("--out-dtype", &mut kernel.out_dtype, dtype, &shown(&kernel.file).to_string())?;
        }
        for (at, rows) in placed(matches, "out_rows", std::mem::take(&mut self.out_rows)) {
            let kernel = owner(&mut kernels, at, "--out-rows")?;
            once("--out-rows", &mut kernel.out_rows, rows, &shown(&kernel.file).to_string())?;
        }
        let mut steps: Vec<(usize, Step)> = Vec::new();
        for (at, op) in ops {
            steps.push((at, Step::Named(self.with_values(op)?)));
        }
        for (at, dtype) in conversions {
            let text = OperationText::parse(&format!("convert:{dtype}")).map_err(words)?;
            steps.push((at, Step::Named(text)));
        }
        for kernel in kernels {
            steps.push((kernel.at, kernel.step()?));
        }
        steps.sort_by_key(|step| step.0);
        Ok(steps.into_iter().map(|step| step.1).collect())
    }

    /// Returns an error for `--radius`, `--edges`, `--scale` or `--offset` in three cases. Either
    /// no operation uses the option, or there is more than one operation (`count`), or `--op` has
    /// values of its own.
    fn check(&self, ops: &[(usize, OpText)], count: usize) -> Result<(), String> {
        let given = [
            ("radius", self.radius.is_some(), "median", "median:RADIUS"),
            ("edges", self.edges.is_some(), "median", "median:RADIUS,EDGES"),
            ("scale", self.scale.is_some(), "affine", "affine:SCALE,OFFSET"),
            ("offset", self.offset.is_some(), "affine", "affine:SCALE,OFFSET"),
        ];
        for (option, _, name, form) in given.into_iter().filter(|given| given.1) {
            let Some((_, first)) = ops.iter().find(|(_, op)| op.text.name() == name) else {
                return Err(format!("--{option} requires --op {name}"));
            };
            if count > 1 {
                return Err(format!(
                    "--{option} is for a single operation; among several, write --op {form}"
                ));
            }
            // A scale alone would be the scale of another affine map than the offset.
            let is_given = first.text.has(option) || name == "affine" && first.typed.contains(':');
            if is_given {
                return Err(format!(
                    "--{option} is given in addition to --op {name} with values; write --op {form} without it"
                ));
            }
        }
        Ok(())
    }

    /// An operation with the values of `--radius`, `--edges`, `--scale` and `--offset`.
    fn with_values(&self, op: OpText) -> Result<OperationText, String> {
        let edges = self.edges.map(|name| Edges::from(name).to_string());
        let values = match op.text.name() {
            "median" => [("radius", self.radius.map(|one| one.to_string())), ("edges", edges)],
            "affine" => [
                ("scale", self.scale.map(|one| one.to_string())),
                ("offset", self.offset.map(|one| one.to_string())),
            ],
            _ => return Ok(op.text),
        };
        let mut typed = op.typed;
        for (name, value) in values {
            let Some(value) = value else { continue };
            let separator = if typed.contains(':') { ',' } else { ':' };
            typed.push_str(&format!("{separator}{name}={value}"));
        }
        OperationText::parse(&typed).map_err(words)
    }
}
