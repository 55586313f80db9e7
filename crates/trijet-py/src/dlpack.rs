//! DLPack capsules: arrays that other packages take without a copy.
//!
//! A consumer that asks for version 1 gets a `DLManagedTensorVersioned`, and any other a
//! `DLManagedTensor` (dlpack.h, versions 1.0 and 0.8).

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::any::Any;
use std::ffi::{CStr, c_void};
use trijet::Dtype;

pub(crate) const PLAIN: &CStr = c"dltensor";
pub(crate) const VERSIONED: &CStr = c"dltensor_versioned";
/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
const READ_ONLY: u64 = 1;

/// `DLDevice`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DlDevice {
    /// 1 for the processor, 2 for CUDA, 3 for page-locked memory.
    pub(crate) kind: i32,
    pub(crate) number: i32,
}

impl DlDevice {
    pub(crate) fn cuda(number: i32) -> Self {
        Self { kind: 2, number }
    }
}

/// `DLDataType`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
pub(crate) struct DlTensor {
    pub(crate) data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    pub(crate) dtype: DlType,
    shape: *mut i64,
    strides: *mut i64,
    pub(crate) byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
pub(crate) struct Managed {
    pub(crate) tensor: DlTensor,
    manager: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub(crate) struct ManagedVersioned {
    pub(crate) major: u32,
    minor: u32,
    manager: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    pub(crate) flags: u64,
    pub(crate) tensor: DlTensor,
}

/// An array to export.
pub(crate) struct Exported {
    pub(crate) address: u64,
    pub(crate) device: DlDevice,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    pub(crate) read_only: bool,
    /// Dropped when the consumer returns the tensor, on any thread, without the lock of Python.
    pub(crate) keep: Box<dyn Any + Send>,
}

/// A tensor and its parts, which a consumer holds until it calls the deleter.
struct Held<T> {
    managed: T,
    /// The lengths and the strides, at which the tensor points.
    _axes: [Box<[i64]>; 2],
    _keep: Box<dyn Any + Send>,
}

fn type_of(dtype: Dtype) -> DlType {
    let code = match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 0,
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => 1,
        Dtype::F16 | Dtype::F32 | Dtype::F64 => 2,
        Dtype::BF16 => 4,
        Dtype::C64 | Dtype::C128 => 5,
    };
    let bits = u8::try_from(8 * dtype.bytes()).expect("an element has at most 16 bytes");
    DlType { code, bits, lanes: 1 }
}

/// The element type of a tensor; `None` for a type that the library does not have. A truth value is
/// read as a byte.
pub(crate) fn dtype_of(found: &DlType) -> Option<Dtype> {
    let is_bool = found.code == 6 && found.bits == 8;
    let own = |dtype: &Dtype| type_of(*dtype) == *found;
    Dtype::ALL.into_iter().find(own).or_else(|| is_bool.then_some(Dtype::U8))
}

/// The lengths of the axes of a dense tensor in C order.
///
/// # Safety
/// The shape of the tensor has as many numbers as it has axes, and so have its strides, unless they
/// are null.
pub(crate) unsafe fn lengths_of(tensor: &DlTensor) -> PyResult<Vec<u64>> {
    let axes = usize::try_from(tensor.ndim).map_err(|_| PyBufferError::new_err("no axes"))?;
    if axes == 0 {
        return dense_lengths(&[], None, 1).map_err(PyBufferError::new_err);
    }
    if tensor.shape.is_null() {
        return Err(PyBufferError::new_err("no lengths"));
    }
    // SAFETY: the caller passes a tensor whose shape and strides have a number for each axis, and
    // `numbers` is not called for null.
    let numbers = |start: *mut i64| unsafe { std::slice::from_raw_parts(start, axes) };
    let strides = (!tensor.strides.is_null()).then(|| numbers(tensor.strides));
    dense_lengths(numbers(tensor.shape), strides, 1).map_err(PyBufferError::new_err)
}

/// The lengths of the axes of a dense array in C order, or the reason why it is none. An element
/// has `parts` of the units of `strides`. An array without axes has one element.
pub(crate) fn dense_lengths(
    shape: &[i64],
    strides: Option<&[i64]>,
    parts: i64,
) -> Result<Vec<u64>, String> {
    let lengths = shape.iter().map(|length| u64::try_from(*length)).collect::<Result<Vec<_>, _>>();
    let lengths = lengths.map_err(|_| "a negative length".to_owned())?;
    if let Some(strides) = strides.filter(|_| !lengths.contains(&0)) {
        if strides.len() != shape.len() {
            return Err("as many strides as axes are needed".to_owned());
        }
        let dense: Vec<i64> =
            strides_of(shape).into_iter().map(|stride| stride.saturating_mul(parts)).collect();
        let differs = |axis: &usize| shape[*axis] > 1 && strides[*axis] != dense[*axis];
        if let Some(axis) = (0..shape.len()).find(differs) {
            return Err(format!(
                "axis {axis} has the stride {}, and C order needs {}; make the array contiguous",
                strides[axis], dense[axis]
            ));
        }
    }
    Ok(if lengths.is_empty() { vec![1] } else { lengths })
}

/// The strides of an array in C order, in elements.
fn strides_of(shape: &[i64]) -> Vec<i64> {
    let mut step = 1_i64;
    let mut strides: Vec<i64> = shape
        .iter()
        .rev()
        .map(|length| {
            let own = step;
            step = step.saturating_mul((*length).max(1));
            own
        })
        .collect();
    strides.reverse();
    strides
}

impl Exported {
    fn tensor(&self, shape: &mut [i64], strides: &mut [i64]) -> PyResult<DlTensor> {
        let ndim =
            i32::try_from(shape.len()).map_err(|_| PyBufferError::new_err("too many axes"))?;
        Ok(DlTensor {
            data: std::ptr::with_exposed_provenance_mut(
                usize::try_from(self.address).map_err(|_| PyBufferError::new_err("an address"))?,
            ),
            device: self.device,
            ndim,
            dtype: type_of(self.dtype),
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        })
    }

    /// A capsule for a consumer that reads versions up to `max_version`.
    pub(crate) fn capsule<'py>(
        self,
        py: Python<'py>,
        max_version: Option<(u32, u32)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lengths = self.shape.iter().map(|length| i64::try_from(*length));
        let lengths = lengths.collect::<Result<Vec<_>, _>>();
        let lengths = lengths.map_err(|_| PyBufferError::new_err("an axis is too long"))?;
        let mut strides = strides_of(&lengths).into_boxed_slice();
        let mut shape = lengths.into_boxed_slice();
        // The boxes keep their addresses when they are moved.
        let tensor = self.tensor(&mut shape, &mut strides)?;
        let _keep = self.keep;
        if max_version.is_some_and(|(major, _)| major >= 1) {
            let flags = if self.read_only { READ_ONLY } else { 0 };
            let managed = ManagedVersioned {
                major: 1,
                minor: 0,
                manager: std::ptr::null_mut(),
                deleter: Some(delete_versioned),
                flags,
                tensor,
            };
            let held = Box::into_raw(Box::new(Held { managed, _axes: [shape, strides], _keep }));
            // SAFETY: `held` was made by `Box::into_raw` in the line before.
            unsafe { (*held).managed.manager = held.cast() };
            // SAFETY: the box of the versioned tensor is live until its deleter is called.
            let managed = unsafe { &raw mut (*held).managed };
            return new_capsule(py, managed.cast(), VERSIONED, destroy_versioned);
        }
        if self.read_only {
            let cause =
                "the array is only read, which versions of DLPack before 1.0 cannot express";
            return Err(PyBufferError::new_err(cause));
        }
        let managed = Managed { tensor, manager: std::ptr::null_mut(), deleter: Some(delete) };
        let held = Box::into_raw(Box::new(Held { managed, _axes: [shape, strides], _keep }));
        // SAFETY: `held` is the box that the line before the last one has leaked.
        unsafe { (*held).managed.manager = held.cast() };
        // SAFETY: the box of the tensor is live until its deleter is called.
        let managed = unsafe { &raw mut (*held).managed };
        new_capsule(py, managed.cast(), PLAIN, destroy)
    }
}

fn new_capsule<'py>(
    py: Python<'py>,
    managed: *mut c_void,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the name is static, the pointer is not null, and the thread holds the lock of Python.
    let capsule = unsafe { ffi::PyCapsule_New(managed, name.as_ptr(), Some(destructor)) };
    // SAFETY: a new reference, or null with an exception that is set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}

/// Drops a tensor. A panic must not unwind into the code of the consumer.
fn dropped<T>(held: Box<Held<T>>) {
    drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(held))));
}

/// # Safety
/// `managed` is a tensor of this module that was not deleted.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: the caller passes a tensor that was not deleted.
    let held = unsafe { (*managed).manager };
    // SAFETY: the manager is the box that `capsule` has leaked, and it is freed once.
    let held = unsafe { Box::from_raw(held.cast::<Held<Managed>>()) };
    dropped(held);
}

/// # Safety
/// As for [`delete`].
unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: the caller passes a versioned tensor that was not deleted.
    let held = unsafe { (*managed).manager };
    // SAFETY: the manager is the box of a versioned tensor, which is freed once.
    let held = unsafe { Box::from_raw(held.cast::<Held<ManagedVersioned>>()) };
    dropped(held);
}

/// The tensor of a capsule that no consumer has taken. A consumer renames the capsule.
///
/// # Safety
/// `capsule` is a capsule, and the thread holds the lock of Python.
unsafe fn untaken(capsule: *mut ffi::PyObject, name: &'static CStr) -> Option<*mut c_void> {
    // SAFETY: the caller passes a capsule, and holds the lock of Python.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: a valid capsule of this name, by the line before.
    Some(unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) })
}

unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls the destructor of the capsule with its lock.
    if let Some(managed) = unsafe { untaken(capsule, PLAIN) } {
        // SAFETY: no consumer has taken the tensor.
        unsafe { delete(managed.cast()) };
    }
}

unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls the destructor of a versioned capsule with its lock.
    if let Some(managed) = unsafe { untaken(capsule, VERSIONED) } {
        // SAFETY: the tensor is still in its capsule.
        unsafe { delete_versioned(managed.cast()) };
    }
}
