//! The checker on the catalogue of hazards. Each faulty program gets its finding, and the same
//! program without the fault gets none. Programs run on the host device if the library allows the
//! fault. The other programs are ledgers written by hand.

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
