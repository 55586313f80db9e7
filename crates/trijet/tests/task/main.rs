//! Tasks: any program has the result of its tasks one after another, and keeps all other promises
//! about tasks. The tests in `behaviours` have the names of the behaviours that users of such
//! systems expect.

mod behaviours;
#[path = "../common/mod.rs"]
mod common;
mod devices;
mod drops;
mod failures;
mod fifteen;
mod handles;
mod hosts;
mod programs;
mod random;
mod reads;
mod refused;
mod regions;
#[path = "../collectives/rule.rs"]
mod rule;
mod workers;

use common::{checked, demand_clean};
use std::time::Duration;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Device, Result};

/// A call that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A checked device with one order of the choices that its streams leave open.
fn device(order: Order) -> Result<Device> {
    let config = HostConfig::new().executor(Executor::Virtual(order));
    Ok(checked(config)?.remove(0))
}

/// Several checked devices of one driver.
fn devices(devices: u32, order: Order) -> Result<Vec<Device>> {
    let executor = Executor::Virtual(order);
    let config = HostConfig::new().executor(executor).devices(devices);
    checked(config)
}
