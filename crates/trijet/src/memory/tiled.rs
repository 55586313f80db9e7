//! Views with a tiling. A kernel copies the memory of such a view by boxes.
#![forbid(unsafe_code)]

use super::buffer::{View, ViewMut};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::memory::{Space, Span};
use crate::device::tiling::{TiledElement, Tiling};

/// Elements that a kernel reads by boxes of a matrix, see [`View::tiled`].
#[derive(Debug, Clone, Copy)]
pub struct TiledView<'a, T> {
    pub(crate) view: View<'a, T>,
    pub(crate) tiling: Tiling,
}

/// Elements that a kernel writes by boxes of a matrix, see [`ViewMut::tiled`].
#[derive(Debug)]
pub struct TiledViewMut<'a, T> {
    pub(crate) view: ViewMut<'a, T>,
    pub(crate) tiling: Tiling,
}

fn check<T: TiledElement>(tiling: &Tiling, span: &Span, elements: usize) -> Result<()> {
    const {
        assert!(
            size_of::<T>() as u64 == T::TYPE.bytes(),
            "the size of the element type differs from the size of its type in a tiling"
        )
    };
    let why = match span.memory().space() {
        Space::Device(_) | Space::Pinned => tiling.check(T::TYPE, span.address(), elements).err(),
        Space::Pageable => {
            Some(format!("{span}; a tiling needs page-locked memory or memory of a device"))
        }
    };
    match why {
        Some(why) => Err(Error::new(ErrorKind::InvalidValue, "tiling", why)),
        None => Ok(()),
    }
}

impl<'a, T: TiledElement> View<'a, T> {
    /// The same memory as an argument of a kernel that reads it by boxes. The parameter of the
    /// kernel is [`Tiled`](crate::kernels::Tiled).
    ///
    /// ```
    /// use trijet::kernels::Tiling;
    /// use trijet::{Device, Select};
    /// let s = Device::open(Select::Host(0))?.stream()?;
    /// let x = s.alloc_zeroed::<f32>(1000)?;
    /// x.view().tiled(Tiling::new([50, 20], [8, 32]))?;
    /// let refused = x.view().tiled(Tiling::new([51, 20], [8, 32])).unwrap_err();
    /// let cause = "the matrix ends at element 1020, but the view has only 1000 elements";
    /// assert!(refused.to_string().contains(cause));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue`, with the value and its limit, for a tiling that no device accepts.
    /// `InvalidValue` also for a matrix that ends beyond the view, and for pageable memory.
    pub fn tiled(self, tiling: Tiling) -> Result<TiledView<'a, T>> {
        check::<T>(&tiling, &self.span(), self.len())?;
        Ok(TiledView { view: self, tiling })
    }
}

impl<'a, T: TiledElement> ViewMut<'a, T> {
    /// Like [`View::tiled`], for a kernel that writes the memory by boxes.
    ///
    /// The copy engine writes whole units of 16 bytes. If a row ends within a unit, the elements
    /// after it in the same unit are overwritten too, with the content of the kernel's box. All
    /// other elements outside of the matrix keep their values.
    ///
    /// # Errors
    /// The errors of [`View::tiled`]; `InvalidValue` also if the last unit of the last row ends
    /// beyond the view.
    pub fn tiled(self, tiling: Tiling) -> Result<TiledViewMut<'a, T>> {
        check::<T>(&tiling, &self.span(), self.len())?;
        let (end, elements) = (tiling.written_end(T::TYPE), self.len());
        if end > elements as u128 {
            let cause = format!(
                "boxes are written in whole units of 16 bytes, up to element {end}, but the view \
                 has only {elements} elements"
            );
            return Err(Error::new(ErrorKind::InvalidValue, "tiling", cause));
        }
        Ok(TiledViewMut { view: self, tiling })
    }
}
