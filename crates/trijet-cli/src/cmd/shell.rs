//! `trijet map --kernel-template`: a kernel to begin with.
#![forbid(unsafe_code)]

use super::print;
use crate::args::KernelTemplate;
use trijet::Result;

/// Prints a kernel to begin with.
pub(crate) fn kernel_template(template: KernelTemplate) -> Result<()> {
    let text = match template {
        KernelTemplate::Element => include_str!("template/element.cu"),
        KernelTemplate::Halo => include_str!("template/halo.cu"),
    };
    print(text.trim_end())
}
