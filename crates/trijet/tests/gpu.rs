//! The cases on CUDA: `cargo test --test gpu`. Without a GPU every one of them fails.

mod cases;
mod collectives;
mod comm;
mod gpu_only;
mod litmus;
mod peers;
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

/// 10^8 allocations in 16 threads and 32 streams. It takes minutes: `--ignored a_soak`.
#[test]
#[ignore = "it takes minutes"]
fn a_soak_of_many_allocations_shares_no_live_bytes_and_leaks_nothing() {
    let _alone = alone();
    let device = Device::open(Select::Cuda(0)).expect("a CUDA device");
    let size = cases::churn::Churn { threads: 16, streams: 2, allocations: 6_250_000 };
    let begin = std::time::Instant::now();
    cases::churn::churn(&device, size).expect("it succeeds");
    println!("{size:?}: {:?}, {:?}", begin.elapsed(), device.heap_stats());
}

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
