//! The calls of CUPTI that the library makes, and a walk over the records in a buffer.

use crate::base::units::Nanos;
use crate::device::cuda::api::{CuResult, Handle, symbols};
use std::ffi::{c_char, c_int, c_void};

pub(super) type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub(super) type Complete = extern "C" fn(Handle, u32, *mut u8, usize, usize);

symbols! { CuptiApi,
    version = "cuptiGetVersion": fn(*mut u32);
    timestamp = "cuptiGetTimestamp": fn(*mut u64);
    register = "cuptiActivityRegisterCallbacks": fn(Request, Complete);
    enable = "cuptiActivityEnable": fn(u32);
    disable = "cuptiActivityDisable": fn(u32);
    push = "cuptiActivityPushExternalCorrelationId": fn(u32, u64);
    pop = "cuptiActivityPopExternalCorrelationId": fn(u32, *mut u64);
    next = "cuptiActivityGetNextRecord": fn(*mut u8, usize, *mut *mut c_void);
    dropped = "cuptiActivityGetNumDroppedRecords": fn(Handle, u32, *mut usize);
    flush = "cuptiActivityFlushAll": fn(u32);
    period = "cuptiActivityFlushPeriod": fn(u32);
    name = "cuptiGetCallbackName": fn(c_int, u32, *mut *const c_char);
}

impl CuptiApi {
    pub(super) fn version_number(&self) -> u32 {
        let mut version = 0;
        let Some(call) = self.version else { return 0 };
        // SAFETY: the call writes the local variable `version`. It needs no context and no
        // initialisation of CUPTI, and works after a context error.
        let code = unsafe { call(&raw mut version) };
        if code == 0 { version } else { 0 }
    }

    /// The time now, on the clock of the records.
    pub(super) fn now(&self) -> Nanos {
        let mut now = 0;
        let Some(call) = self.timestamp else { return Nanos(0) };
        // SAFETY: the call writes the local variable `now`, whether or not CUPTI collects records:
        // false only in a child of a fork, where every call is refused before this one.
        let code = unsafe { call(&raw mut now) };
        Nanos(if code == 0 { now } else { 0 })
    }

    /// Calls `each` with every record of a buffer that CUPTI returned: the bytes from the begin of
    /// the record to the end of the buffer.
    pub(super) fn walk(&self, buffer: &[u64], valid: usize, mut each: impl FnMut(&[u8])) {
        let bytes: &[u8] = bytemuck::cast_slice(buffer);
        let valid = valid.min(bytes.len());
        let Some(next) = self.next else { return };
        let mut record: *mut c_void = std::ptr::null_mut();
        let mut last = None;
        loop {
            // SAFETY: CUPTI filled the buffer and reported `valid` bytes of records, of which there
            // are no more than the buffer has. The call reads them and writes `record`. False for a
            // buffer that is read a second time after it was lent again.
            let code = unsafe { next(bytes.as_ptr().cast_mut(), valid, &raw mut record) };
            let at = record.addr().wrapping_sub(bytes.as_ptr().addr());
            // The next record begins behind the last one and inside of the buffer, so the loop
            // ends.
            if code != 0 || at >= valid || last.is_some_and(|last| at <= last) {
                break;
            }
            last = Some(at);
            each(&bytes[at..valid]);
        }
    }

    /// The number of records that CUPTI had no buffer for, since the last call.
    pub(super) fn dropped_number(&self) -> u64 {
        let mut dropped = 0;
        let Some(call) = self.dropped else { return 0 };
        // SAFETY: null and 0 stand for all contexts and streams; the call writes `dropped`. It is
        // made from the callback that CUPTI makes when a buffer is complete, where it is allowed.
        let code = unsafe { call(std::ptr::null_mut(), 0, &raw mut dropped) };
        if code == 0 { dropped as u64 } else { 0 }
    }
}
