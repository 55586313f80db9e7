//! DLPack: exchange of tensors with PyTorch, CuPy, JAX and others, without a copy.
//!
//! The layout is `DLManagedTensor` from `dlpack.h`. Every framework reads this layout, and a
//! capsule named `dltensor` contains it. An imported tensor must be dense in row-major order, and
//! its shape is not kept. An exported buffer has one dimension.

use super::buffer::{Buffer, Element};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::device::memory::Space;
use crate::log::calling;
use crate::stream::device::Device;
use std::ffi::c_void;
use std::panic::Location;
use std::ptr::{NonNull, null_mut};

/// `kDLCPU`.
const ON_CPU: i32 = 1;
/// `kDLCUDA`.
const ON_CUDA: i32 = 2;
/// `kDLOpaqueHandle`.
const HANDLE: u8 = 3;
/// `kDLComplex`.
const COMPLEX: u8 = 5;
/// `kDLBool`.
const BOOL: u8 = 6;

/// `DLDevice`: the device of a tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlDevice {
    /// `DLDeviceType`: 1 for the processor, 2 for CUDA.
    pub device_type: i32,
    /// The ordinal of the device.
    pub device_id: i32,
}

/// `DLDataType`: the element type of a tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlType {
    /// `DLDataTypeCode`: 0 for signed integers, 1 for unsigned ones, 2 for floating point.
    pub code: u8,
    /// The number of bits of one component.
    pub bits: u8,
    /// The number of components of a vector; 1 for scalars.
    pub lanes: u16,
}

impl std::fmt::Display for DlType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            0 => write!(f, "signed integers of {} bits", self.bits)?,
            1 => write!(f, "unsigned integers of {} bits", self.bits)?,
            2 => write!(f, "floating-point numbers of {} bits", self.bits)?,
            code => write!(f, "DLPack type {code} of {} bits", self.bits)?,
        }
        if self.lanes == 1 { Ok(()) } else { write!(f, " in vectors of {}", self.lanes) }
    }
}

/// `DLTensor`: a tensor without its owner.
#[repr(C)]
#[derive(Debug)]
pub struct DlTensor {
    /// The address of the memory.
    pub data: *mut c_void,
    /// The device that holds the memory.
    pub device: DlDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The element type.
    pub dtype: DlType,
    /// The length of each dimension, in elements.
    pub shape: *mut i64,
    /// The stride of each dimension, in elements; null for row-major order.
    pub strides: *mut i64,
    /// The offset of the first element from `data` in bytes.
    pub byte_offset: u64,
}

/// `DLManagedTensor`: a tensor with its owner.
#[repr(C)]
#[derive(Debug)]
pub struct DlManagedTensor {
    /// The tensor.
    pub tensor: DlTensor,
    /// A value that only the producer uses.
    pub manager_ctx: *mut c_void,
    /// Returns the tensor to its producer.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

/// An element type that DLPack knows. A program may implement this trait for its own types:
///
/// ```
/// use trijet::memory::dlpack::{DlElement, DlType};
/// use trijet::{Device, Select};
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct Bf16(u16);
/// impl DlElement for Bf16 {
///     const TYPE: DlType = DlType { code: 4, bits: 16, lanes: 1 };
/// }
/// let device = Device::open(Select::Host(0))?;
/// let tensor = device.stream()?.alloc_zeroed::<Bf16>(64)?.into_dlpack()?;
/// // SAFETY: a live tensor, which is handed over.
/// assert_eq!(unsafe { device.from_dlpack::<Bf16>(tensor)? }.len(), 64);
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// A program does not compile if the DLPack type has another size than the Rust type, or a greater
/// alignment. The DLPack type must also allow every value of the Rust type, so handles (code 3) and
/// truth values (code 6) do not compile either.
///
/// ```compile_fail,E0080
/// use trijet::memory::dlpack::{DlElement, DlType};
/// use trijet::{Device, Select};
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct Bf16(u16);
/// impl DlElement for Bf16 {
///     const TYPE: DlType = DlType { code: 4, bits: 32, lanes: 1 };
/// }
/// let device = Device::open(Select::Host(0))?;
/// let tensor = device.stream()?.alloc_zeroed::<Bf16>(64)?.into_dlpack()?;
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// ```compile_fail,E0080
/// use trijet::memory::dlpack::{DlElement, DlType};
/// use trijet::{Device, Select};
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct Bf16([u8; 2]);
/// impl DlElement for Bf16 {
///     const TYPE: DlType = DlType { code: 4, bits: 16, lanes: 1 };
/// }
/// let device = Device::open(Select::Host(0))?;
/// # use trijet::memory::dlpack::DlManagedTensor;
/// # let tensor: std::ptr::NonNull<DlManagedTensor> = std::ptr::NonNull::dangling();
/// // SAFETY: never run.
/// let buffer = unsafe { device.from_dlpack::<Bf16>(tensor)? };
/// # Ok::<(), trijet::Error>(())
/// ```
pub trait DlElement: Element {
    /// The type in DLPack.
    const TYPE: DlType;
}

/// The type of an element in DLPack. Fails to compile if this type does not describe the element
/// correctly. The check is necessary because safe code may implement [`DlElement`], and because
/// import and export rely on the type.
const fn type_of<T: DlElement>() -> DlType {
    const {
        let DlType { code, bits, lanes } = T::TYPE;
        let (size, bits) = (size_of::<T>(), bits as usize);
        assert!(
            bits * lanes as usize == size * 8,
            "the element type and its DLPack type differ in size"
        );
        // A complex number has the alignment of its parts. Parts of less than a byte need no
        // alignment.
        let part = if code == COMPLEX { bits / 2 } else { bits };
        assert!(
            part <= 8 * align_of::<T>(),
            "the alignment of the element type is too small for its DLPack type"
        );
        assert!(
            code != HANDLE && code != BOOL,
            "the DLPack type (a handle or a truth value) does not allow every value of the \
             element type"
        );
    }
    T::TYPE
}

macro_rules! elements {
    ($($type:ty: $code:literal $bits:literal),*) => {$(
        impl DlElement for $type {
            const TYPE: DlType = DlType { code: $code, bits: $bits, lanes: 1 };
        }
    )*};
}
elements!(i8: 0 8, i16: 0 16, i32: 0 32, i64: 0 64, u8: 1 8, u16: 1 16, u32: 1 32, u64: 1 64);
elements!(f32: 2 32, f64: 2 64);

/// An imported tensor. The drop of this value returns the tensor to its producer.
struct Imported(NonNull<DlManagedTensor>);

// SAFETY: DLPack lets a consumer call the deleter from any thread, once.
unsafe impl Send for Imported {}

impl Drop for Imported {
    fn drop(&mut self) {
        // SAFETY: the caller of `from_dlpack` promised that the tensor is alive and handed over.
        let deleter = unsafe { self.0.as_ref() }.deleter;
        if let Some(deleter) = deleter {
            // SAFETY: the deleter of this very tensor, called once: the value is dropped once.
            unsafe { deleter(self.0.as_ptr()) };
        }
    }
}

/// An exported tensor, together with the data to which the tensor points.
struct Exported<T> {
    managed: DlManagedTensor,
    shape: [i64; 1],
    buffer: Buffer<T>,
}

/// Drops an exported tensor.
///
/// # Safety
/// `managed` comes from `into_dlpack` of a `Buffer<T>`, and is passed here once.
unsafe extern "C" fn delete<T>(managed: *mut DlManagedTensor) {
    // SAFETY: by this function's contract, a live tensor of `into_dlpack`.
    let whole = unsafe { (*managed).manager_ctx };
    // SAFETY: `into_dlpack` put the box there, and the consumer calls this function once.
    let exported = unsafe { Box::from_raw(whole.cast::<Exported<T>>()) };
    // A panic must not unwind into the code of the caller.
    drop(crate::base::panic::caught(|| drop(exported)));
}

fn refuse(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "DLPack", cause)
}

/// The number of elements of a dense tensor in row-major order.
///
/// # Safety
/// `shape` and `strides` have `ndim` numbers each, or `strides` is null.
unsafe fn dense_len(tensor: &DlTensor) -> Result<usize> {
    let ndim =
        usize::try_from(tensor.ndim).map_err(|_| refuse(format!("ndim is {}", tensor.ndim)))?;
    if ndim == 0 {
        return Ok(1);
    }
    // SAFETY: by this function's contract.
    let shape = unsafe { std::slice::from_raw_parts(tensor.shape, ndim) };
    let strides = (!tensor.strides.is_null()).then(|| {
        // SAFETY: by this function's contract.
        unsafe { std::slice::from_raw_parts(tensor.strides, ndim) }
    });
    let negative = shape.iter().any(|extent| *extent < 0);
    if negative || shape.contains(&0) {
        // In a tensor without elements, the strides have no meaning, and producers export various
        // values.
        return if negative { Err(refuse(format!("shape {shape:?} is negative"))) } else { Ok(0) };
    }
    let mut len = 1_i64;
    for (at, extent) in shape.iter().enumerate().rev() {
        // The stride of a dimension with one element has no meaning.
        let step = strides.map_or(len, |strides| strides[at]);
        if *extent > 1 && step != len {
            return Err(refuse(format!(
                "dimension {at} has stride {step}, but dense row-major order needs {len}; make the \
                 tensor contiguous"
            )));
        }
        let product = len.checked_mul(*extent);
        len = product.ok_or_else(|| refuse(format!("shape {shape:?} overflows")))?;
    }
    usize::try_from(len).map_err(|_| refuse(format!("shape {shape:?} overflows")))
}

impl Device {
    /// The device type and the ordinal of this device in DLPack.
    fn dl_device(&self) -> DlDevice {
        let is_host = self.info().compute == (0, 0);
        let device_type = if is_host { ON_CPU } else { ON_CUDA };
        let device_id = if is_host { 0 } else { i32::try_from(self.id().0).unwrap_or(i32::MAX) };
        DlDevice { device_type, device_id }
    }

    /// A buffer in the memory of a tensor of another framework, without a copy. The tensor is
    /// returned to its producer when the buffer was dropped and every operation on the buffer is
    /// complete. A host device accepts tensors in memory of the processor.
    ///
    /// # Errors
    /// `InvalidValue` if the tensor is on another device, has another element type, or is not dense
    /// in row-major order. The tensor is then returned to its producer. A tensor without elements
    /// may have any strides and any address.
    ///
    /// # Safety
    /// `tensor` is a live tensor as `dlpack.h` (version 0.8) describes it, and is handed over. Work
    /// of other code on the tensor is complete, or streams and events order this work before every
    /// use of the buffer. Other code does not use the tensor until the tensor is returned to its
    /// producer. For a host device, the elements of the tensor are initialised.
    pub unsafe fn from_dlpack<T: DlElement>(
        &self,
        tensor: NonNull<DlManagedTensor>,
    ) -> Result<Buffer<T>> {
        let imported = Imported(tensor);
        // SAFETY: a live tensor, by this function's contract.
        let tensor = &unsafe { tensor.as_ref() }.tensor;
        let (own, found) = (self.dl_device(), tensor.device);
        if found != own {
            let cause = format!(
                "the tensor is on device type {} number {}, this device is type {} number {}",
                found.device_type, found.device_id, own.device_type, own.device_id
            );
            return Err(refuse(cause));
        }
        let (found, wanted) = (tensor.dtype, type_of::<T>());
        if found != wanted {
            return Err(refuse(format!("the tensor has elements of {found}, not of {wanted}")));
        }
        // SAFETY: a live tensor, by this function's contract.
        let len = unsafe { dense_len(tensor)? };
        let address = match len {
            // In a tensor without elements, the address has no meaning and may be null.
            0 => align_of::<T>() as u64,
            _ => (tensor.data.expose_provenance() as u64).saturating_add(tensor.byte_offset),
        };
        // SAFETY: the memory belongs to this device (checked above), and the tensor keeps the
        // memory alive. The contract of this function contains the other conditions.
        unsafe { self.buffer_from_raw(address, len, imported) }
    }
}

impl<T: DlElement> Buffer<T> {
    /// Converts the buffer to a tensor of one dimension for other frameworks, without a copy. Waits
    /// until every operation on the buffer is complete. The buffer is dropped when the consumer
    /// calls the deleter of the tensor.
    ///
    /// ```
    /// use std::ptr::NonNull;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// let mut x = s.alloc::<u8>(64)?;
    /// s.fill_bytes(&mut x, 7)?;
    /// let address = x.address();
    /// let tensor = x.into_dlpack()?;
    /// // A framework would take the tensor from here. This program takes it back.
    /// // SAFETY: a live tensor, which is handed over.
    /// let x = unsafe { device.from_dlpack::<u8>(tensor)? };
    /// assert_eq!((x.address(), x.len()), (address, 64));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of work that failed, or `Stalled`.
    #[track_caller]
    pub fn into_dlpack(self) -> Result<NonNull<DlManagedTensor>> {
        calling::refuse("DLPack")?;
        self.block.domain().own("DLPack", self.block.track.domain)?;
        let range = self.view().range();
        self.block.host_wait(range, Mode::Write, Location::caller())?;
        let device = match self.block.whole().memory().space() {
            Space::Device(device) if self.block.whole().memory().host().is_none() => {
                DlDevice { device_type: ON_CUDA, device_id: i32::try_from(device.0).unwrap_or(0) }
            }
            Space::Device(_) | Space::Pinned | Space::Pageable => {
                DlDevice { device_type: ON_CPU, device_id: 0 }
            }
        };
        let len = i64::try_from(self.len()).unwrap_or(i64::MAX);
        let address = usize::try_from(self.address()).unwrap_or(usize::MAX);
        let exported = Box::into_raw(Box::new(Exported {
            managed: DlManagedTensor {
                tensor: DlTensor {
                    data: std::ptr::with_exposed_provenance_mut(address),
                    device,
                    ndim: 1,
                    dtype: type_of::<T>(),
                    shape: null_mut(),
                    strides: null_mut(),
                    byte_offset: 0,
                },
                manager_ctx: null_mut(),
                deleter: Some(delete::<T>),
            },
            shape: [len],
            buffer: self,
        }));
        // SAFETY: the box was made just now and is reached from here alone.
        let whole = unsafe { &mut *exported };
        whole.managed.tensor.shape = whole.shape.as_mut_ptr();
        whole.managed.manager_ctx = exported.cast();
        Ok(NonNull::from(&mut whole.managed))
    }
}

impl<T> std::fmt::Debug for Exported<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exported").field("buffer", &self.buffer).finish_non_exhaustive()
    }
}
