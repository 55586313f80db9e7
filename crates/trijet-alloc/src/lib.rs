//! The heap of Trijet as an allocator with a C interface.
//!
//! Other libraries, PyTorch among them, take device memory from the heap of a device and use it in streams of their own. The
//! heap gives memory again in the order of its users, so an allocation and a free make no call of the driver in the usual
//! case. `include/trijet_alloc.h` describes the C functions; [`Allocator`] is the same for Rust.
//!
//! What the library cannot see, the caller says: a free stands for all work that its stream holds at that moment. Work on
//! other streams counts with [`Allocator::record_stream`].

mod allocator;
mod c;
mod failure;
mod opened;
mod table;

pub use allocator::{Allocator, Statistics};
pub use c::{
    TrijetAllocStatistics, trijet_alloc, trijet_alloc_last_error, trijet_alloc_stats,
    trijet_forget_stream, trijet_free, trijet_record_stream,
};
