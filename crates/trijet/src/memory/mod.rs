//! Buffers in device memory and in host memory, page-locked or pageable.
//!
//! A buffer is a byte range of a block. A block keeps the stamps of the operations that use it. The
//! stamps determine the operations for which a use on another stream must wait. When the last
//! buffer of a block is dropped, the memory is given back, ordered after every user on every
//! stream. The drop does not wait.

mod alloc;
pub(crate) mod block;
mod buffer;
mod copy;
mod direct_work;
mod discard;
pub mod dlpack;
mod element_kind;
mod foreign;
mod foreign_work;
mod growing;
mod heap;
mod host_fn;
mod manual;
mod pinned;
mod pool;
mod red_zones;
mod scope;
mod source;
mod temporary;
mod tiled;
mod transfer;
mod unlinked;
mod uses;
mod words;

pub use crate::device::driver::PoolAccess;
pub use crate::stream::watched::{Damage, DamagePlace};
pub(crate) use buffer::within;
pub use buffer::{
    AsView, AsViewMut, Buffer, Element, OnDevice, PageLocked, Pageable, View, ViewMut,
};
pub use copy::Batch;
pub(crate) use element_kind::ElementKind;
pub use growing::GrowingBuffer;
pub use host_fn::{DeclaredMemory, Held, HostUse, Locked};
pub use pinned::{OnHost, PageableBuffer, PinnedBuffer, ReadGuard, ReadReady, WriteGuard};
pub use scope::Scope;
pub use tiled::{TiledView, TiledViewMut};
pub(crate) use uses::UsedMemory;
pub use uses::Uses;
pub(crate) use words::HostWords;
