//! Buffers in device memory and in host memory, page-locked or pageable.
//!
//! A buffer is a byte range of a block. A block keeps the stamps of the operations that use it. For
//! a use on another stream, the stamps determine the operations for which the use must wait. When
//! the last buffer of a block is dropped, the memory is freed. The free follows every user on every
//! stream, but the drop does not wait.

mod alloc;
pub(crate) mod block;
pub(crate) mod buffer;
mod cast;
pub(crate) mod copy;
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
pub(crate) mod pinned;
mod pool;
mod red_zones;
pub(crate) mod scope;
mod source;
mod temporary;
mod tiled;
mod transfer;
mod unlinked;
pub(crate) mod uses;
#[cfg(feature = "workers")]
mod words;

pub use crate::device::driver::PoolAccess;
pub use crate::stream::watched::{Damage, DamagePlace};
#[cfg(feature = "task")]
pub(crate) use buffer::within;
pub(crate) use buffer::{AsView, AsViewMut, Buffer, Element, View, ViewMut};
pub use buffer::{OnDevice, PageLocked, Pageable};
pub(crate) use element_kind::ElementKind;
pub use growing::GrowingBuffer;
pub use host_fn::{DeclaredMemory, Held, HostUse, Locked};
pub(crate) use pinned::PinnedBuffer;
pub use pinned::{OnHost, ReadGuard, ReadReady, WriteGuard};
pub use tiled::{TiledView, TiledViewMut};
pub(crate) use uses::{UsedMemory, Uses};
#[cfg(feature = "workers")]
pub(crate) use words::HostWords;
