//! Messages between devices of several processes, through host memory and the connections of the
//! ranks.
#![forbid(unsafe_code)]

use super::member::Member;
use crate::base::error::Result;
use crate::memory::{Element, View, ViewMut};
use crate::ranks::Ranks;
use std::sync::Arc;

/// The connection of a communicator to the ranks in other processes.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) group: Arc<Ranks>,
    /// The channel of the communicator: a number that is the same on all ranks.
    pub(super) channel: u64,
    /// For each rank of the communicator, the rank of its process in the group.
    pub(super) processes: Vec<usize>,
}

impl Mail {
    /// The rank of this process in the communicator.
    pub(super) fn rank(&self) -> usize {
        let own = self.group.rank();
        self.processes.iter().position(|process| *process == own).expect("this process has a rank")
    }

    /// Gathers the bytes of all ranks of the communicator, in the order of the ranks. All ranks
    /// make this call.
    pub(super) fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let group = &self.group.0;
        self.processes.iter().try_for_each(|process| group.post(*process, self.channel, bytes))?;
        self.processes.iter().map(|process| group.take(*process, self.channel)).collect()
    }

    /// Waits until the elements are written, and sends the elements to a rank.
    #[track_caller]
    pub(super) fn post<T: Element>(
        &self,
        member: &Member,
        to: usize,
        data: View<'_, T>,
    ) -> Result<()> {
        let elements = if data.is_empty() { Vec::new() } else { member.copies.download(&data)? };
        self.group.0.post(self.processes[to], self.channel, bytemuck::cast_slice(&elements))
    }

    /// Waits for the next message from a rank, and enqueues the copy of its elements into `into`.
    #[track_caller]
    pub(super) fn take<T: Element>(
        &self,
        member: &Member,
        from: usize,
        mut into: ViewMut<'_, T>,
    ) -> Result<()> {
        let from = self.processes[from];
        let bytes = self.group.0.take(from, self.channel)?;
        let expected = into.len() * size_of::<T>();
        if bytes.len() != expected {
            let found = bytes.len();
            let cause = format!("rank {from} sent {found} bytes, but this rank expects {expected}");
            return Err(self.group.0.unfit(cause));
        }
        if expected == 0 {
            return Ok(());
        }
        let mut staged = member.device.pinned::<T>(into.len())?;
        bytemuck::cast_slice_mut::<T, u8>(&mut staged.write()?).copy_from_slice(&bytes);
        member.copies.copy(&staged, &mut into)
    }
}
