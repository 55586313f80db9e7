//! The operations of `trijet map` on the command line, in the order in which they are applied.
//!
//! `--op` and `--kernel` may be repeated. The operations are applied in the order of these options
//! on the command line. The options of a kernel belong to the last `--kernel` before them. With
//! only one kernel, its options may be anywhere. `--radius`, `--edges`, `--scale` and `--offset`
//! are for a single operation. Contradicting options are refused here, as wrong usage.
#![forbid(unsafe_code)]

use crate::values::{EdgesName, KernelArg, edges, finite, radius};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use trijet::kernels::median::{Edges, Window};
use trijet_io::shown;

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Median(Window),
    Affine { scale: f32, offset: f32 },
    Kernel(KernelStep),
}

impl Step {
    /// The file of a kernel; `None` for a built-in operation.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Median(_) | Self::Affine { .. } => None,
            Self::Kernel(kernel) => Some(&kernel.file),
        }
    }
}

/// A kernel of the user, with its options.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KernelStep {
    pub(crate) file: PathBuf,
    pub(crate) entry: String,
    pub(crate) args: Vec<KernelArg>,
    pub(crate) halo: Option<u64>,
}

/// The operations of a run in the order of the command line. A run has at least one operation.
#[derive(Debug, Clone)]
pub(crate) struct RunSteps(Vec<Step>);

impl RunSteps {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Step> {
        self.0.iter()
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
    op: Vec<Op>,
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
}

/// A built-in operation, as the user types it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Op {
    Median { radius: Option<u32>, edges: Option<Edges> },
    Affine(Option<(f32, f32)>),
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Median { .. } => "median",
            Self::Affine(_) => "affine",
        }
    }
}

fn op(text: &str) -> Result<Op, String> {
    let median = "median, median:RADIUS or median:RADIUS,EDGES";
    let affine = "affine, affine:SCALE or affine:SCALE,OFFSET";
    let (name, values) =
        text.split_once(':').map_or((text, None), |(name, values)| (name, Some(values)));
    let write = |form| move |cause| format!("{cause}; write {form}");
    match (name, values) {
        ("median", None) => Ok(Op::Median { radius: None, edges: None }),
        ("median", Some(values)) => {
            let (pixels, name) = values
                .split_once(',')
                .map_or((values, None), |(pixels, name)| (pixels, Some(name)));
            let both = radius(pixels).and_then(|radius| Ok((radius, name.map(edges).transpose()?)));
            both.map(|(radius, edges)| Op::Median { radius: Some(radius), edges })
                .map_err(write(median))
        }
        ("affine", None) => Ok(Op::Affine(None)),
        ("affine", Some(values)) => {
            let (scale, offset) = values.split_once(',').unwrap_or((values, "0"));
            let both = finite(scale).and_then(|scale| Ok((scale, finite(offset)?)));
            both.map(|both| Op::Affine(Some(both))).map_err(write(affine))
        }
        _ => Err(format!("unknown operation `{name}`; write {median}, {affine}")),
    }
}

/// Reads an operation. The help and the completions list the names.
#[derive(Clone)]
struct OpParser;

impl TypedValueParser for OpParser {
    type Value = Op;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Op, clap::Error> {
        StringValueParser::new().try_map(|text| op(&text)).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let median = "The median of the square of 2R+1 by 2R+1 pixels around each pixel, which \
                      removes salt-and-pepper noise; for u8 and u16. The square stays within the \
                      pixel's own image, and --edges sets the pixels beyond the edges: the \
                      default, nearest, does the same as SciPy's median_filter with \
                      mode='nearest'. median:3 has radius 3, and median:3,reflect has radius 3 and \
                      --edges reflect";
        let affine = "scale * x + offset: a product and a sum in f32, each rounded. For integers the \
                      result is rounded to the nearest integer, ties to even, and limited to the \
                      range of \
                      the type. affine:0.5,3 has scale 0.5 and offset 3";
        let values = [("median", median), ("affine", affine)];
        Some(Box::new(values.into_iter().map(|(name, help)| PossibleValue::new(name).help(help))))
    }
}

/// A kernel on the command line, with its position `at` and the options that belong to it.
struct Typed {
    at: usize,
    file: PathBuf,
    entry: Option<String>,
    args: Vec<KernelArg>,
    halo: Option<u64>,
}

impl Typed {
    fn step(self) -> Result<Step, String> {
        let Self { file, entry, args, halo, .. } = self;
        let Some(entry) = entry else {
            let file = shown(&file);
            return Err(format!("--kernel {file} requires --entry, the name of the kernel in it"));
        };
        let extension = file.extension().and_then(OsStr::to_str);
        if !extension.is_some_and(|extension| ["cu", "ptx", "cubin"].contains(&extension)) {
            let file = shown(&file);
            return Err(format!("--kernel {file}: unknown extension; use .cu, .ptx or .cubin"));
        }
        Ok(Step::Kernel(KernelStep { file, entry, args, halo }))
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
        let files = placed(matches, "kernel", std::mem::take(&mut self.kernel));
        self.check(&ops, ops.len() + files.len())?;
        let typed = |(at, file)| Typed { at, file, entry: None, args: Vec::new(), halo: None };
        let mut kernels: Vec<Typed> = files.into_iter().map(typed).collect();
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
        let mut steps: Vec<(usize, Step)> =
            ops.into_iter().map(|(at, op)| (at, self.step(op))).collect();
        for kernel in kernels {
            steps.push((kernel.at, kernel.step()?));
        }
        steps.sort_by_key(|step| step.0);
        Ok(steps.into_iter().map(|step| step.1).collect())
    }

    /// Returns an error for `--radius`, `--edges`, `--scale` or `--offset` in three cases. Either
    /// no operation uses the option, or there is more than one operation (`count`), or `--op`
    /// states the same value.
    fn check(&self, ops: &[(usize, Op)], count: usize) -> Result<(), String> {
        let given = [
            ("--radius", self.radius.is_some(), "median", "median:RADIUS"),
            ("--edges", self.edges.is_some(), "median", "median:RADIUS,EDGES"),
            ("--scale", self.scale.is_some(), "affine", "affine:SCALE,OFFSET"),
            ("--offset", self.offset.is_some(), "affine", "affine:SCALE,OFFSET"),
        ];
        for (option, _, name, form) in given.into_iter().filter(|given| given.1) {
            let Some((_, first)) = ops.iter().find(|(_, op)| op.name() == name) else {
                return Err(format!("{option} requires --op {name}"));
            };
            if count > 1 {
                return Err(format!(
                    "{option} is for a single operation; among several, write --op {form}"
                ));
            }
            let is_given = match first {
                Op::Median { edges, .. } if option == "--edges" => edges.is_some(),
                Op::Median { radius, .. } => radius.is_some(),
                Op::Affine(values) => values.is_some(),
            };
            if is_given {
                return Err(format!(
                    "{option} is given in addition to --op {name} with values; write --op {form} without it"
                ));
            }
        }
        Ok(())
    }

    fn step(&self, op: Op) -> Step {
        match op {
            Op::Median { radius, edges } => Step::Median(Window {
                radius: radius.or(self.radius).unwrap_or(1),
                edges: edges.or(self.edges.map(Edges::from)).unwrap_or_default(),
            }),
            Op::Affine(Some((scale, offset))) => Step::Affine { scale, offset },
            Op::Affine(None) => Step::Affine {
                scale: self.scale.unwrap_or(1.0),
                offset: self.offset.unwrap_or(0.0),
            },
        }
    }
}
