//! The code of a kernel, as its author has it.
#![forbid(unsafe_code)]

use std::borrow::Cow;

/// The code of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// PTX, compiled by the driver.
    Ptx(Cow<'static, str>),
    /// A cubin or fatbin. Its headers are checked, and its code is not: the driver decides whether it
    /// fits the device.
    Cubin(Cow<'static, [u8]>),
    /// CUDA C++, compiled by the run-time compiler (NVRTC), which must be installed.
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

/// The entries of a PTX text, in their order.
pub(crate) fn entries(ptx: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_$%".contains(c);
    ptx.split(".entry").skip(1).filter_map(move |rest| {
        let name = rest.trim_start();
        let end = name.find(|c| !is_name(c)).unwrap_or(name.len());
        (rest.len() > name.len() && end > 0).then_some(&name[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_of_a_text_are_found_by_name() {
        let ptx = ".visible .entry gain(\n.param .u64 x) { ret; }\n.entry  _Z1a$b%() {}\n.entry";
        assert_eq!(entries(ptx).collect::<Vec<_>>(), ["gain", "_Z1a$b%"]);
        assert_eq!(entries(".func f() {}").count(), 0);
    }
}
