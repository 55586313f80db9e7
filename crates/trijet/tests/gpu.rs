//! The cases on CUDA: `cargo test --test gpu`. Without a GPU every one of them fails.

mod cases;
mod gpu_only;

use std::sync::{Mutex, PoisonError};
use trijet::{Device, Result, Select};

/// One after the other: the counts that the cases compare are those of the whole driver.
fn check(case: fn(&Device) -> Result<()>) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    cases::check(Device::open(Select::Cuda(0)).expect("a CUDA device"), case);
}

macro_rules! tests {
    ($($file:ident::$name:ident)*) => {$(
        #[test]
        fn $name() {
            check(cases::$file::$name);
        }
    )*};
}
cases::for_each_case!(tests);
