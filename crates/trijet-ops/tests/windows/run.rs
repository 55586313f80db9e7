//! Runs operations: all rows in one call, or some rows in each of several calls.

use crate::draw::Draw;
use std::ops::Range;
use trijet::{Device, Result, Select, Stream};
use trijet_ops::{Operation, RowsOfCall, Typed};

/// The device on which operations run, and its stream.
#[derive(Debug)]
pub(crate) struct Machine {
    device: Device,
    pub(crate) stream: Stream,
}

/// The bytes of some rows.
fn bytes_of(array: &Typed, rows: &Range<u64>) -> Range<usize> {
    let row = array.stack().unwrap().width * array.dtype.bytes();
    (rows.start * row) as usize..(rows.end * row) as usize
}

impl Machine {
    /// A GPU, if there is one, and a host device otherwise.
    pub(crate) fn open() -> Self {
        Self::on(Select::Auto)
    }

    /// A device that runs the twins of the kernels.
    pub(crate) fn host() -> Self {
        Self::on(Select::Host(0))
    }

    fn on(select: Select) -> Self {
        let device = Device::open(select).unwrap();
        let stream = device.stream().unwrap();
        Self { device, stream }
    }

    /// Computes the rows `rows.y` from the rows `rows.x`.
    pub(crate) fn call(
        &self,
        operation: &dyn Operation,
        array: &Typed,
        bytes: &[u8],
        rows: RowsOfCall,
    ) -> Result<Vec<u8>> {
        let x = self.stream.upload(&bytes[bytes_of(array, &rows.x)])?;
        let mut y = self.stream.alloc::<u8>(bytes_of(&operation.output(array)?, &rows.y).len())?;
        operation.enqueue(&self.stream, array, &rows, x.view(), y.view_mut())?;
        self.stream.download(&y)
    }

    /// Computes all rows in one call.
    pub(crate) fn whole(
        &self,
        operation: &dyn Operation,
        array: &Typed,
        bytes: &[u8],
    ) -> Result<Vec<u8>> {
        let all = 0..array.stack()?.rows();
        operation.load(&self.device, array)?;
        self.call(operation, array, bytes, RowsOfCall { x: all.clone(), y: all })
    }

    /// Computes the rows in calls that divide them at drawn rows. A call gets the rows that the
    /// operation asks for, and sometimes more.
    pub(crate) fn divided(
        &self,
        operation: &dyn Operation,
        array: &Typed,
        bytes: &[u8],
        draw: &mut Draw,
    ) -> Result<Vec<u8>> {
        let all = array.stack()?.rows();
        let mut found = Vec::new();
        let mut first = 0;
        while first < all {
            let y = first..first + 1 + draw.to((all - first - 1).min(9));
            let mut x = operation.input_rows(array, y.clone());
            if draw.to(3) == 0 {
                x = x.start - draw.to(x.start.min(3))..(x.end + draw.to(3)).min(all);
            }
            first = y.end;
            found.extend(self.call(operation, array, bytes, RowsOfCall { x, y })?);
        }
        Ok(found)
    }
}
