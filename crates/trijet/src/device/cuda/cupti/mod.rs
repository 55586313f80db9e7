//! Activity records of CUPTI for this program's own operations.
//!
//! The crate `trijet-cupti` records other programs, inside their own processes. Such a program
//! cannot record its own operations at the same time, because CUPTI allows one subscriber per
//! process.

mod own;
mod tagged;

use crate::base::panic::caught;

/// Runs `body`, and catches its panic, because the caller is not Rust code.
fn guarded(body: impl FnOnce()) {
    // After a panic, records are missing. The operations of the missing records get no times.
    drop(caught(body));
}
