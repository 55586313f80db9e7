//! Messages between the devices of a communicator.
#![forbid(unsafe_code)]

use crate::memory::{Element, View, ViewMut};

/// Messages for [`Communicator::exchange`](super::Communicator::exchange). Between the same two
/// devices, the first receive gets the first message, the second receive gets the second message,
/// and so on.
#[derive(Debug)]
#[must_use = "call `Communicator::exchange` to send this"]
pub struct Exchange<'a, T> {
    pub(super) sends: Vec<(View<'a, T>, usize)>,
    pub(super) receives: Vec<(ViewMut<'a, T>, usize)>,
}

impl<T> Default for Exchange<'_, T> {
    fn default() -> Self {
        Self { sends: Vec::new(), receives: Vec::new() }
    }
}

impl<'a, T: Element> Exchange<'a, T> {
    /// An exchange without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message: sends elements to the device `to` of the communicator, from the device that
    /// has the memory of `data`.
    pub fn send(mut self, data: View<'a, T>, to: usize) -> Self {
        self.sends.push((data, to));
        self
    }

    /// Adds a receive: receives elements from the device `from` of the communicator, on the device
    /// that has the memory of `into`.
    pub fn receive(mut self, into: ViewMut<'a, T>, from: usize) -> Self {
        self.receives.push((into, from));
        self
    }
}

/// The data of a message, with the ranks of its sender and its receiver.
pub(super) struct DeviceMessage<V> {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) data: V,
}
