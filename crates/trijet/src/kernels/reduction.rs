//! Ways to combine elements: sums, minima and maxima.
#![forbid(unsafe_code)]

use super::combine as kernels;
use crate::base::dtype::Dtype;
use crate::base::error::Result;
use crate::device::tiling::TiledElement;
use crate::memory::{Element, View, ViewMut};
use crate::stream::Stream;
use half::bf16;
use std::marker::PhantomData;

/// The numbers of NCCL for the element type `T` and for an operation: `ncclDataType_t` and
/// `ncclRedOp_t` of `nccl.h`.
///
/// NCCL accesses memory according to the number of the element type. Only this library makes such
/// numbers, and only the right number for `T`. So no [`Reduction`] can name an element type that is
/// larger than its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NcclNames<T> {
    pub(crate) element: i32,
    pub(crate) operation: i32,
    of: PhantomData<fn() -> T>,
}

impl<T: TiledElement> NcclNames<T> {
    /// The numbers for an operation. `None` if NCCL lacks the type of the elements.
    const fn of(operation: i32) -> Option<Self> {
        match nccl_type(T::TYPE) {
            Some(element) => Some(Self { element, operation, of: PhantomData }),
            None => None,
        }
    }
}

/// The number of an element type in `ncclDataType_t`; `None` if NCCL lacks the type.
pub(crate) const fn nccl_type(dtype: Dtype) -> Option<i32> {
    match dtype {
        Dtype::I8 => Some(0),
        Dtype::U8 => Some(1),
        Dtype::I32 => Some(2),
        Dtype::U32 => Some(3),
        Dtype::I64 => Some(4),
        Dtype::U64 => Some(5),
        Dtype::F16 => Some(6),
        Dtype::F32 => Some(7),
        Dtype::F64 => Some(8),
        Dtype::BF16 => Some(9),
        Dtype::U16 | Dtype::I16 | Dtype::C64 | Dtype::C128 => None,
    }
}

/// A way to combine elements. It combines the parts of tasks
/// ([`Data::reduce`](crate::task::Data::reduce)), or the data of several devices
/// ([`Communicator::all_reduce`](crate::comm::Communicator::all_reduce)).
pub trait Reduction<T: Element>: Send + Sync + 'static {
    /// The identity. A combination of the identity with a value is the value. For a sum, the
    /// identity is 0.
    const IDENTITY: T;

    /// The numbers of NCCL for this combination of these elements; `None` if NCCL lacks the
    /// combination or the elements.
    const NCCL: Option<NcclNames<T>> = None;

    /// Combines the elements of `part` into the elements of `total`, which has the same length.
    ///
    /// # Errors
    /// The error of the enqueue call.
    fn combine(stream: &Stream, part: View<'_, T>, total: ViewMut<'_, T>) -> Result<()>;
}

/// Sums. Integers wrap.
#[derive(Debug, Clone, Copy)]
pub struct Sum;
/// The minimum. For floating-point numbers it is `minimum` of IEEE 754-2019, as in NumPy and
/// PyTorch: if one number is a NaN, the result is a NaN, and -0 is less than 0. A NaN in the result
/// has the bits of the canonical NaN (`0x7fff_ffff`, or `0x7fff` for bf16). So the result has the
/// same bits in every order.
#[derive(Debug, Clone, Copy)]
pub struct Min;
/// The maximum. For floating-point numbers, if one number is a NaN, the result is a NaN, as for
/// [`Min`]. 0 is greater than -0.
#[derive(Debug, Clone, Copy)]
pub struct Max;

// NCCL ignores a NaN in minima and maxima of floating-point numbers, so NCCL does not run these
// combinations.
macro_rules! reductions {
    ($($of:ty, $type:ty, $identity:expr, $kernel:ident $(, $operation:literal)?;)*) => {$(
        impl Reduction<$type> for $of {
            const IDENTITY: $type = $identity;
            $(const NCCL: Option<NcclNames<$type>> = NcclNames::of($operation);)?

            fn combine(
                stream: &Stream,
                part: View<'_, $type>,
                total: ViewMut<'_, $type>,
            ) -> Result<()> {
                stream.launch(&kernels::$kernel, (part, total))
            }
        }
    )*};
}
reductions! {
    Sum, f32, 0.0, SUM_F32, 0; Min, f32, f32::INFINITY, MIN_F32; Max, f32, f32::NEG_INFINITY, MAX_F32;
    Sum, bf16, bf16::ZERO, SUM_BF16, 0; Min, bf16, bf16::INFINITY, MIN_BF16; Max, bf16, bf16::NEG_INFINITY, MAX_BF16;
    Sum, i32, 0, SUM_I32, 0; Min, i32, i32::MAX, MIN_I32, 3; Max, i32, i32::MIN, MAX_I32, 2;
    Sum, u32, 0, SUM_U32, 0; Min, u32, u32::MAX, MIN_U32, 3; Max, u32, u32::MIN, MAX_U32, 2;
    Sum, i64, 0, SUM_I64, 0; Min, i64, i64::MAX, MIN_I64, 3; Max, i64, i64::MIN, MAX_I64, 2;
    Sum, u64, 0, SUM_U64, 0; Min, u64, u64::MAX, MIN_U64, 3; Max, u64, u64::MIN, MAX_U64, 2;
}
