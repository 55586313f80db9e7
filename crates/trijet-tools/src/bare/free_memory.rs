//! The free memory of a GPU, as every process on the machine sees it.

use super::table::{Handle, Table, ask, open};
use std::ffi::c_int;
use std::ptr::null_mut;
use trijet::{Bytes, Result};

/// A question to the driver that may be repeated. The driver counts free memory for the whole GPU,
/// so another process gets the same answer.
#[derive(Debug)]
pub struct FreeMemory {
    table: Table,
    /// The primary context of the device, which is never released.
    context: Handle,
}

impl FreeMemory {
    /// # Errors
    /// `Unsupported` if there is no driver, or if the driver lacks a function. Every other error of
    /// the driver.
    pub fn of(ordinal: u32) -> Result<Self> {
        let table = Table::load(open()?);
        ask!(table, init(0), "the only defined flags")?;
        let (mut device, mut context) = (0, null_mut());
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        ask!(table, device_get(&raw mut device, number), "room for one number")?;
        ask!(table, primary_retain(&raw mut context, device), "a device, and room for a handle")?;
        Ok(Self { table, context })
    }

    /// The number of bytes that any process can allocate now.
    ///
    /// # Errors
    /// `Unsupported` if the driver lacks a function. Every other error of the driver.
    pub fn now(&self) -> Result<Bytes> {
        let Self { table, context } = self;
        let (mut free, mut total, mut popped) = (0, 0, null_mut());
        ask!(table, push_current(*context), "a context that is never released")?;
        let asked = ask!(table, memory_info(&raw mut free, &raw mut total), "room for two sizes");
        ask!(table, pop_current(&raw mut popped), "room for a handle")?;
        asked.map(|()| Bytes(free as u64))
    }
}
