//! A program that any bytes choose: the body of the fuzz target `program`.

use crate::closure;
use crate::program::{Program, run};
use trijet::{Device, Executor, HostConfig, Order};

/// The first byte chooses the order and the number of devices, the rest the program.
///
/// # Panics
/// When the program computes something else than one call after the other, when a conflict is
/// not ordered, when a wait is idle, and when a call or a drop fails.
pub(crate) fn check(bytes: &[u8]) {
    let (order, rest) = bytes.split_first().unwrap_or((&0, bytes));
    let program = Program::chosen(rest);
    let executor = Executor::Virtual(Order::Seeded(u64::from(*order)));
    let config = HostConfig { executor, devices: 1 + u32::from(order % 2), ..Default::default() };
    let devices = Device::host(config).expect("a virtual device needs nothing");
    let found = run(&devices, &program, true).expect("no call fails");
    let ops = devices[0].take_record().expect("everything is complete");
    closure::check(&ops, program.events).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(found, program.serial(), "{program:?}");
    for device in devices {
        device.close().expect("no drop failed");
    }
}
