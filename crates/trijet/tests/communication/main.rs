//! Communication between host devices, with links between them and without.

#[path = "../collectives/mod.rs"]
mod collectives;
#[path = "../comm/mod.rs"]
mod comm;
#[path = "../common/mod.rs"]
mod common;
mod linked;
mod unlinked;
