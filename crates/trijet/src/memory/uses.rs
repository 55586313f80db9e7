//! Declarations of memory, for operations whose arguments the library does not see.
#![forbid(unsafe_code)]

use super::buffer::{Element, View, ViewMut};
use super::element_kind::ElementKind;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::device::memory::Span;
use crate::order::track::Use;
use smallvec::SmallVec;

/// The memory that an operation uses. Work of other libraries
/// ([`Stream::foreign`](crate::Stream::foreign)) and launches of graphs
/// ([`Stream::launch_graph`](crate::Stream::launch_graph)) need such a declaration.
///
/// The methods take buffers and views of any kind.
///
/// ```
/// use trijet::{Device, Select, Uses};
/// let device = Device::open(Select::Host(0))?;
/// let stream = device.stream()?;
/// let x = stream.alloc::<f32>(64)?;
/// let mut y = stream.alloc::<u8>(64)?;
/// let uses = Uses::new().read(&x).read(x.slice(0..0)).update(&mut y);
/// # drop(uses);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "`Uses` only declares memory; pass it to the call that enqueues the work"]
pub struct Uses<'a> {
    pub(crate) all: SmallVec<[UsedMemory<'a>; 8]>,
}

/// One piece of memory that an operation uses.
#[derive(Debug)]
pub(crate) struct UsedMemory<'a> {
    pub(crate) span: Span,
    pub(crate) access: Use<'a>,
    pub(crate) element: ElementKind,
}

impl<'a> Uses<'a> {
    /// Maximum number of pieces of memory per operation.
    pub const USES_MAX: usize = 64;

    /// A declaration without any memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds memory that the work reads.
    pub fn read<T: Element>(mut self, memory: impl Into<View<'a, T>>) -> Self {
        let view = memory.into();
        let (span, access) = (view.span(), view.read_use());
        self.all.push(UsedMemory { span, access, element: ElementKind::of::<T>() });
        self
    }

    /// Adds memory that the work overwrites completely.
    pub fn write<T: Element>(self, memory: impl Into<ViewMut<'a, T>>) -> Self {
        self.written(&memory.into(), Mode::Write)
    }

    /// Adds memory that the work reads and writes, or that it overwrites in part.
    pub fn update<T: Element>(self, memory: impl Into<ViewMut<'a, T>>) -> Self {
        self.written(&memory.into(), Mode::Update)
    }

    fn written<T: Element>(mut self, view: &ViewMut<'a, T>, mode: Mode) -> Self {
        let (span, access) = (view.span(), view.write_use(mode));
        self.all.push(UsedMemory { span, access, element: ElementKind::of::<T>() });
        self
    }

    /// Returns an error if more than [`Uses::USES_MAX`] pieces of memory are declared.
    pub(crate) fn demand_few(&self, operation: &'static str) -> Result<()> {
        let (declared, most) = (self.all.len(), Self::USES_MAX);
        if declared <= most {
            return Ok(());
        }
        let cause = format!(
            "{declared} pieces of memory are declared; an operation can use at most {most}"
        );
        Err(Error::new(ErrorKind::InvalidValue, operation, cause))
    }
}
