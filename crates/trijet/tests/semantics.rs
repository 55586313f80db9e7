//! The cases on every executor of the host device.

mod cases;

use trijet::{CostModel, Device, Executor, HostConfig, Nanos, Order, Result};

/// Orders drawn from these many seeds.
const SEEDS: u64 = 20;

/// Prints the seed of a case that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the order was Order::Seeded({})", self.0);
        }
    }
}

/// One host device. Its host functions are slow, so that a `Gate` holds for long.
fn open(executor: Executor) -> Device {
    let cost = CostModel { host_fn: Nanos(20_000_000), ..CostModel::default() };
    let config = HostConfig { executor, cost, ..HostConfig::default() };
    Device::host(config).expect("the machine starts a few threads").remove(0)
}

fn check_seeds(case: fn(&Device) -> Result<()>) {
    for seed in 0..SEEDS {
        let _seed = Seed(seed);
        cases::check(open(Executor::Virtual(Order::Seeded(seed))), case);
    }
}

macro_rules! tests {
    ($($file:ident::$name:ident)*) => {
        mod threads {
            $(#[test]
            fn $name() {
                crate::cases::check(
                    crate::open(trijet::Executor::Threads),
                    crate::cases::$file::$name,
                );
            })*
        }

        mod greedy {
            $(#[test]
            fn $name() {
                let order = trijet::Order::Greedy;
                crate::cases::check(
                    crate::open(trijet::Executor::Virtual(order)),
                    crate::cases::$file::$name,
                );
            })*
        }

        mod seeded {
            $(#[test]
            fn $name() {
                crate::check_seeds(crate::cases::$file::$name);
            })*
        }
    };
}
cases::for_each_case!(tests);
