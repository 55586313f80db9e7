//! Elements whose type is known only at run time, for operations on any real type.
#![forbid(unsafe_code)]

mod block;
mod element;
mod real_type;

pub(crate) use block::{Reading, read, write, write_whole};
pub(crate) use element::{BF16, Element, F16, elements, single};
pub(crate) use real_type::RealType;

/// Evaluates an expression in which a name stands for the Rust type of a [`RealType`].
macro_rules! with_element {
    ($of:expr, $name:ident => $body:expr) => {
        with_element!($of, $name => $body;
            U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64,
            F16 $crate::elements::F16, BF16 $crate::elements::BF16, F32 f32, F64 f64)
    };
    ($of:expr, $name:ident => $body:expr; $($kind:ident $type:ty),*) => {
        match $of {
            $($crate::elements::RealType::$kind => {
                type $name = $type;
                $body
            })*
        }
    };
}
pub(crate) use with_element;
