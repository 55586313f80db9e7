//! The cases on CUDA: `cargo test --test gpu`. Without a GPU every one of them fails.

mod cases;
mod gpu_only;
mod litmus;
mod raw_driver;
mod suites;
mod transcripts;

use cases::{mix, words};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trijet::{Device, Result, Select};

/// Lets no other test use the GPU until the guard is dropped, because the cases compare counts of
/// the whole driver.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(case: fn(&Device) -> Result<()>) {
    let _alone = alone();
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

/// Cases of other projects' suites.
mod other_suites {
    use super::{alone, suites};
    use trijet::{Device, Select};

    macro_rules! tests {
        ($($file:ident::$name:ident)*) => {$(
            #[test]
            fn $name() {
                let _alone = alone();
                let open = || Device::open(Select::Cuda(0)).expect("a CUDA device");
                suites::check(open, suites::$file::$name);
            }
        )*};
    }
    suites::for_each_case!(tests);
}
