//! The checker on the catalogue of hazards: each faulty program is flagged with its class, and its
//! cured twin is silent. Programs run on the host device where its interface lets them be faulty;
//! the others are records written by hand.

mod damaged;
mod full;
mod golden;
mod hosts;
mod judged;
mod left;
mod live;
mod lives;
mod log;
mod opened;
mod pitfalls;
mod polls;
mod signals;
mod streams;
mod threads;
mod waits;
