//! Memory on host devices: heaps, blocks that lanes keep, growing buffers, red zones, and memory of
//! other libraries.

#[path = "../common/mod.rs"]
mod common;
mod direct_work;
mod foreign;
mod growing;
mod heap;
mod kept_blocks;
mod red_zones;
