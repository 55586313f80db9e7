//! The collectives of a communicator.
#![forbid(unsafe_code)]

use super::communicator::{Communicator, refused};
use super::exchange::Exchange;
use super::nccl::Nccl;
use super::rank_steps::{Step, type_named};
use super::team::Team;
use super::{chains, ring};
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::kernels::{NcclNames, Reduction};
use crate::memory::{Element, View, ViewMut};

/// The most messages of an exchange on a process, so that an announcement fits into a frame.
const MESSAGES_MAX: usize = 2000;

/// A collective that is to be called, for checks and messages.
struct CollectiveCall {
    op: &'static str,
    elements: usize,
    element: fn() -> String,
    element_bytes: usize,
    by: Option<fn() -> String>,
    root: Option<usize>,
    /// NCCL makes it, so that the call does not wait for other ranks.
    is_nccl: bool,
    /// The collectives of the communicator before it.
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
    /// Combines the elements of all devices, and writes the results to each: `data` has those of each device of this process, in the order of
    /// the communicator, and as many on each.
    ///
    /// The elements are cut into as many segments as there are devices, as equal as they can be. The elements of segment `k` are
    /// combined in the order of the devices, beginning with device `k` and going on with device 0 behind the last one. So the
    /// result has the same bits in each run and on each device, also where the sum of floating-point numbers depends on the
    /// order.
    ///
    /// All of this is so without NCCL. Transfers use copy engines then, and only the combinations use multiprocessors: those of `n` devices send and combine
    /// `2 (n - 1) / n` and `(n - 1) / n` of the data.
    ///
    /// # Errors
    /// `InvalidValue` if the views are not one for each device of this process, not on these devices, or of different lengths; `OutOfMemory`;
    /// `PeerLost`; what the enqueue calls report. After an error the data may have any values.
    #[track_caller]
    pub fn all_reduce<T: Element, R: Reduction<T>>(
        &self,
        how: R,
        data: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        const OP: &str = "all_reduce";
        let _how = how;
        let call = self.demand(self.call_by::<T, R>(OP, None), &of_mut(data), 1)?;
        match self.nccl_by::<T, R>() {
            _ if call.elements == 0 => Ok(()),
            Some((nccl, names)) => nccl.all_reduce(&self.team(), call.number, names, data),
            None => self.by_copies(OP).end(ring::all_reduce::<T, R>(&self.team(), data)),
        }
    }

    /// Copies the elements of the device `root` to all others. `data` has a view for each device of this process.
    ///
    /// ```
    /// use trijet::comm::Communicator;
    /// use trijet::sim::HostConfig;
    /// use trijet::Device;
    /// let devices = Device::host(HostConfig { devices: 2, ..HostConfig::default() })?;
    /// let (a, b) = (devices[0].stream()?, devices[1].stream()?);
    /// let (mut x, mut y) = (a.alloc::<u32>(3)?, b.upload(&[1, 2, 3])?);
    /// Communicator::over(&devices)?.broadcast(1, &mut [x.view_mut(), y.view_mut()])?;
    /// assert_eq!(a.download(&x)?, [1, 2, 3]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Communicator::all_reduce`]; `InvalidValue` if there is no device `root`.
    #[track_caller]
    pub fn broadcast<T: Element>(&self, root: usize, data: &mut [ViewMut<'_, T>]) -> Result<()> {
        const OP: &str = "broadcast";
        let call = self.demand(self.call::<T>(OP, Some(root)), &of_mut(data), 1)?;
        match &self.nccl {
            _ if call.elements == 0 => Ok(()),
            Some(nccl) => nccl.broadcast(&self.team(), (root, call.number), data),
            None => self.by_copies(OP).end(chains::broadcast(&self.team(), root, data)),
        }
    }

    /// Combines the elements of all devices at the device `root`: `into` is there if it is one of this process.
    ///
    /// Elements are combined in the order of the devices, beginning with the one behind `root` and ending with `root`; by NCCL in the order of its choice.
    ///
    /// # Errors
    /// As for [`Communicator::broadcast`]; `InvalidValue` for a result on a process without `root`, and for none on that with it.
    #[track_caller]
    pub fn reduce<T: Element, R: Reduction<T>>(
        &self,
        how: R,
        root: usize,
        from: &[View<'_, T>],
        into: Option<ViewMut<'_, T>>,
    ) -> Result<()> {
        const OP: &str = "reduce";
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
                        "the result of {len} elements is not one of {device} with as many as it gives"
                    );
                    return Err(refused(OP, cause));
                }
            }
            (None, None) => {}
            (Some(_), None) => {
                return Err(refused(
                    OP,
                    format!("there is a result, and device {root} is one of another process"),
                ));
            }
            (None, Some(_)) => {
                return Err(refused(
                    OP,
                    format!("there is no room for the result of device {root}"),
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
            Some((nccl, names)) => {
                nccl.reduce(&team, (root, call.number), names, (from, &mut results))
            }
            None => {
                self.by_copies(OP).end(chains::reduce::<T, R>(&team, &[root], from, &mut results))
            }
        }
    }

    /// Gathers the elements of all devices on each: `into` has room for those of all, in the order of the devices.
    ///
    /// # Errors
    /// As for [`Communicator::all_reduce`].
    #[track_caller]
    pub fn all_gather<T: Element>(
        &self,
        from: &[View<'_, T>],
        into: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        const OP: &str = "all_gather";
        self.demand_lens(OP, &of_mut(into), from.first().map_or(0, View::len) * self.len())?;
        let call = self.demand(self.call::<T>(OP, None), &of(from), 1)?;
        match &self.nccl {
            _ if call.elements == 0 => Ok(()),
            Some(nccl) => nccl.all_gather(&self.team(), call.number, from, into),
            None => self.by_copies(OP).end(chains::all_gather(&self.team(), from, into)),
        }
    }

    /// Combines the elements of all devices, and gives each device its part: part `k` of `from`, which has as many parts as there are
    /// devices, goes to `into` of device `k`.
    ///
    /// The elements of part `k` are combined as [`Communicator::reduce`] does with `k` as the root.
    ///
    /// # Errors
    /// As for [`Communicator::all_reduce`].
    #[track_caller]
    pub fn reduce_scatter<T: Element, R: Reduction<T>>(
        &self,
        how: R,
        from: &[View<'_, T>],
        into: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        const OP: &str = "reduce_scatter";
        let _how = how;
        self.demand_lens(OP, &of_mut(into), from.first().map_or(0, View::len) / self.len())?;
        let call = self.demand(self.call_by::<T, R>(OP, None), &of(from), self.len())?;
        match self.nccl_by::<T, R>() {
            _ if call.elements == 0 => Ok(()),
            Some((nccl, names)) => {
                nccl.reduce_scatter(&self.team(), call.number, names, (from, into))
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

    /// Each device gives a part of its elements to each: part `k` of `from` of device `j` becomes part `j` of `into` of device `k`.
    ///
    /// # Errors
    /// As for [`Communicator::all_reduce`].
    #[track_caller]
    pub fn all_to_all<T: Element>(
        &self,
        from: &[View<'_, T>],
        into: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        const OP: &str = "all_to_all";
        self.demand_lens(OP, &of_mut(into), from.first().map_or(0, View::len))?;
        let call = self.demand(self.call::<T>(OP, None), &of(from), self.len())?;
        match &self.nccl {
            _ if call.elements == 0 => Ok(()),
            Some(nccl) => nccl.all_to_all(&self.team(), call.number, from, into),
            None => self.by_copies(OP).end(chains::all_to_all(&self.team(), from, into)),
        }
    }

    /// Sends messages between devices, all together: none waits for one before it. All ranks make this call, also those without messages.
    ///
    /// ```
    /// use trijet::comm::{Communicator, Exchange};
    /// use trijet::sim::HostConfig;
    /// use trijet::Device;
    /// let devices = Device::host(HostConfig { devices: 2, ..HostConfig::default() })?;
    /// let (a, b) = (devices[0].stream()?, devices[1].stream()?);
    /// let (mut x, mut y) = (a.upload(&[1_u32, 0])?, b.upload(&[0_u32, 2])?);
    /// let (mut to_a, mut to_b) = (a.alloc::<u32>(1)?, b.alloc::<u32>(1)?);
    /// let both = Exchange::new()
    ///     .send(x.slice(..1), 1)
    ///     .receive(to_b.view_mut(), 0)
    ///     .send(y.slice(1..), 0)
    ///     .receive(to_a.view_mut(), 1);
    /// Communicator::over(&devices)?.exchange(both)?;
    /// assert_eq!((a.download(&to_a)?, b.download(&to_b)?), (vec![2], vec![1]));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for memory of no device of this process, a device that is not there, more than 2000 messages, and, within the process, for a message without a receive
    /// of its length; otherwise as for [`Communicator::all_reduce`].
    #[track_caller]
    pub fn exchange<T: Element>(&self, messages: Exchange<'_, T>) -> Result<()> {
        const OP: &str = "exchange";
        let team = self.team();
        let rank = |device: Option<DeviceId>, other: usize| {
            if other >= team.count {
                return Err(refused(OP, format!("device {other} of {}", team.count)));
            }
            let at = team.members.iter().position(|one| Some(one.device.id()) == device);
            let cause = || "a view is not in the memory of a device of this process".to_owned();
            at.map(|at| team.first + at).ok_or_else(|| refused(OP, cause()))
        };
        let Exchange { sends, receives } = messages;
        let given = sends.len() + receives.len();
        if given > MESSAGES_MAX {
            let cause = format!("{given} messages, and {MESSAGES_MAX} are the limit");
            return Err(refused(OP, cause));
        }
        let mut step = Step { elements: None, ..self.call::<T>(OP, None).step() };
        let number = |rank: usize| u32::try_from(rank).unwrap_or(u32::MAX);
        let (mut out, mut inward) = (Vec::new(), Vec::new());
        for (data, to) in sends {
            let from = rank(data.device_id(), to)?;
            step.sends.push((number(to), data.len() as u64));
            out.push((from, to, data));
        }
        for (data, from) in receives {
            let to = rank(data.device_id(), from)?;
            step.receives.push((number(from), data.len() as u64));
            inward.push((from, to, data));
        }
        let matching = pairs(&out, &inward, |rank| team.local(rank).is_some())?;
        let number = self.announce(|| step)?;
        match &self.nccl {
            Some(nccl) => nccl.exchange(&team, number, &out, &mut inward),
            None if team.mail.is_some() => {
                self.by_copies(OP).end(sent_and_received(&team, &out, inward))
            }
            None => inward.into_iter().zip(matching).try_for_each(|((from, to, data), at)| {
                let source = at.map(|at| out[at].2.slice(..));
                team.hop((from, to), source, Some(data))
            }),
        }
    }

    /// A collective that moves elements.
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

    /// A collective that combines elements.
    fn call_by<T: Element, R: Reduction<T>>(
        &self,
        op: &'static str,
        root: Option<usize>,
    ) -> CollectiveCall {
        let (by, is_nccl) =
            (Some(type_named::<R> as fn() -> String), self.nccl_by::<T, R>().is_some());
        CollectiveCall { by, is_nccl, ..self.call::<T>(op, root) }
    }

    /// NCCL, if the communicator has it and it has the combination.
    fn nccl_by<T: Element, R: Reduction<T>>(&self) -> Option<(&Nccl, NcclNames<T>)> {
        self.nccl.as_deref().zip(R::NCCL)
    }

    /// Checks the views of the devices of this process, whose lengths are multiples of `parts`, and says to rank 0 what this rank calls.
    fn demand(
        &self,
        mut call: CollectiveCall,
        data: &[(Option<DeviceId>, usize)],
        parts: usize,
    ) -> Result<CollectiveCall> {
        let (op, count) = (call.op, self.len());
        if let Some(root) = call.root.filter(|root| *root >= count) {
            return Err(refused(op, format!("device {root} of {count}")));
        }
        let len = data.first().map_or(0, |one| one.1);
        self.demand_lens(op, data, len)?;
        if !len.is_multiple_of(parts) {
            return Err(refused(op, format!("{len} elements are not {parts} equal parts")));
        }
        call.elements = len;
        call.number = self.announce(|| call.step())?;
        Ok(call)
    }

    /// Refuses views that are not one for each device of this process, with so many elements.
    fn demand_lens(
        &self,
        op: &'static str,
        data: &[(Option<DeviceId>, usize)],
        expected: usize,
    ) -> Result<()> {
        let members = self.team().members;
        let (count, given) = (members.len(), data.len());
        if count != given {
            return Err(refused(op, format!("{given} views for {count} devices")));
        }
        for (number, (member, (device, len))) in members.iter().zip(data).enumerate() {
            let own = member.device.id();
            if *device != Some(own) {
                return Err(refused(op, format!("view {number} is not in the memory of {own}")));
            }
            if *len != expected {
                return Err(refused(
                    op,
                    format!("view {number} has {len} elements, and {expected} are expected"),
                ));
            }
        }
        Ok(())
    }
}

/// For each receive the number of its message, if a device of this process sends it.
///
/// # Errors
/// A message between devices of this process without its receive, or the other way round.
fn pairs<T: Element>(
    out: &[(usize, usize, View<'_, T>)],
    inward: &[(usize, usize, ViewMut<'_, T>)],
    is_here: impl Fn(usize) -> bool,
) -> Result<Vec<Option<usize>>> {
    let mut is_left: Vec<bool> = out.iter().map(|(_, to, _)| is_here(*to)).collect();
    let mut matching = Vec::with_capacity(inward.len());
    for (from, to, data) in inward {
        if !is_here(*from) {
            matching.push(None);
            continue;
        }
        let fits = |at: &usize| is_left[*at] && (out[*at].0, out[*at].1) == (*from, *to);
        let at = (0..out.len()).find(fits);
        let sent = at.map(|at| out[at].2.len());
        if sent != Some(data.len()) {
            let (len, sent) = (data.len(), sent.map_or("none".to_owned(), |sent| sent.to_string()));
            let cause = format!(
                "device {to} receives {len} elements from device {from}, which sends {sent}"
            );
            return Err(refused("exchange", cause));
        }
        at.iter().for_each(|at| is_left[*at] = false);
        matching.push(at);
    }
    if let Some(at) = is_left.iter().position(|left| *left) {
        let (from, to, data) = &out[at];
        let len = data.len();
        let cause = format!(
            "device {from} sends {len} elements to device {to}, which does not receive them"
        );
        return Err(refused("exchange", cause));
    }
    Ok(matching)
}

/// Sends all messages to other processes, and then waits for those that come.
#[track_caller]
fn sent_and_received<T: Element>(
    team: &Team<'_>,
    out: &[(usize, usize, View<'_, T>)],
    inward: Vec<(usize, usize, ViewMut<'_, T>)>,
) -> Result<()> {
    // A receive may wait for what is sent here, so all is sent first.
    for (from, to, data) in out {
        team.hop::<T>((*from, *to), Some(data.slice(..)), None)?;
    }
    for (from, to, data) in inward {
        team.hop::<T>((from, to), None, Some(data))?;
    }
    Ok(())
}

/// Devices and lengths of views.
fn of<T: Element>(data: &[View<'_, T>]) -> Vec<(Option<DeviceId>, usize)> {
    data.iter().map(|one| (one.device_id(), one.len())).collect()
}

fn of_mut<T: Element>(data: &[ViewMut<'_, T>]) -> Vec<(Option<DeviceId>, usize)> {
    data.iter().map(|one| (one.device_id(), one.len())).collect()
}
