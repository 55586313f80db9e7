//! Communication between host devices, with links between them and without.

#[path = "../collectives/mod.rs"]
mod collectives;
#[path = "../comm/mod.rs"]
mod comm;
mod linked;
mod unlinked;
