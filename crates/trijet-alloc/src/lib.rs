//! The heap of Trijet as an allocator with a C interface.
//!
//! Other libraries, for example PyTorch, allocate device memory from the heap of a device and use
//! it in their own streams. The heap reuses memory in the order of its users, so an allocation and
//! a free usually make no call of the driver. `include/trijet_alloc.h` describes the C functions.
//! [`Allocator`] is the interface for Rust.
//!
//! The library does not see the work of the caller. So a free assumes that all earlier work in its
//! stream may use the memory. [`Allocator::record_stream`] adds the work of other streams.

mod allocator;
mod c;
mod failure;
mod opened;
mod table;

pub use allocator::{Allocator, Statistics};
pub use c::{
    TrijetAllocStatistics, trijet_alloc, trijet_alloc_last_error, trijet_alloc_limit,
    trijet_alloc_stats, trijet_forget_stream, trijet_free, trijet_record_stream,
};
