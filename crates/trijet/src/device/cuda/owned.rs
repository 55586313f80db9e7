//! Values that graphs of the driver own.

use super::api::{Handle, need};
use super::context::{CudaDriver, cu};
use super::error::check;
use crate::base::error::Result;
use crate::base::panic::caught;
use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, the only flag, and `CU_GRAPH_USER_OBJECT_MOVE`.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
const MOVE: c_uint = 1;

/// Drops a value.
///
/// # Safety
/// `data` comes from `Box::into_raw` of a `Box<T>`, and this is the only call with it.
unsafe extern "C" fn forget<T>(data: *mut c_void) {
    // SAFETY: the contract of this function; the user object calls it once.
    let value = unsafe { Box::from_raw(data.cast::<T>()) };
    // A panic must not unwind into the frames of the driver.
    drop(caught(|| drop(value)));
}

impl CudaDriver {
    /// Lets a graph own a value, until the graph, its copies, its executable forms and their
    /// pending launches are gone. Returns the address of the value.
    pub(super) fn own_by_graph<T: Send + 'static>(
        &self,
        graph: Handle,
        value: T,
    ) -> Result<*mut c_void> {
        let data = Box::into_raw(Box::new(value)).cast::<c_void>();
        let mut object = null_mut();
        let created = cu!(
            self,
            "cuUserObjectCreate",
            user_object_create(&raw mut object, data, forget::<T>, 1, NO_DESTRUCTOR_SYNC),
            "the object owns the box from here on, and calls `forget` once, when its last user is gone"
        );
        if let Err(error) = created {
            // SAFETY: a refused call keeps no pointer, so the box is still owned here. This does
            // not hold if the refused call has created the user object.
            drop(unsafe { Box::from_raw(data.cast::<T>()) });
            return Err(error);
        }
        let retained = cu!(
            self,
            "cuGraphRetainUserObject",
            graph_retain(graph, object, 1, MOVE),
            "the graph is live while the caller holds its lock; it takes over the only \
             reference, and its executable forms and their pending launches have references of their own"
        );
        if let Err(error) = retained {
            cu!(
                self,
                "cuUserObjectRelease",
                user_object_release(object, 1),
                "the refused call left the reference here"
            )?;
            return Err(error);
        }
        Ok(data)
    }
}
