//! The error type of the crate. An error names the operation that failed, its device and the cause.
//! Its [`kind`](Error::kind) is for programs.
#![forbid(unsafe_code)]

use crate::base::id::{DeviceId, Position};
use std::borrow::Cow;
use std::fmt;

/// The result of every fallible call of the crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A library, a symbol or a capability of the device is missing.
    Unsupported,
    /// The requested device does not exist.
    NoDevice,
    /// An argument is out of range, or contradicts another argument.
    InvalidValue,
    /// Device memory or page-locked memory is exhausted.
    OutOfMemory,
    /// The source of a kernel does not compile or its image does not load.
    Compile,
    /// A module has no kernel with this name.
    NotFound,
    /// The device is a host device, and the kernel has no twin for it.
    NoTwin,
    /// A kernel faulted or could not run. The context is lost, so later calls fail too.
    Launch,
    /// The driver reported an error that makes the context unusable (law [A40](crate::laws#a40)).
    ContextLost,
    /// The stream is being captured into a graph, and a capture does not allow the call (law
    /// [A33](crate::laws#a33)).
    Capturing,
    /// A call that may reach the driver was made inside a host function (law
    /// [A28](crate::laws#a28)).
    InCallback,
    /// The process is a child that `fork` made after a driver was opened. No driver works in it.
    /// Open devices after the fork, or start another program with `exec`.
    Forked,
    /// Code of the program panicked: a host function, or a function of a twin.
    Panicked,
    /// No work can make progress, so the wait would never end.
    Stalled,
    /// The object was closed before the call.
    Closed,
    /// The program cancelled the work.
    Cancelled,
    /// The group of processes has ended, because one process ended, froze, came too late or made
    /// another call than the other processes. The error names the rank of that process.
    PeerLost,
    /// Reading or writing data outside the device failed.
    Io,
    /// The driver returned another error; [`Error::code`] has its number.
    Driver,
}

/// The reason why an operation failed.
pub struct Error(Box<ErrorInner>);

struct ErrorInner {
    kind: ErrorKind,
    op: Cow<'static, str>,
    cause: Cow<'static, str>,
    device: Option<DeviceId>,
    code: Option<i32>,
    culprit: Option<Position>,
    context: Vec<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A system error, of kind [`ErrorKind::Io`], for functions of the program that read and write.
///
/// ```
/// use trijet::{Error, ErrorKind};
/// let read = || -> trijet::Result<Vec<u8>> { Ok(std::fs::read("/no/such/file")?) };
/// let error: Error = read().unwrap_err().context("weights");
/// assert_eq!(error.kind(), ErrorKind::Io);
/// assert!(error.to_string().starts_with("weights: system: No such file"), "{error}");
/// ```
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, "system", error.to_string()).caused_by(error)
    }
}

impl Error {
    /// An error of `kind`: `op` failed because of `cause`.
    ///
    /// ```
    /// use trijet::{Error, ErrorKind};
    /// let e = Error::new(ErrorKind::InvalidValue, "copy", "4 elements into 3").context("chunk 7");
    /// assert_eq!(e.kind(), ErrorKind::InvalidValue);
    /// assert_eq!(e.to_string(), "chunk 7: copy: 4 elements into 3");
    /// ```
    #[must_use]
    pub fn new(
        kind: ErrorKind,
        op: impl Into<Cow<'static, str>>,
        cause: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self(Box::new(ErrorInner {
            kind,
            op: op.into(),
            cause: cause.into(),
            device: None,
            code: None,
            culprit: None,
            context: Vec::new(),
            source: None,
        }))
    }

    /// Adds what the program was doing when the operation failed. The last addition is printed
    /// first.
    #[must_use]
    pub fn context(mut self, doing: impl Into<String>) -> Self {
        self.0.context.push(doing.into());
        self
    }

    /// Names the device on which the operation failed.
    #[must_use]
    pub fn on(mut self, device: DeviceId) -> Self {
        self.0.device = Some(device);
        self
    }

    /// Adds the error number of the driver.
    #[must_use]
    pub fn with_code(mut self, code: i32) -> Self {
        self.0.code = Some(code);
        self
    }

    /// Adds the enqueued operation that failed, if it is known.
    #[doc(hidden)]
    pub fn with_culprit(mut self, culprit: Option<Position>) -> Self {
        self.0.culprit = culprit;
        self
    }

    /// Adds the error that caused this error.
    #[must_use]
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed, for example `copy`.
    #[must_use]
    pub fn op(&self) -> &str {
        &self.0.op
    }

    /// The device on which the operation failed, if there was one.
    #[must_use]
    pub fn device(&self) -> Option<DeviceId> {
        self.0.device
    }

    /// The error number (`CUresult`) that the driver returned, if it returned one.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// The enqueued operation whose failure lost the context. Only host devices know this
    /// operation, and only while the calls of the program are traced.
    #[must_use]
    pub fn culprit(&self) -> Option<Position> {
        self.0.culprit
    }

    /// Whether the context is lost. Then every later call on its device fails (law
    /// [A40](crate::laws#a40)).
    #[doc(hidden)]
    pub fn is_loss(&self) -> bool {
        matches!(self.kind(), ErrorKind::ContextLost | ErrorKind::Launch | ErrorKind::PeerLost)
    }

    /// Whether the error of a call that opens or lists GPUs means that the driver or the GPU is
    /// missing.
    #[doc(hidden)]
    pub fn is_missing_gpu(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unsupported | ErrorKind::NoDevice)
    }

    /// A copy of the error, for each thread that meets the same failure. In the copy, the text of
    /// the source error replaces the source error.
    ///
    /// ```
    /// use trijet::{Error, ErrorKind};
    /// let first = Error::new(ErrorKind::Io, "synchronize", "the disk is broken");
    /// assert_eq!(first.again().to_string(), first.to_string());
    /// ```
    #[must_use]
    pub fn again(&self) -> Self {
        let inner = &self.0;
        let mut copy = Self::new(inner.kind, inner.op.clone(), inner.cause.clone());
        copy.0.device = inner.device;
        copy.0.code = inner.code;
        copy.0.culprit = inner.culprit;
        copy.0.context.clone_from(&inner.context);
        if let Some(source) = &inner.source {
            copy.0.source = Some(source.to_string().into());
        }
        copy
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        for doing in inner.context.iter().rev() {
            write!(f, "{doing}: ")?;
        }
        write!(f, "{}: {}", inner.op, inner.cause)?;
        match (inner.device, inner.code) {
            (Some(device), Some(code)) => write!(f, " ({device}, driver code {code})"),
            (Some(device), None) => write!(f, " ({device})"),
            (None, Some(code)) => write!(f, " (driver code {code})"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}
