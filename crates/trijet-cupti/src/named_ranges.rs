//! The named ranges of a program, which it reports with NVTX.
//!
//! A program calls NVTX through tables of functions. At its first such call it loads the library
//! that `NVTX_INJECTION64_PATH` names, and asks the library to fill the tables. The tracing library
//! lets CUPTI fill them, so that CUPTI makes records of the ranges.
//!
//! A program may call NVTX before it uses CUDA. CUPTI must not start so early: on an H100 with
//! CUDA 13.0 the driver then loaded no tracing library at all. So the tables are kept until the
//! recorder runs. A range that ends before that is not traced, and no operation is in it.
//!
//! Every library with NVTX in it has tables of its own.

use crate::api::{CuptiApi, NvtxExport};
use std::sync::{Mutex, PoisonError};

/// Maximum number of tables that are kept. The ranges of further libraries are not traced.
const KEPT_MAX: usize = 64;

/// The tables that CUPTI has not filled yet, and CUPTI, once the recorder runs.
struct NvtxState {
    kept: Vec<NvtxExport>,
    cupti: Option<CuptiApi>,
}

static STATE: Mutex<NvtxState> = Mutex::new(NvtxState { kept: Vec::new(), cupti: None });

/// Makes CUPTI fill the tables, now or when the recorder starts. Returns whether it does.
///
/// # Safety
/// `tables` is the function that NVTX passes to `InitializeInjectionNvtx2`. The library that it
/// belongs to stays loaded.
pub(crate) unsafe fn take(tables: NvtxExport) -> bool {
    let cupti = {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        if state.cupti.is_none() {
            let has_room = state.kept.len() < KEPT_MAX && state.kept.try_reserve(1).is_ok();
            if has_room {
                state.kept.push(tables);
            }
            return has_room;
        }
        state.cupti
    };
    cupti.is_some_and(|cupti| fill(&cupti, tables))
}

/// Makes CUPTI fill all tables that are kept, and each later one at once.
pub(crate) fn begin(cupti: &CuptiApi) {
    let kept = {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        state.cupti = Some(*cupti);
        std::mem::take(&mut state.kept)
    };
    for tables in kept {
        // If CUPTI refuses, the trace has no ranges of that library.
        let _filled = fill(cupti, tables);
    }
}

fn fill(cupti: &CuptiApi, tables: NvtxExport) -> bool {
    let Some(call) = cupti.named_ranges else { return false };
    // SAFETY: `tables` is the function that NVTX passed, and CUPTI calls it during this call, as it
    // does when NVTX loads CUPTI itself. False once the library with the tables is unloaded.
    unsafe { call(Some(tables)) == 0 }
}
