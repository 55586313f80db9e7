//! The code of a kernel: PTX, a binary, or CUDA C++.
#![forbid(unsafe_code)]

use std::borrow::Cow;

/// The code of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// PTX, compiled by the driver.
    Ptx(Cow<'static, str>),
    /// A cubin or fatbin. This library checks its headers. Only the driver checks whether its code
    /// fits the device.
    Cubin(Cow<'static, [u8]>),
    /// CUDA C++, compiled by the run-time compiler (NVRTC), which must be installed. A kernel is
    /// compiled when it is first loaded, once for all devices of one compute capability.
    Source(Cow<'static, str>),
}

impl Code {
    /// PTX in the text of the program.
    #[must_use]
    pub const fn ptx(text: &'static str) -> Self {
        Self::Ptx(Cow::Borrowed(text))
    }

    /// CUDA C++ in the text of the program.
    #[must_use]
    pub const fn source(text: &'static str) -> Self {
        Self::Source(Cow::Borrowed(text))
    }
}
