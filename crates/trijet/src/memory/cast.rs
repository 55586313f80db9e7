//! Bytes as elements of a type that is known only at run time.
#![forbid(unsafe_code)]

use super::buffer::{Element, View, ViewMut};
use crate::base::error::{Error, ErrorKind, Result};

/// Refuses bytes that are no elements of `T`.
fn check<T>(address: u64, bytes: usize) -> Result<()> {
    let (size, align) = (size_of::<T>(), align_of::<T>());
    let cause = if size == 0 || !bytes.is_multiple_of(size) {
        format!("{bytes} bytes are not a whole number of elements of {size} bytes")
    } else if !address.is_multiple_of(align as u64) {
        format!("the address {address:#x} is not a multiple of {align}, as the elements need")
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidValue, "cast", cause))
}

macro_rules! casts {
    ($view:ident, $($borrow:tt)?) => {
        impl<'a> $view<'a, u8> {
            /// The bytes as elements of `T`.
            ///
            /// ```
            /// use trijet::{Device, Select};
            /// let stream = Device::open(Select::Host(0))?.stream()?;
            /// let mut bytes = stream.upload(&[1_u8, 0, 2, 0, 3])?;
            /// assert_eq!(bytes.slice(..4).cast::<u16>()?.len(), 2);
            /// assert_eq!(bytes.slice_mut(..4).cast::<u16>()?.len(), 2);
            /// assert!(bytes.view().cast::<u16>().is_err(), "five bytes are no elements of u16");
            /// assert!(bytes.slice(1..).cast::<u16>().is_err(), "the address is odd");
            /// # Ok::<(), trijet::Error>(())
            /// ```
            ///
            /// # Errors
            /// `InvalidValue` if the bytes are not a whole number of elements, or their address is
            /// not aligned for `T`.
            pub fn cast<T: Element>(self) -> Result<$view<'a, T>> {
                check::<T>(self.span().address(), self.len())?;
                Ok($view::from_bytes($($borrow)? self))
            }
        }
    };
}
casts!(View, &);
casts!(ViewMut,);
