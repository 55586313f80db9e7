//! The check of a request for an argument. A twin, a check or a cost function requests an argument
//! by its index and type. The request is compared with the arguments that the launch passes.
//!
//! A launch passes exactly the types that its kernel declares. The bytes of an argument can be read
//! as any type of the same size. Without this comparison, a request for another type would return a
//! wrong number.
#![forbid(unsafe_code)]

use super::arg_type::{ArgType, Length};
use super::args::ArgBlock;
use crate::base::ledger::Mode;
use bytemuck::Pod;
use std::any::type_name;
use std::fmt;

/// The form in which an argument is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedArgument {
    /// A value.
    Scalar,
    /// A span that is only read.
    Read,
    /// A span that is written.
    Write,
    /// A span that the tasks of a worker write.
    Shared,
}

impl AskedArgument {
    /// The name of the method that makes the request. It is a method of a tile or of a worker.
    fn verb(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Read => "read",
            Self::Write => "write",
            Self::Shared => "shared",
        }
    }
}

/// The parameter that the kernel declares for an argument.
enum DeclaredArgument {
    Scalar(ArgType),
    Span { of: ArgType, mode: Mode, form: SpanForm },
    Length { of: usize },
}

/// The form in which a kernel takes a span.
#[derive(PartialEq, Eq)]
enum SpanForm {
    PointerAndLength,
    Pointer,
    Tiled,
}

impl ArgBlock {
    /// The scalar at argument `index`. A pointer and its length are two arguments.
    ///
    /// ```
    /// use trijet::kernels::{Code, KernelSpec, Write, Shape};
    /// use trijet::{Device, Kernel, Select};
    /// static RAMP: Kernel<(Write<f32>, f32)> = {
    ///     let spec = KernelSpec::new("ramp", Code::ptx(""), Shape::Elements { per_thread: 1 });
    ///     // `y` is argument 0, its length argument 1, and the step argument 2.
    ///     let spec = spec.check(|args| match args.scalar::<f32>(2) {
    ///         step if step.is_finite() => Ok(()),
    ///         step => Err(format!("a step of {step}")),
    ///     });
    ///     // SAFETY: there is no code that could break a promise.
    ///     unsafe { Kernel::declare(spec) }
    /// };
    /// let s = Device::open(Select::Host(0))?.stream()?;
    /// let refused = s.launch(&RAMP, (&mut s.alloc(10)?, f32::NAN)).unwrap_err();
    /// assert!(refused.to_string().contains("a step of NaN"), "{refused}");
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Panics
    /// When argument `index` is no scalar of exactly the type `T`. The message lists the arguments.
    #[must_use]
    pub fn scalar<T: Pod>(&self, index: usize) -> T {
        self.try_scalar(index).unwrap_or_else(|why| panic!("{why}"))
    }

    /// The scalar at argument `index`, for the check of a kernel with
    /// [`Dynamic`](crate::kernels::Dynamic) parameters, whose arguments may have any types.
    ///
    /// # Errors
    /// A text that lists the arguments, when argument `index` is no scalar of exactly the type `T`.
    pub fn try_scalar<T: Pod>(&self, index: usize) -> Result<T, String> {
        self.compare::<T>(AskedArgument::Scalar, index)?;
        Ok(bytemuck::pod_read_unaligned(&self.bytes_at(index)[..size_of::<T>()]))
    }

    /// Checks that argument `index` has the form `asked` and the type `T`.
    ///
    /// # Errors
    /// A text that lists the arguments, if argument `index` has another form or another type.
    pub(in crate::device) fn compare<T: 'static>(
        &self,
        asked: AskedArgument,
        index: usize,
    ) -> Result<(), String> {
        let fits = match (asked, self.declared(index)) {
            (AskedArgument::Scalar, Some(DeclaredArgument::Scalar(of))) => of.is::<T>(),
            (AskedArgument::Scalar, Some(DeclaredArgument::Length { .. })) => {
                ArgType::of::<u64>().is::<T>()
            }
            (AskedArgument::Read, Some(DeclaredArgument::Span { of, mode, .. })) => {
                !mode.writes() && of.is::<T>()
            }
            (
                AskedArgument::Write | AskedArgument::Shared,
                Some(DeclaredArgument::Span { of, mode, .. }),
            ) => mode.writes() && of.is::<T>(),
            _ => false,
        };
        if fits { Ok(()) } else { Err(self.misfit(asked, index, type_name::<T>())) }
    }

    /// Checks that there are `count` arguments.
    ///
    /// # Errors
    /// A text that lists the arguments, if there are more or fewer.
    pub(in crate::device) fn compare_count(&self, count: usize) -> Result<(), String> {
        if self.count() == count {
            return Ok(());
        }
        Err(format!(
            "the twin takes {count} arguments, but the kernel has {}: {}",
            self.count(),
            self.listed()
        ))
    }

    /// The parameter that the kernel declares for argument `index`; `None` if there is no such
    /// argument.
    fn declared(&self, index: usize) -> Option<DeclaredArgument> {
        let of = *self.types().get(index)?;
        if of.is::<Length>() {
            return Some(DeclaredArgument::Length { of: index - 1 });
        }
        let Some(span) = self.spans().iter().find(|span| span.index == index) else {
            return Some(DeclaredArgument::Scalar(of));
        };
        let form = if self.tiled().iter().any(|arg| arg.index == index) {
            SpanForm::Tiled
        } else if self.types().get(index + 1).is_some_and(|next| next.is::<Length>()) {
            SpanForm::PointerAndLength
        } else {
            SpanForm::Pointer
        };
        Some(DeclaredArgument::Span { of, mode: span.mode, form })
    }

    #[cold]
    fn misfit(&self, asked: AskedArgument, index: usize, name: &str) -> String {
        let verb = asked.verb();
        let cause = match self.declared(index) {
            None => format!("there is no argument {index}"),
            Some(DeclaredArgument::Length { of }) => {
                format!("argument {index} is the length of argument {of}")
            }
            Some(declared) => {
                format!("argument {index} is {declared}, {}", declared.kind())
            }
        };
        format!("`{verb}::<{name}>({index})` does not fit the kernel: {cause}; {}", self.listed())
    }

    /// The list of all arguments, for messages.
    fn listed(&self) -> String {
        let mut listed = Vec::new();
        for (index, declared) in (0..).map_while(|index| Some((index, self.declared(index)?))) {
            match declared {
                DeclaredArgument::Length { .. } => {}
                DeclaredArgument::Span { form: SpanForm::PointerAndLength, .. } => {
                    listed.push(format!("{index}: {declared} (its length is {})", index + 1));
                }
                _ => listed.push(format!("{index}: {declared}")),
            }
        }
        if listed.is_empty() {
            return "the kernel has no arguments".to_owned();
        }
        format!("its arguments are {}", listed.join(", "))
    }
}

impl DeclaredArgument {
    /// The kind of the parameter in words, for messages.
    fn kind(&self) -> &'static str {
        match self {
            Self::Scalar(_) | Self::Length { .. } => "a scalar",
            Self::Span { mode, .. } if mode.writes() => "a written span",
            Self::Span { .. } => "a span that is only read",
        }
    }
}

/// The parameter as it stands in the declaration of a kernel.
impl fmt::Display for DeclaredArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, mode, form) = match self {
            Self::Scalar(of) => return f.write_str(of.name()),
            Self::Length { .. } => return f.write_str(type_name::<u64>()),
            Self::Span { of, mode, form } => (of.name(), mode, form),
        };
        let access = match mode {
            Mode::Read => "Read",
            Mode::Write => "Write",
            Mode::Update => "Update",
        };
        match form {
            SpanForm::PointerAndLength => write!(f, "{access}<{of}>"),
            SpanForm::Pointer => write!(f, "Ptr<{access}<{of}>>"),
            SpanForm::Tiled => write!(f, "Tiled<{access}<{of}>>"),
        }
    }
}
