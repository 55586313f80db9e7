//! The arguments of a launch in the form of the driver: a pointer to each argument. A tiling is
//! encoded first, and the pointer points to its encoded form.

use super::api::{CuResult, DriverApi, Handle, TensorMap, need};
use super::error::check;
use crate::base::error::Result;
use crate::device::args::{ARGS_MAX, ArgBlock, TILED_MAX};
use crate::device::tiling::{Swizzle, TiledArg, engine_type};
use arrayvec::ArrayVec;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;

/// Members of `CUtensorMapInterleave`, `CUtensorMapL2promotion` and `CUtensorMapFloatOOBfill`.
const NO_INTERLEAVE: c_int = 0;
const PROMOTION_128_BYTES: c_int = 2;
const ZEROS_OUTSIDE: c_int = 0;

/// A pointer to each argument of a launch. The elements after the last argument are never read.
type Pointers = [MaybeUninit<*mut c_void>; ARGS_MAX];

/// Calls `with` with pointers to the arguments.
///
/// # Errors
/// `Unsupported` for a tiling on a driver that cannot encode one; errors of `with`.
#[inline]
pub(super) fn with_pointers<R>(
    api: &DriverApi,
    args: &ArgBlock,
    with: impl FnOnce(*mut *mut c_void) -> Result<R>,
) -> Result<R> {
    // The driver reads one pointer for each argument of the kernel. It does not read the later
    // pointers.
    let mut params: Pointers = [const { MaybeUninit::uninit() }; ARGS_MAX];
    for (param, word) in params.iter_mut().zip(args.iter()) {
        param.write((&raw const *word).cast_mut().cast());
    }
    if args.tiled().is_empty() {
        return with(params.as_mut_ptr().cast());
    }
    // This is a separate function, so that launches without tilings reserve no space for encoded
    // tilings.
    with_tilings(api, args, &mut params, with)
}

/// Encodes the tilings, makes their pointers point to the encoded forms, and calls `with`.
#[cold]
#[inline(never)]
fn with_tilings<R>(
    api: &DriverApi,
    args: &ArgBlock,
    params: &mut Pointers,
    with: impl FnOnce(*mut *mut c_void) -> Result<R>,
) -> Result<R> {
    let mut maps = ArrayVec::<TensorMap, TILED_MAX>::new();
    for arg in args.tiled() {
        let span = args.spans().iter().find(|span| span.index == arg.index);
        let address = span.expect("every tiling has a span of the same index").span.address();
        maps.push(encode(api, arg, address)?);
    }
    for (arg, map) in args.tiled().iter().zip(&mut maps) {
        params[arg.index].write((&raw mut *map).cast());
    }
    with(params.as_mut_ptr().cast())
}

/// The encoded form of a tiling of the memory at `address`.
fn encode(api: &DriverApi, arg: &TiledArg, address: u64) -> Result<TensorMap> {
    const SYMBOL: &str = "cuTensorMapEncodeTiled";
    let encode = need(api.encode_tiled, SYMBOL)?;
    let TiledArg { tiling, element, .. } = arg;
    let number = engine_type(*element).expect("a tiling was checked, so its type has a number");
    let mut map = TensorMap::default();
    // Columns come first, because the elements along the first dimension are adjacent in memory.
    let sides = [tiling.columns as u64, tiling.rows as u64];
    let pitch_bytes = [tiling.pitch_bytes(*element)];
    let boxes: [c_uint; 2] = [tiling.box_columns, tiling.box_rows];
    let steps: [c_uint; 2] = [1, 1];
    // SAFETY: the type is the documented signature. The map is a local variable with its alignment.
    // The arrays have the two dimensions and the one pitch that a matrix has. The call uses the map
    // and the arrays only until it returns. The call does not access the memory at `address`. Even
    // if it did, this memory is as valid as for the launch itself.
    let code: CuResult = unsafe {
        encode(
            &raw mut map,
            number,
            2,
            address as Handle,
            sides.as_ptr(),
            pitch_bytes.as_ptr(),
            boxes.as_ptr(),
            steps.as_ptr(),
            NO_INTERLEAVE,
            swizzle_of(tiling.swizzle),
            PROMOTION_128_BYTES,
            ZEROS_OUTSIDE,
        )
    };
    check(api, SYMBOL, code)?;
    Ok(map)
}

/// The member of `CUtensorMapSwizzle` for a swizzle.
fn swizzle_of(swizzle: Swizzle) -> c_int {
    match swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes128 => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dtype::Dtype;
    use crate::base::error::ErrorKind;
    use crate::device::tiling::Tiling;
    use cudarc::driver::sys;

    #[test]
    fn the_numbers_are_those_of_the_reference_binding() {
        use sys::CUtensorMapDataType_enum as Type;
        let types = [
            (Dtype::U8, Type::CU_TENSOR_MAP_DATA_TYPE_UINT8),
            (Dtype::U16, Type::CU_TENSOR_MAP_DATA_TYPE_UINT16),
            (Dtype::U32, Type::CU_TENSOR_MAP_DATA_TYPE_UINT32),
            (Dtype::I32, Type::CU_TENSOR_MAP_DATA_TYPE_INT32),
            (Dtype::U64, Type::CU_TENSOR_MAP_DATA_TYPE_UINT64),
            (Dtype::I64, Type::CU_TENSOR_MAP_DATA_TYPE_INT64),
            (Dtype::F16, Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16),
            (Dtype::F32, Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32),
            (Dtype::F64, Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64),
            (Dtype::BF16, Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
        ];
        for (ours, theirs) in types {
            assert_eq!(engine_type(ours), Some(theirs as c_int), "{ours:?}");
        }
        let lacking = Dtype::ALL.into_iter().filter(|one| engine_type(*one).is_none());
        let listed = [Dtype::I8, Dtype::I16, Dtype::C64, Dtype::C128];
        assert_eq!(lacking.collect::<Vec<_>>(), listed);
        use sys::CUtensorMapSwizzle_enum as Order;
        assert_eq!(swizzle_of(Swizzle::None), Order::CU_TENSOR_MAP_SWIZZLE_NONE as c_int);
        assert_eq!(swizzle_of(Swizzle::Bytes128), Order::CU_TENSOR_MAP_SWIZZLE_128B as c_int);
        use sys::CUtensorMapInterleave_enum as Interleave;
        assert_eq!(NO_INTERLEAVE, Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE as c_int);
        use sys::CUtensorMapL2promotion_enum as Promotion;
        let promotion = Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
        assert_eq!(PROMOTION_128_BYTES, promotion as c_int);
        use sys::CUtensorMapFloatOOBfill_enum as Outside;
        assert_eq!(ZEROS_OUTSIDE, Outside::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE as c_int);
    }

    #[test]
    fn a_driver_that_cannot_encode_a_tiling_is_told_by_the_name_of_the_function() {
        // This is a library that is not a driver.
        // SAFETY: the library of mathematics of the system has no initialiser that could do harm.
        let library = unsafe { libloading::Library::new("libm.so.6") };
        let api = DriverApi::load(library.expect("every system has it"));
        let tiling = Tiling::new([4, 4], [4, 4]);
        let arg = TiledArg { index: 0, tiling, element: Dtype::F32 };
        let error = encode(&api, &arg, 0x100).expect_err("this library cannot encode a tiling");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("has no `cuTensorMapEncodeTiled`"), "{error}");
    }
}
