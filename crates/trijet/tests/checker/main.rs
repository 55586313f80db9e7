//! The checker on the catalogue of hazards: each faulty program gets its finding, and its cured
//! twin gets none. Programs run on the host device if the library lets them be faulty; the others
//! are ledgers written by hand.

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
