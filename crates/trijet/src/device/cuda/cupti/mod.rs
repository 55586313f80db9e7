//! Activity records of CUPTI for this program's own operations.
//!
//! The crate `trijet-cupti` records foreign programs, inside their own processes. Such a program
//! cannot record itself, because CUPTI has one subscriber.

mod own;
mod tagged;

use crate::base::panic::caught;

/// Runs `body`, and catches its panic, because the caller is not Rust code.
fn guarded(body: impl FnOnce()) {
    // After a panic records are missing, and the operations of these records get no times.
    drop(caught(body));
}
