//! Memory: buffers on the device and on the host, page-locked or pageable.
//!
//! A buffer is a byte range of a block. Blocks keep the stamps of the operations that use them,
//! so that using a buffer on another stream waits for exactly what it must, and dropping one is a
//! free in stream order, after every user on every stream.

pub(crate) mod block;
pub mod buffer;
pub mod copy;
pub mod dlpack;
pub mod foreign;
pub mod foreign_work;
pub mod host_fn;
mod kept;
mod manual;
pub mod pinned;
mod pool;
pub mod scope;
mod source;
mod transfer;

pub use buffer::{
    AsView, AsViewMut, Buffer, Element, OnDevice, PageLocked, Pageable, View, ViewMut,
};
pub use copy::Batch;
pub use foreign_work::Uses;
pub use pinned::{OnHost, PageableBuffer, PinnedBuffer, ReadGuard, ReadReady, WriteGuard};
pub use scope::Scope;
