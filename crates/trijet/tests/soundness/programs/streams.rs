//! Steps on streams and memory.

use super::luck::{Checked, Luck, caught, explode, finish, is_of_host_function, must};
use super::memory::{BLEND, Cell, PANIC, Part, Real, STIR, Slot, blend, compare, known, mix};
use super::step::{End, Step};
use super::world::{MEMORY, World};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use trijet::{Batch, Bytes, ErrorKind, Result, SourceOrder, Stream};

type At = (usize, Part);

/// Whether a call succeeded. It may be refused as invalid.
fn may(outcome: Result<()>) -> std::result::Result<bool, String> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::InvalidValue => Ok(false),
        Err(error) => Err(format!("{error} ({:?})", error.kind())),
    }
}

/// Ranges of equal lengths.
fn equal(x: Range<usize>, y: Range<usize>) -> (Range<usize>, Range<usize>) {
    let len = x.len().min(y.len());
    (x.start..x.start + len, y.start..y.start + len)
}

impl World {
    /// Performs a step, and notes its effect on the values.
    pub(super) fn step(&mut self, step: &Step) -> Checked {
        match step {
            Step::Alloc { stream, slot, len, kind } => self.alloc(*stream, *slot, *len, *kind),
            Step::Drop { slot } => self.drop_slot(*slot),
            Step::Split { slot, at } => self.split(*slot, *at),
            Step::Fill { stream, to, value } => self.fill(*stream, *to, *value),
            Step::FillBytes { stream, to, value } => self.fill_bytes(Some(*stream), *to, *value),
            Step::FillNow { to, value } => self.fill_bytes(None, *to, *value),
            Step::Copy { stream, from, to } => self.copy(Some(*stream), *from, *to),
            Step::CopyNow { from, to } => self.copy(None, *from, *to),
            Step::Batch { stream, copies, order } => self.batch(*stream, copies, *order),
            Step::Blend { stream, from, to, salt } => self.blend(*stream, *from, *to, *salt),
            Step::Stir { stream, to, salt } => self.stir(*stream, *to, *salt),
            Step::Host { stream, from, to, salt, end } => {
                self.host(*stream, *from, *to, *salt, *end)
            }
            Step::Plain { stream, end } => self.plain_host(*stream, *end),
            Step::Guard { slot, salt, writes, body } => self.guard(*slot, *salt, *writes, body),
            Step::Download { stream, from } => self.download(*stream, *from),
            Step::Scope { stream, to, from, salt, end } => {
                self.scope(*stream, *to, *from, *salt, *end)
            }
            Step::Wait { stream, device, how } => self.wait(*stream, *device, *how),
            Step::Event { stream, event, how } => self.event(*stream, *event, *how),
            Step::Grow { slot, len } => self.grow(*slot, *len),
            Step::Truncate { slot, len } => self.truncate(*slot, *len),
            Step::Trim { device } => self.trim(*device),
            Step::Refill { device } => self.refill(*device),
            Step::Threads { bodies, end } => self.threads(bodies, *end),
            Step::TwinPanic { stream, to } => self.twin_panic(*stream, *to),
            _ => self.step_of_graphs_and_tasks(step),
        }
    }

    fn alloc(&mut self, stream: u8, slot: usize, len: usize, kind: u8) -> Checked {
        let Some(slot) = self.first(slot, Slot::is_gone) else { return Ok(()) };
        // A device with a pool has no buffers that grow.
        let kind = if kind == 5 && self.setup.pool.is_some() { 4 } else { kind };
        let device = self.device(usize::from(stream / 5));
        let s = self.stream(device, stream);
        let values: Vec<u32> = (0..7).cycle().take(len).collect();
        let (real, cells) = match kind {
            0..3 => (Real::Device(must(s.alloc(len))?), vec![None; len]),
            3 => (Real::Device(must(s.alloc_zeroed(len))?), vec![Some(0); len]),
            4 => {
                let cells = values.iter().map(|value| Some(*value)).collect();
                (Real::Device(must(s.upload(&values))?), cells)
            }
            5 => (Real::Growing(must(s.growing(len, 8 * len + 100))?), vec![None; len]),
            6 => (Real::Pinned(must(self.devices[device].pinned(len))?), vec![None; len]),
            _ => (Real::Pageable(must(self.devices[device].pageable(len))?), vec![None; len]),
        };
        self.put(slot, Slot::of(real, device, cells));
        Ok(())
    }

    fn drop_slot(&mut self, slot: usize) -> Checked {
        if !self.slots[slot].reserved {
            self.put(slot, Slot::gone());
        }
        Ok(())
    }

    fn split(&mut self, slot: usize, at: u8) -> Checked {
        let Some(free) = self.slots.iter().position(Slot::is_gone) else { return Ok(()) };
        let Some(slot) = self.first(slot, Slot::is_in_use) else { return Ok(()) };
        let old = std::mem::replace(&mut self.slots[slot], Slot::gone());
        // Half of the splits make two parts of one length.
        let len = old.cells.len();
        let at = if at.is_multiple_of(2) { len / 2 } else { usize::from(at) * len / 256 };
        let (left, right) = match old.real {
            Real::Device(buffer) => {
                let (left, right) = buffer.split(at);
                (Real::Device(left), Real::Device(right))
            }
            Real::Pinned(buffer) => {
                let (left, right) = buffer.split(at);
                (Real::Pinned(left), Real::Pinned(right))
            }
            Real::Pageable(buffer) => {
                let (left, right) = buffer.split(at);
                (Real::Pageable(left), Real::Pageable(right))
            }
            real => {
                self.put(slot, Slot { real, ..old });
                return Ok(());
            }
        };
        let (mut cells, device) = (old.cells, old.device);
        let rest = cells.split_off(at);
        self.put(slot, Slot::of(left, device, cells));
        self.put(free, Slot::of(right, device, rest));
        Ok(())
    }

    fn fill(&mut self, stream: u8, (to, part): At, value: u32) -> Checked {
        let Some(to) = self.first(to, Slot::is_in_use) else { return Ok(()) };
        let s = self.stream(self.slots[to].device, stream);
        let slot = &mut self.slots[to];
        let (range, is_on_device) = (part.of(slot.cells.len()), slot.is_on_device());
        let Some(mut view) = slot.view_mut(range.clone()) else { return Ok(()) };
        let outcome = s.fill(&mut view, value);
        let is_done = if is_on_device { must(outcome).map(|()| true)? } else { may(outcome)? };
        if is_done {
            slot.fill(range, Some(value));
        }
        Ok(())
    }

    fn fill_bytes(&mut self, stream: Option<u8>, (to, part): At, value: u8) -> Checked {
        let Some(to) = self.first(to, Slot::is_in_use) else { return Ok(()) };
        let device = self.devices[self.slots[to].device].clone();
        let s = stream.map(|stream| self.stream(self.slots[to].device, stream));
        let slot = &mut self.slots[to];
        let range = part.of(slot.cells.len());
        let must_succeed = !matches!(slot.real, Real::Pageable(_));
        let Some(mut view) = slot.view_mut(range.clone()) else { return Ok(()) };
        let run = || match &s {
            Some(s) => s.fill_bytes(&mut view, value),
            None => device.fill_now(&mut view, value),
        };
        let is_done =
            if must_succeed { self.luck.insist(run).map(|()| true)? } else { may({ run }())? };
        if is_done {
            slot.fill(range, Some(u32::from_ne_bytes([value; 4])));
        }
        Ok(())
    }

    fn copy(&mut self, stream: Option<u8>, (from, x): At, (to, y): At) -> Checked {
        let Some(from) = self.first(from, Slot::is_in_use) else { return Ok(()) };
        let Some(to) = self.other(to, from, Slot::is_in_use) else { return Ok(()) };
        let side = if stream.is_some_and(|stream| stream >= 5) { from } else { to };
        let number = self.slots[side].device;
        let device = self.devices[number].clone();
        let s = stream.map(|stream| self.stream(number, stream));
        let luck = self.luck.clone();
        let Some((source, target)) = self.two(from, to) else { return Ok(()) };
        let (x, y) = equal(x.of(source.cells.len()), y.of(target.cells.len()));
        let (view, target_view) = (source.view(x.clone()), target.view_mut(y.clone()));
        let Some((view, mut target_view)) = view.zip(target_view) else { return Ok(()) };
        luck.insist(|| match &s {
            Some(s) => s.copy(&view, &mut target_view),
            None => device.copy_now(&view, &mut target_view),
        })?;
        target.cells[y].copy_from_slice(&source.cells[x]);
        Ok(())
    }

    fn batch(&mut self, stream: u8, copies: &[(At, At)], order: u8) -> Checked {
        let first = copies[0];
        let device = match self.slots[first.1.0].is_on_device() {
            true => self.slots[first.1.0].device,
            false => self.slots[first.0.0].device,
        };
        let direction = |slots: &[Slot], from: usize, to: usize| {
            let is_own = [from, to].iter().all(|slot| {
                let slot = &slots[*slot];
                (slot.device == device || !slot.is_on_device())
                    && slot.set().is_none()
                    && !slot.is_gone()
            });
            let sides = (slots[from].is_on_device(), slots[to].is_on_device());
            (is_own && sides != (false, false)).then_some(sides)
        };
        let Some(sides) = direction(&self.slots, first.0.0, first.1.0) else { return Ok(()) };
        let mut used = vec![];
        let mut chosen = vec![];
        for ((from, x), (to, y)) in copies {
            let is_new = from != to && !used.contains(from) && !used.contains(to);
            let ranges =
                equal(x.of(self.slots[*from].cells.len()), y.of(self.slots[*to].cells.len()));
            let is_empty = ranges.0.is_empty();
            if is_new && !is_empty && direction(&self.slots, *from, *to) == Some(sides) {
                used.extend([*from, *to]);
                chosen.push((*from, ranges.0, *to, ranges.1));
            }
        }
        if chosen.is_empty() || Self::is_legacy(stream) {
            return Ok(());
        }
        let s = self.stream(device, stream);
        self.enqueue_batch(&s, &chosen, order)?;
        for (from, x, to, y) in chosen {
            let values: Vec<Cell> = self.slots[from].cells[x].to_vec();
            self.slots[to].cells[y].copy_from_slice(&values);
        }
        Ok(())
    }

    fn enqueue_batch(
        &mut self,
        s: &Stream,
        chosen: &[(usize, Range<usize>, usize, Range<usize>)],
        order: u8,
    ) -> Checked {
        let (mut sources, mut targets) = (vec![], vec![]);
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if let Some(at) = chosen.iter().position(|(from, ..)| *from == number) {
                sources.extend(slot.view(chosen[at].1.clone()).map(|view| (at, view)));
            } else if let Some(at) = chosen.iter().position(|(_, _, to, _)| *to == number) {
                targets.extend(slot.view_mut(chosen[at].3.clone()).map(|view| (at, view)));
            }
        }
        sources.sort_by_key(|(at, _)| *at);
        targets.sort_by_key(|(at, _)| *at);
        let mut batch = Batch::new();
        for ((_, source), (_, target)) in sources.iter().zip(&mut targets) {
            must(batch.add(source, target))?;
        }
        let orders = [SourceOrder::Stream, SourceOrder::DuringCall, SourceOrder::Any];
        must(s.copy_batch(batch, orders[usize::from(order) % 3]))
    }

    fn blend(&mut self, stream: u8, (from, x): At, (to, y): At, salt: u32) -> Checked {
        let Some(from) = self.first(from, Slot::is_on_device) else { return Ok(()) };
        let device = self.slots[from].device;
        let fits = |slot: &Slot| slot.is_on_device() && slot.device == device;
        let Some(to) = self.other(to, from, fits) else { return Ok(()) };
        let s = self.stream(self.slots[to].device, stream);
        let Some((source, target)) = self.two(from, to) else { return Ok(()) };
        let (x, y) = equal(x.of(source.cells.len()), y.of(target.cells.len()));
        let views = source.view(x.clone()).zip(target.view_mut(y.clone()));
        let Some((view, target_view)) = views else { return Ok(()) };
        must(s.launch(&BLEND, (salt, view, target_view)))?;
        blend(salt, &source.cells[x], &mut target.cells[y]);
        Ok(())
    }

    fn stir(&mut self, stream: u8, (to, part): At, salt: u32) -> Checked {
        let Some(to) = self.first(to, Slot::is_on_device) else { return Ok(()) };
        let s = self.stream(self.slots[to].device, stream);
        let slot = &mut self.slots[to];
        let range = part.of(slot.cells.len());
        let Some(view) = slot.view_mut(range.clone()) else { return Ok(()) };
        must(s.launch(&STIR, (salt, view)))?;
        slot.stir(range, salt);
        Ok(())
    }

    fn host(&mut self, stream: u8, from: Option<usize>, to: usize, salt: u32, end: End) -> Checked {
        let Some(to) = self.first(to, Slot::is_pinned) else { return Ok(()) };
        let from = from.and_then(|from| self.other(from, to, Slot::is_pinned));
        let s = self.stream(self.slots[to].device, stream);
        let len = self.slots[to].cells.len();
        // A function that panics has done half of its work.
        let done = if matches!(end, End::Panic(_)) { len / 2 } else { len };
        let (luck, panics) = (self.luck.clone(), matches!(end, End::Panic(_)));
        let end = move || {
            if let End::Panic(kind) = end {
                explode(kind)
            }
        };
        let source = from.and_then(|from| self.two(from, to));
        if let Some((source, target)) = source {
            let (Real::Pinned(x), Real::Pinned(y)) = (&source.real, &mut target.real) else {
                return Ok(());
            };
            must(s.host_fn_with((x, y), move |(x, y): (&[u32], &mut [u32])| {
                for (y, x) in y[..done].iter_mut().zip(x) {
                    *y = mix(salt, *x, *y);
                }
                end();
            }))?;
            blend(salt, &source.cells, &mut target.cells[..done]);
        } else {
            let target = &mut self.slots[to];
            let Real::Pinned(y) = &mut target.real else { return Ok(()) };
            must(s.host_fn_with(y, move |y: &mut [u32]| {
                y[..done].iter_mut().for_each(|y| *y = mix(salt, 0, *y));
                end();
            }))?;
            target.stir(0..done, salt);
        }
        if panics {
            luck.will_panic();
        }
        Ok(())
    }

    fn plain_host(&mut self, stream: u8, end: End) -> Checked {
        let s = self.stream(self.device(usize::from(stream / 5)), stream);
        if let End::Panic(kind) = end {
            self.luck.will_panic();
            return must(s.host_fn(move || explode(kind)));
        }
        must(s.host_fn(|| ()))
    }

    /// Lends memory to the host while other steps run.
    fn guard(&mut self, number: usize, salt: u32, writes: bool, body: &[Step]) -> Checked {
        let is_of_host = |slot: &Slot| matches!(slot.real, Real::Pinned(_) | Real::Pageable(_));
        let Some(number) = self.first(number, is_of_host) else { return Ok(()) };
        let mut slot = std::mem::replace(&mut self.slots[number], Slot::gone());
        let luck = self.luck.clone();
        let cells = &mut slot.cells;
        let stir = |cells: &mut [Cell], lent: &mut [u32]| {
            lent.iter_mut().for_each(|y| *y = mix(salt, 0, *y));
            cells.iter_mut().for_each(|y| *y = y.map(|y| mix(salt, 0, y)));
        };
        let run = |world: &mut Self| body.iter().try_for_each(|step| world.step(step));
        let outcome = match &mut slot.real {
            Real::Pinned(buffer) if writes => lent(&luck, buffer.write(), |lent| {
                compare(cells, lent)?;
                stir(cells, lent);
                run(self).and_then(|()| compare(cells, lent))
            }),
            Real::Pageable(buffer) if writes => lent(&luck, buffer.write(), |lent| {
                compare(cells, lent)?;
                stir(cells, lent);
                run(self).and_then(|()| compare(cells, lent))
            }),
            Real::Pinned(buffer) => lent(&luck, buffer.read(), |lent| {
                compare(cells, lent)?;
                run(self).and_then(|()| compare(cells, lent))
            }),
            Real::Pageable(buffer) => lent(&luck, buffer.read(), |lent| {
                compare(cells, lent)?;
                run(self).and_then(|()| compare(cells, lent))
            }),
            _ => Ok(()),
        };
        self.put(number, slot);
        outcome.map_err(|why| format!("guard of slot {number}: {why}"))
    }

    fn download(&mut self, stream: u8, (from, part): At) -> Checked {
        let Some(from) = self.first(from, Slot::is_in_use) else { return Ok(()) };
        let slot = &self.slots[from];
        let range = part.of(slot.cells.len());
        let Some(view) = slot.view(range.clone()) else { return Ok(()) };
        let s = self.stream(slot.device, stream);
        let found = self.luck.insist(|| s.download(&view))?;
        slot.compare(range, &found).map_err(|why| format!("download of slot {from} {why}"))
    }

    fn scope(&mut self, stream: u8, (to, y): At, (from, x): At, salt: u32, end: End) -> Checked {
        let Some(from) = self.first(from, Slot::is_in_use) else { return Ok(()) };
        let Some(to) = self.other(to, from, Slot::is_in_use) else { return Ok(()) };
        let (s, t) = (self.stream(self.slots[to].device, stream), self.slots[from].device);
        let (device, t) = (self.devices[self.slots[to].device].clone(), self.stream(t, stream));
        let luck = self.luck.clone();
        let Some((source, target)) = self.two(from, to) else { return Ok(()) };
        let (x, y) = (x.of(source.cells.len()), y.of(target.cells.len()));
        let (view, target_view) = (source.view(x.clone()), target.view_mut(y.clone()));
        let Some((view, mut target_view)) = view.zip(target_view) else { return Ok(()) };
        let (sent, mut got) = (vec![salt; y.len()], vec![0; x.len()]);
        let outcome = caught(|| {
            device.scope(|scope| {
                scope.upload(&s, &sent, &mut target_view)?;
                scope.download(&t, &view, &mut got)?;
                finish(end)
            })
        });
        target.fill(y, Some(salt));
        match (end, outcome) {
            (End::Well, Some(Ok(()))) => {
                source.compare(x, &got).map_err(|why| format!("scope, slot {from}: {why}"))
            }
            // The wait for a download may report the panic of a host function.
            (End::Well, Some(Err(error))) => {
                let mut error = Some(error);
                luck.insist(|| error.take().map_or(Ok(()), Err))
            }
            (End::Error, Some(Err(_))) | (End::Panic(_), None | Some(Err(_))) => Ok(()),
            (end, outcome) => Err(format!("a scope that ends with {end:?} returned {outcome:?}")),
        }
    }

    fn wait(&mut self, stream: u8, device: usize, how: u8) -> Checked {
        let s = self.stream(self.device(usize::from(stream / 5)), stream);
        let device = self.devices[self.device(device)].clone();
        self.luck.insist(|| match how {
            0 => s.synchronize(),
            1 => device.synchronize(),
            2 => s.query().map(drop),
            3 => s.ticket()?.wait(),
            4 => {
                let mut ready = pin!(s.ready());
                match ready.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    std::task::Poll::Ready(outcome) => outcome,
                    std::task::Poll::Pending => Ok(()),
                }
            }
            _ => s.ticket().map(drop),
        })
    }

    fn event(&mut self, stream: u8, event: usize, how: u8) -> Checked {
        let (s, event) = (self.stream(0, stream), Arc::clone(&self.events[event]));
        self.luck.insist(|| match how {
            0 | 1 => event.record(&s),
            2 => s.wait(&event),
            3 => event.synchronize(),
            _ => event.query().map(drop),
        })
    }

    fn grow(&mut self, slot: usize, len: usize) -> Checked {
        let grows = |slot: &Slot| matches!(slot.real, Real::Growing(_));
        let Some(slot) = self.first(slot, grows) else { return Ok(()) };
        let slot = &mut self.slots[slot];
        let Real::Growing(buffer) = &mut slot.real else { return Ok(()) };
        if len >= slot.cells.len() && len <= buffer.len_max() {
            must(buffer.grow_to(len))?;
            slot.cells.resize(len, None);
            slot.lost.resize(len, false);
        }
        Ok(())
    }

    fn truncate(&mut self, slot: usize, len: usize) -> Checked {
        let grows = |slot: &Slot| matches!(slot.real, Real::Growing(_));
        let Some(slot) = self.first(slot, grows) else { return Ok(()) };
        let slot = &mut self.slots[slot];
        let Real::Growing(buffer) = &mut slot.real else { return Ok(()) };
        buffer.truncate(len);
        slot.cells.truncate(len);
        slot.lost.truncate(len);
        Ok(())
    }

    fn trim(&mut self, device: usize) -> Checked {
        let device = self.devices[self.device(device)].clone();
        self.luck.insist(|| device.synchronize())?;
        must(device.trim_memory(Bytes(0)))
    }

    /// After a synchronisation and a trim, memory that was freed can be allocated in one piece.
    fn refill(&mut self, device: usize) -> Checked {
        // A heap returns memory in the pieces that it took.
        if self.setup.pool.is_none() {
            return Ok(());
        }
        // A task that still runs may allocate in a piece after it was freed, and keep all of it.
        self.finish_all()?;
        let number = self.device(device);
        let (device, s) = (self.devices[number].clone(), self.stream(number, 0));
        self.luck.insist(|| device.synchronize())?;
        must(device.trim_memory(Bytes(0)))?;
        let eighths = |count: u64| usize::try_from(MEMORY / 8 * count).unwrap_or(0);
        let both = must(s.alloc::<u8>(eighths(3))).and_then(|a| {
            let b = must(s.alloc::<u8>(eighths(3)))?;
            Ok((a, b))
        })?;
        drop(both);
        self.luck.insist(|| device.synchronize())?;
        must(device.trim_memory(Bytes(0)))?;
        let other = self.stream(number, 1);
        must(other.alloc::<u8>(eighths(5))).map(drop).map_err(|why| format!("refill: {why}"))?;
        // A small allocation in this piece would keep all of it from the next refill.
        self.luck.insist(|| device.synchronize())?;
        must(device.trim_memory(Bytes(0)))
    }

    /// Loses a device: every later call returns, with an error if it needs the device.
    fn twin_panic(&mut self, stream: u8, to: usize) -> Checked {
        let Some(to) = self.first(to, Slot::is_on_device) else { return Ok(()) };
        let s = self.stream(self.slots[to].device, stream);
        let device = self.devices[self.slots[to].device].clone();
        let slot = &mut self.slots[to];
        let range = 0..slot.cells.len();
        let is_on_device = slot.is_on_device() && !range.is_empty();
        let Some(view) = slot.view_mut(range).filter(|_| is_on_device) else { return Ok(()) };
        self.is_lost = true;
        let outcome = caught(|| s.launch(&STIR, (PANIC, view)));
        let Some(_) = outcome else { return Err("a panic of a twin came through".to_owned()) };
        // Panics of host functions may be reported before.
        let waits = (0..100).any(|_| {
            device.synchronize().is_err_and(|error| error.kind() != ErrorKind::InvalidValue)
        });
        let again = s.host_fn(|| ()).is_err() || s.synchronize().is_err();
        if waits && again { Ok(()) } else { Err("a lost device goes on".to_owned()) }
    }

    /// A piece of memory passes to a consumer of DLPack and comes back.
    pub(super) fn dlpack(
        &mut self,
        number: usize,
        to: Part,
        value: u32,
        comes_back: bool,
    ) -> Checked {
        let fits = |slot: &Slot| matches!(slot.real, Real::Device(_)) && !slot.cells.is_empty();
        let Some(number) = self.first(number, fits) else { return Ok(()) };
        let slot = std::mem::replace(&mut self.slots[number], Slot::gone());
        let (device, mut cells) = (slot.device, slot.cells);
        let Real::Device(buffer) = slot.real else { return Ok(()) };
        // An export that fails takes the buffer with it.
        self.luck.insist(|| self.devices[device].synchronize())?;
        let tensor = must(buffer.into_dlpack())?;
        // SAFETY: the tensor was handed over, and is alive until its deleter is called.
        let found = &unsafe { tensor.as_ref() }.tensor;
        let bytes = usize::try_from(found.byte_offset).unwrap_or(0);
        let data = found.data.cast::<u8>().wrapping_add(bytes).cast::<u32>();
        for (at, value) in known(&cells, 0..cells.len()) {
            // SAFETY: an element of the tensor that has a value, which no other code uses.
            let found = unsafe { data.wrapping_add(at).read() };
            if found != value {
                return Err(format!(
                    "slot {number} as a tensor: element {at} is {found:#x}, not {value:#x}"
                ));
            }
        }
        for at in to.of(cells.len()) {
            // SAFETY: an element of the tensor, which no other code uses.
            unsafe { data.wrapping_add(at).write(value) };
            cells[at] = Some(value);
        }
        if comes_back {
            // SAFETY: `into_dlpack` made it, this consumer has it alone, and hands it over.
            let buffer = must(unsafe { self.devices[device].from_dlpack::<u32>(tensor) })?;
            self.put(number, Slot::of(Real::Device(buffer), device, cells));
            return Ok(());
        }
        // SAFETY: a live tensor.
        let deleter = unsafe { tensor.as_ref() }.deleter;
        let Some(deleter) = deleter else { return Err("a tensor without a deleter".to_owned()) };
        // SAFETY: the deleter of this tensor, whose consumer uses it no more.
        unsafe { deleter(tensor.as_ptr()) };
        Ok(())
    }
}

/// Uses a guard, unless the panic of a host function is reported in its place.
fn lent<G>(luck: &Luck, guard: Result<G>, work: impl FnOnce(&mut G) -> Checked) -> Checked {
    match guard {
        Ok(mut guard) => work(&mut guard),
        Err(error) if is_of_host_function(&error) && luck.may_report() => Ok(()),
        Err(error) => Err(format!("{error} ({:?})", error.kind())),
    }
}
