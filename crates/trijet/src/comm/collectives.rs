//! The collectives of a communicator.
#![forbid(unsafe_code)]

use super::communicator::{Communicator, refused};
use super::copies::{chains, ring};
use super::exchange::{DeviceMessage, Exchange};
use super::nccl::Nccl;
use super::team::Team;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::device::driver::Collective;
use crate::kernels::{NcclNames, Reduction};
use crate::memory::{Element, View, ViewMut};
use crate::ranks::steps::{Step, type_named};

/// Maximum number of messages per process in one exchange. The announcement of this number of
/// messages fits into a frame.
const MESSAGES_MAX: usize = 2000;

/// A call of a collective, for checks and for error messages.
struct CollectiveCall {
    op: &'static str,
    elements: usize,
    element: fn() -> String,
    element_bytes: usize,
    by: Option<fn() -> String>,
    root: Option<usize>,
    /// Whether NCCL runs the collective. A collective of NCCL does not wait for the calls of other
    /// ranks.
    is_nccl: bool,
    /// The number of earlier collectives of the communicator.
    number: u64,
}

impl CollectiveCall {
    fn step(&self) -> Step {
        Step {
            elements: Some(self.elements as u64),
            element: (self.element)(),
            element_bytes: u32::try_from(self.element_bytes).unwrap_or(u32::MAX),
            by: self.by.map(|name| name()),
            root: self.root.and_then(|root| u32::try_from(root).ok()),
            is_awaited: !self.is_nccl,
            ..Step::new(self.op)
        }
    }
}

impl Communicator {
    /// Combines the elements of all devices, and writes the results to each device. `data` has one
    /// view for each device of this process, in the order of the communicator. All views have the
    /// same length.
    ///
    /// The elements are cut into as many segments as there are devices, with lengths as equal as
    /// possible. The elements of segment `k` are combined in the order of the devices, starting
    /// with device `k`; after the last device comes device 0. So the result has the same bits in
    /// each run and on each device, even though a sum of floating-point numbers depends on the
    /// order.
    ///
    /// With NCCL, NCCL chooses the order. Without NCCL, transfers use copy engines, and only
    /// combinations use multiprocessors. Each of `n` devices sends `2 (n - 1) / n` of the data, and
    /// combines `(n - 1) / n` of the data.
    ///
    /// # Errors
    /// `InvalidValue` if `data` does not have one view for each device of this process, if a view
    /// is not on its device, or if lengths differ; `OutOfMemory`; `PeerLost`; errors of the enqueue
    /// calls. After an error the data may have any values.
    #[track_caller]
    pub fn all_reduce<T: Element, R: Reduction<T>>(
        &self,
        data: &mut [ViewMut<'_, T>],
        how: R,
    ) -> Result<()> {
        const OP: &str = Collective::AllReduce.name();
        let _how = how;
        let call = self.demand(self.call_by::<T, R>(OP, None), &of_mut(data), 1)?;
        match self.nccl_by::<T, R>() {
            _ if call.elements == 0 => Ok(()),
            Some((nccl, names)) => nccl.all_reduce(&self.team(), call.number, names, data),
            None => self.by_copies(OP).end(ring::all_reduce::<T, R>(&self.team(), data)),
        }
    }

    /// Copies the elements of the device `root` to all other devices. `data` has one view for each
    /// device of this process.
    ///
    /// ```
    /// use trijet::comm::Communicator;
    /// use trijet::sim::HostConfig;
    /// use trijet::Device;
    /// let devices = Device::host(HostConfig::new().devices(2))?;
    /// let (a, b) = (devices[0].stream()?, devices[1].stream()?);
    /// let (mut x, mut y) = (a.alloc::<u32>(3)?, b.upload(&[1, 2, 3])?);
    /// let communicator = Communicator::builder().devices(&devices).open()?;
    /// communicator.broadcast(&mut [x.view_mut(), y.view_mut()], 1)?;
    /// assert_eq!(a.download(&x)?, [1, 2, 3]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Communicator::all_reduce`]; `InvalidValue` if there is no device `root`.
    #[track_caller]
    pub fn broadcast<T: Element>(&self, data: &mut [ViewMut<'_, T>], root: usize) -> Result<()> {
        const OP: &str = Collective::Broadcast.name();
        let call = self.demand(self.call::<T>(OP, Some(root)), &of_mut(data), 1)?;
        match &self.nccl {
            _ if call.elements == 0 => Ok(()),
            Some(nccl) => nccl.broadcast(&self.team(), root, call.number, data),
            None => self.by_copies(OP).end(chains::broadcast(&self.team(), root, data)),
        }
    }

    /// Combines the elements of all devices at the device `root`. `into` must be `Some` if `root`
    /// is a device of this process, and `None` otherwise.
    ///
    /// The elements are combined in the order of the devices, starting with the device after `root`
    /// and ending with `root`. With NCCL, NCCL chooses the order.
    ///
    /// # Errors
    /// As for [`Communicator::broadcast`]; `InvalidValue` if `into` is `Some` in a process without
    /// `root`, or `None` in the process with `root`.
    #[track_caller]
    pub fn reduce<T: Element, R: Reduction<T>>(
        &self,
        from: &[View<'_, T>],
        into: Option<ViewMut<'_, T>>,
        how: R,
        root: usize,
    ) -> Result<()> {
        const OP: &str = Collective::Reduce.name();
        let _how = how;
        let team = self.team();
        let at = team.local(root);
        let shape = (0, into.as_ref().map_or(0, ViewMut::len));
        match (&into, at) {
            (Some(into), Some(at)) => {
                let member = &team.members[at];
                if into.device_id() != Some(member.device.id())
                    || shape.1 != from.get(at).map_or(0, View::len)
                {
                    let (device, len) = (member.device.id(), shape.1);
                    let cause = format!(
                        "`into` has {len} elements; it must be on {device}, with as many \
                         elements as the data of {device}"
                    );
                    return Err(refused(OP, cause));
                }
            }
            (None, None) => {}
            (Some(_), None) => {
                return Err(refused(
                    OP,
                    format!(
                        "`into` is given, but device {root} is in another process; pass `None`"
                    ),
                ));
            }
            (None, Some(_)) => {
                return Err(refused(
                    OP,
                    format!("`into` is `None`, but device {root} is in this process; pass a view"),
                ));
            }
        }
        let call = self.demand(self.call_by::<T, R>(OP, Some(root)), &of(from), 1)?;
        let mut results: Vec<_> = from.iter().map(|_| None).collect();
        if let Some(at) = at {
            results[at] = into;
        }
        match self.nccl_by::<T, R>() {
            _ if call.elements == 0 => Ok(()),
            Some((nccl, names)) => nccl.reduce(&team, root, call.number, names, from, &mut results),
            None => {
                self.by_copies(OP).end(chains::reduce::<T, R>(&team, &[root], from, &mut results))
            }
        }
    }

    /// Gathers the elements of all devices on each device. Each view of `into` has room for the
    /// elements of all devices, in the order of the devices.
    ///
    /// # Errors
    /// As for [`Communicator::all_reduce`].
    #[track_caller]
    pub fn all_gather<T: Element>(
        &self,
        from: &[View<'_, T>],
        into: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        const OP: &str = Collective::AllGather.name();
        self.demand_lens(OP, &of_mut(into), from.first().map_or(0, View::len) * self.len())?;
        let call = self.demand(self.call::<T>(OP, None), &of(from), 1)?;
        match &self.nccl {
            _ if call.elements == 0 => Ok(()),
            Some(nccl) => nccl.all_gather(&self.team(), call.number, from, into),
            None => self.by_copies(OP).end(chains::all_gather(&self.team(), from, into)),
        }
    }

    /// Combines the elements of all devices, and writes one part of the result to each device. Each
    /// view of `from` has as many parts as there are devices. The result of part `k` is written to
    /// `into` of device `k`.
    ///
    /// The elements of part `k` are combined in the same order as by [`Communicator::reduce`] with
    /// the root `k`.
    ///
    /// # Errors
    /// As for [`Communicator::all_reduce`].
    #[track_caller]
    pub fn reduce_scatter<T: Element, R: Reduction<T>>(
        &self,
        from: &[View<'_, T>],
        into: &mut [ViewMut<'_, T>],
        how: R,
    ) -> Result<()> {
        const OP: &str = Collective::ReduceScatter.name();
        let _how = how;
        self.demand_lens(OP, &of_mut(into), from.first().map_or(0, View::len) / self.len())?;
        let call = self.demand(self.call_by::<T, R>(OP, None), &of(from), self.len())?;
        match self.nccl_by::<T, R>() {
            _ if call.elements == 0 => Ok(()),
            Some((nccl, names)) => {
                nccl.reduce_scatter(&self.team(), call.number, names, from, into)
            }
            None => {
                let roots: Vec<usize> = (0..self.len()).collect();
                let mut results: Vec<_> = into.iter_mut().map(|one| Some(one.reborrow())).collect();
                self.by_copies(OP).end(chains::reduce::<T, R>(
                    &self.team(),
                    &roots,
                    from,
                    &mut results,
                ))
            }
        }
    }

    /// Sends a part of the elements of each device to each device: part `k` of `from` of device `j`
    /// becomes part `j` of `into` of device `k`.
    ///
    /// # Errors
    /// As for [`Communicator::all_reduce`].
    #[track_caller]
    pub fn all_to_all<T: Element>(
        &self,
        from: &[View<'_, T>],
        into: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        const OP: &str = Collective::AllToAll.name();
        self.demand_lens(OP, &of_mut(into), from.first().map_or(0, View::len))?;
        let call = self.demand(self.call::<T>(OP, None), &of(from), self.len())?;
        match &self.nccl {
            _ if call.elements == 0 => Ok(()),
            Some(nccl) => nccl.all_to_all(&self.team(), call.number, from, into),
            None => self.by_copies(OP).end(chains::all_to_all(&self.team(), from, into)),
        }
    }

    /// Sends messages between devices, all at once: no message waits for an earlier message. All
    /// ranks make this call, including ranks without messages.
    ///
    /// ```
    /// use trijet::comm::{Communicator, Exchange};
    /// use trijet::sim::HostConfig;
    /// use trijet::Device;
    /// let devices = Device::host(HostConfig::new().devices(2))?;
    /// let (a, b) = (devices[0].stream()?, devices[1].stream()?);
    /// let (mut x, mut y) = (a.upload(&[1_u32, 0])?, b.upload(&[0_u32, 2])?);
    /// let (mut to_a, mut to_b) = (a.alloc::<u32>(1)?, b.alloc::<u32>(1)?);
    /// let both = Exchange::new()
    ///     .send(x.slice(..1), 1)
    ///     .receive(to_b.view_mut(), 0)
    ///     .send(y.slice(1..), 0)
    ///     .receive(to_a.view_mut(), 1);
    /// Communicator::builder().devices(&devices).open()?.exchange(both)?;
    /// assert_eq!((a.download(&to_a)?, b.download(&to_b)?), (vec![2], vec![1]));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for a view that is not in the memory of a device of this process, for a
    /// device that does not exist, or for more than 2000 messages. `InvalidValue` for a message
    /// between devices of this process that no receive of the same length matches. Otherwise as for
    /// [`Communicator::all_reduce`].
    #[track_caller]
    pub fn exchange<T: Element>(&self, messages: Exchange<'_, T>) -> Result<()> {
        const OP: &str = Collective::Exchange.name();
        let team = self.team();
        let rank = |device: Option<DeviceId>, other: usize| {
            if other >= team.count {
                return Err(refused(
                    OP,
                    format!(
                        "device {other} does not exist; there are {}, counted from 0",
                        team.count
                    ),
                ));
            }
            let at = team.members.iter().position(|one| Some(one.device.id()) == device);
            let cause = || "a view is not in the memory of a device of this process".to_owned();
            at.map(|at| team.first + at).ok_or_else(|| refused(OP, cause()))
        };
        let Exchange { sends, receives } = messages;
        let given = sends.len() + receives.len();
        if given > MESSAGES_MAX {
            let cause = format!("{given} messages are too many; the limit is {MESSAGES_MAX}");
            return Err(refused(OP, cause));
        }
        let mut step = Step { elements: None, ..self.call::<T>(OP, None).step() };
        let number = |rank: usize| u32::try_from(rank).unwrap_or(u32::MAX);
        let (mut out, mut inward) = (Vec::new(), Vec::new());
        for (data, to) in sends {
            let from = rank(data.device_id(), to)?;
            step.sends.push((number(to), data.len() as u64));
            out.push(DeviceMessage { from, to, data });
        }
        for (data, from) in receives {
            let to = rank(data.device_id(), from)?;
            step.receives.push((number(from), data.len() as u64));
            inward.push(DeviceMessage { from, to, data });
        }
        let matching = pairs(&out, &inward, |rank| team.local(rank).is_some())?;
        let number = self.announce(|| step)?;
        match &self.nccl {
            Some(nccl) => nccl.exchange(&team, number, &out, &mut inward),
            None if team.mail.is_some() => {
                self.by_copies(OP).end(sent_and_received(&team, &out, inward))
            }
            None => inward.into_iter().zip(matching).try_for_each(|(message, at)| {
                let DeviceMessage { from, to, data } = message;
                let source = at.map(|at| out[at].data.slice(..));
                team.hop((from, to), source, Some(data))
            }),
        }
    }

    /// Describes a call of a collective that moves elements.
    fn call<T>(&self, op: &'static str, root: Option<usize>) -> CollectiveCall {
        let (element, element_bytes, is_nccl) =
            (type_named::<T>, size_of::<T>(), self.nccl.is_some());
        CollectiveCall {
            op,
            elements: 0,
            element,
            element_bytes,
            by: None,
            root,
            is_nccl,
            number: 0,
        }
    }

    /// Describes a call of a collective that combines elements.
    fn call_by<T: Element, R: Reduction<T>>(
        &self,
        op: &'static str,
        root: Option<usize>,
    ) -> CollectiveCall {
        let (by, is_nccl) =
            (Some(type_named::<R> as fn() -> String), self.nccl_by::<T, R>().is_some());
        CollectiveCall { by, is_nccl, ..self.call::<T>(op, root) }
    }

    /// Returns NCCL, and the numbers of NCCL for the element type and for the combination. `None`
    /// if the communicator does not use NCCL, or if NCCL does not have the combination.
    fn nccl_by<T: Element, R: Reduction<T>>(&self) -> Option<(&Nccl, NcclNames<T>)> {
        self.nccl.as_deref().zip(R::NCCL)
    }

    /// Checks the views of the devices of this process, and tells rank 0 the call of this rank. The
    /// length of each view must be a multiple of `parts`.
    fn demand(
        &self,
        mut call: CollectiveCall,
        data: &[(Option<DeviceId>, usize)],
        parts: usize,
    ) -> Result<CollectiveCall> {
        let (op, count) = (call.op, self.len());
        if let Some(root) = call.root.filter(|root| *root >= count) {
            return Err(refused(
                op,
                format!("device {root} does not exist; there are {count}, counted from 0"),
            ));
        }
        let len = data.first().map_or(0, |one| one.1);
        self.demand_lens(op, data, len)?;
        if !len.is_multiple_of(parts) {
            return Err(refused(
                op,
                format!("{len} elements cannot be cut into {parts} equal parts"),
            ));
        }
        call.elements = len;
        call.number = self.announce(|| call.step())?;
        Ok(call)
    }

    /// Refuses `data` unless it has one view of `expected` elements for each device of this
    /// process.
    fn demand_lens(
        &self,
        op: &'static str,
        data: &[(Option<DeviceId>, usize)],
        expected: usize,
    ) -> Result<()> {
        let members = self.team().members;
        let (count, given) = (members.len(), data.len());
        if count != given {
            return Err(refused(
                op,
                format!("{given} views for {count} devices; give one view for each"),
            ));
        }
        for (number, (member, (device, len))) in members.iter().zip(data).enumerate() {
            let own = member.device.id();
            if *device != Some(own) {
                return Err(refused(op, format!("view {number} is not in the memory of {own}")));
            }
            if *len != expected {
                return Err(refused(
                    op,
                    format!("view {number} has {len} elements, but needs {expected}"),
                ));
            }
        }
        Ok(())
    }
}

/// Returns, for each receive, the index of its message in `out`. The index is `None` if another
/// process sends the message.
///
/// # Errors
/// A message between devices of this process that no receive matches, or a receive that no message
/// matches.
fn pairs<T: Element>(
    out: &[DeviceMessage<View<'_, T>>],
    inward: &[DeviceMessage<ViewMut<'_, T>>],
    is_here: impl Fn(usize) -> bool,
) -> Result<Vec<Option<usize>>> {
    let mut is_left: Vec<bool> = out.iter().map(|sent| is_here(sent.to)).collect();
    let mut matching = Vec::with_capacity(inward.len());
    for DeviceMessage { from, to, data } in inward {
        if !is_here(*from) {
            matching.push(None);
            continue;
        }
        let fits = |at: &usize| is_left[*at] && (out[*at].from, out[*at].to) == (*from, *to);
        let at = (0..out.len()).find(fits);
        let sent = at.map(|at| out[at].data.len());
        if sent != Some(data.len()) {
            let (len, sent) = (data.len(), sent.map_or("none".to_owned(), |sent| sent.to_string()));
            let cause = format!(
                "device {to} receives {len} elements from device {from}, which sends {sent}"
            );
            return Err(refused(Collective::Exchange.name(), cause));
        }
        at.iter().for_each(|at| is_left[*at] = false);
        matching.push(at);
    }
    if let Some(at) = is_left.iter().position(|left| *left) {
        let DeviceMessage { from, to, data } = &out[at];
        let len = data.len();
        let cause = format!(
            "device {from} sends {len} elements to device {to}, which does not receive them"
        );
        return Err(refused(Collective::Exchange.name(), cause));
    }
    Ok(matching)
}

/// Sends all messages to other processes. Then waits for all messages to this process.
#[track_caller]
fn sent_and_received<T: Element>(
    team: &Team<'_>,
    out: &[DeviceMessage<View<'_, T>>],
    inward: Vec<DeviceMessage<ViewMut<'_, T>>>,
) -> Result<()> {
    // Another process may wait for a message of this process. So all sends come before the first
    // receive.
    for DeviceMessage { from, to, data } in out {
        team.hop::<T>((*from, *to), Some(data.slice(..)), None)?;
    }
    for DeviceMessage { from, to, data } in inward {
        team.hop::<T>((from, to), None, Some(data))?;
    }
    Ok(())
}

/// The device and the length of each view.
fn of<T: Element>(data: &[View<'_, T>]) -> Vec<(Option<DeviceId>, usize)> {
    data.iter().map(|one| (one.device_id(), one.len())).collect()
}

fn of_mut<T: Element>(data: &[ViewMut<'_, T>]) -> Vec<(Option<DeviceId>, usize)> {
    data.iter().map(|one| (one.device_id(), one.len())).collect()
}

#[cfg(test)]
mod tests {
    use crate::kernels::Sum;
    use crate::ranks::steps::type_named;

    #[test]
    fn a_combination_of_the_library_has_a_short_name() {
        assert_eq!(type_named::<Sum>(), "Sum");
    }
}
