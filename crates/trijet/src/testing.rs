//! Parts for tests of the library and of programs that use it: conformance of a device,
//! demonstration kernels, dropped waits, counters, and a generator of numbers.
#![forbid(unsafe_code)]

pub use crate::base::prng::Prng;
pub use crate::device::conform::{Subject, transcript};
pub use crate::device::driver::CaptureMode;
pub use crate::kernels::mix::MIX;
pub use crate::kernels::tag::{HAS_TAG, TAG};
pub use crate::kernels::work::WORK;
pub use crate::stream::foreign::{Capture, Captured};
pub use crate::stream::{DroppedWait, OrderingCounts};
