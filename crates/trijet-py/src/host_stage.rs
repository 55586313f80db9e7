//! A stage of the program on a host device: a kernel whose twin calls the function of a stage.
//!
//! The arguments are the spans of the input and of the output, and the number of the call. The
//! twin runs on a thread of the host device, when the order allows it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use trijet::kernels::{ArgBlock, Code, Cost, Dynamic, KernelSpec, Shape, Tile, Twin};
use trijet::{Args, Kernel, Result, Stream, View, ViewMut};

/// A call that waits for its turn. The text is the reason why it failed.
pub(crate) type Call = Box<dyn FnOnce(&[u8], &mut [u8]) -> std::result::Result<(), String> + Send>;

static CALLS: Mutex<Option<HashMap<u64, Call>>> = Mutex::new(None);
static NEXT: AtomicU64 = AtomicU64::new(0);

/// An entry that does nothing, because no GPU runs it.
const PTX: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry stage(.param .u64 x, .param .u64 x_len, .param .u64 y, .param .u64 y_len, .param .u64 number)
{
    ret;
}
";

// SAFETY: the code has these parameters and touches no memory. The twin writes only the output.
static KERNEL: Kernel<Dynamic> = unsafe {
    Kernel::declare(
        KernelSpec::new("stage", Code::ptx(PTX), Shape::Elements { per_thread: 1 }).twin(Twin {
            tile_elements: |args: &ArgBlock| {
                args.spans().iter().map(|span| span.elements).max().unwrap_or(1).max(1)
            },
            run: twin,
            cost: |args: &ArgBlock| Cost {
                bytes: args.spans().iter().map(|span| span.bytes()).sum(),
                ops: 0,
            },
        }),
    )
};

fn taken(number: u64) -> Option<Call> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.remove(&number)
}

fn twin(tile: &mut Tile<'_>) {
    let (x, y) = (tile.read::<u8>(0), tile.write::<u8>(2));
    let Some(call) = taken(tile.scalar(4)) else { return };
    if let Err(cause) = call(x, y) {
        // The host device catches the panic, and the run ends with this text. The hook for panics,
        // which prints a backtrace, is not called.
        std::panic::resume_unwind(Box::new(cause));
    }
}

/// Forgets a call that has not run.
pub(crate) fn forget(number: u64) {
    drop(taken(number));
}

/// Enqueues a call on a stream of a host device, and returns its number.
pub(crate) fn enqueue(
    stream: &Stream,
    x: View<'_, u8>,
    y: ViewMut<'_, u8>,
    call: Call,
) -> Result<u64> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    CALLS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get_or_insert_default()
        .insert(number, call);
    let launched = Args::new()
        .read(x)
        .and_then(|args| args.write(y))
        .and_then(|args| args.scalar(number))
        .and_then(|args| stream.launch(&KERNEL, args));
    if launched.is_err() {
        forget(number);
    }
    launched.map(|()| number)
}
