//! Memory: buffers on the device and on the host, page-locked or pageable.
//!
//! A buffer is a byte range of a block. Blocks keep the stamps of the operations that use them,
//! so that using a buffer on another stream waits for exactly what it must, and dropping one is a
//! free in stream order, after every user on every stream.

pub(crate) mod block;
mod buffer;
mod copy;
pub mod dlpack;
mod foreign;
mod foreign_work;
mod host_fn;
mod kept;
mod manual;
mod pinned;
mod pool;
mod scope;
mod source;
mod transfer;

pub use crate::device::driver::PoolAccess;
pub use buffer::{
    AsView, AsViewMut, Buffer, Element, OnDevice, PageLocked, Pageable, View, ViewMut,
};
pub use copy::Batch;
pub use foreign_work::Uses;
pub use host_fn::{Declared, Held, HostUse, Locked};
pub use pinned::{OnHost, PageableBuffer, PinnedBuffer, ReadGuard, ReadReady, WriteGuard};
pub use scope::Scope;
