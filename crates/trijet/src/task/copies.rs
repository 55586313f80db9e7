//! The copies of data on several devices, and the tasks that bring the copies up to date.
#![forbid(unsafe_code)]

use super::declared::{AnyDatum, DeclaredUse};
use super::lanes::Group;
use super::replicas::Missing;
use super::state::{State, Use};
use super::task_state::{Name, New, Number, TaskBody};
use crate::base::ledger::Mode;
use smallvec::SmallVec;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

impl State {
    /// Brings the current values of a datum to its device: adds tasks that copy the values which
    /// this device lacks. Returns whether the device had all current values already and no
    /// unfinished task uses the datum.
    pub(super) fn bring_home(&mut self, datum: u32, source: &Arc<dyn AnyDatum>) -> bool {
        let Some(replicas) = &self.data[datum as usize].replicas else { return true };
        let home = replicas.home();
        self.transfer(datum, source, home, &(0..u64::MAX));
        self.pending(datum) == 0
    }

    /// Returns the declared use as a use of the copy of the datum on the device `place`. If the use
    /// reads values that this device lacks, adds tasks that copy the current values to this device.
    pub(super) fn use_on(&mut self, place: usize, one: &DeclaredUse) -> Use {
        let DeclaredUse { number: datum, range, mode, reduces, .. } = one;
        let mut number = *datum;
        if let (Some(source), true) = (&one.datum, self.data[*datum as usize].replicas.is_some()) {
            number = self.copy_on(*datum, place);
            if *mode != Mode::Write {
                self.transfer(*datum, source, place, range);
            }
            if mode.writes()
                && let Some(replicas) = &mut self.data[*datum as usize].replicas
            {
                replicas.written(place, range.clone());
            }
        }
        Use { number, datum: *datum, range: range.clone(), mode: *mode, reduces: *reduces }
    }

    /// The number of the copy of a datum on a device. Assigns a number if the copy has none.
    fn copy_on(&mut self, datum: u32, place: usize) -> u32 {
        let replicas = self.data[datum as usize].replicas.as_ref();
        if let Some(number) = replicas.and_then(|replicas| replicas.number(place)) {
            return number;
        }
        let number = self.add_history();
        if let Some(replicas) = &mut self.data[datum as usize].replicas {
            replicas.set_number(place, number);
        }
        number
    }

    /// Adds tasks that copy bytes to the device `place`: the bytes of `range` whose current values
    /// this device lacks.
    fn transfer(
        &mut self,
        datum: u32,
        source: &Arc<dyn AnyDatum>,
        place: usize,
        range: &Range<u64>,
    ) {
        let Some(replicas) = &self.data[datum as usize].replicas else { return };
        let missing = replicas.missing(place, range);
        let parts = missing.into_iter().flat_map(|one| self.parts(datum, &one));
        for Missing { from, range } in parts.collect::<SmallVec<[Missing; 2]>>() {
            let body = Arc::clone(source).transfer(from, place, range.clone());
            let [there, here] = [from, place].map(|place| self.copy_on(datum, place));
            let one =
                |number, mode| Use { number, datum, range: range.clone(), mode, reduces: false };
            self.counts.transfers += 1;
            self.counts.transferred.0 += range.end - range.start;
            let new = New {
                name: Name::Borrowed("transfer"),
                site: Location::caller(),
                is_urgent: false,
                place,
                group: Group::Peer { from },
                body: TaskBody::Stream(body),
            };
            self.add_task(new, &[one(there, Mode::Read), one(here, Mode::Write)], true, None);
            if let Some(replicas) = &mut self.data[datum as usize].replicas {
                replicas.add(place, range);
            }
        }
    }

    /// Cuts missing bytes into the ranges that are copied separately. A copy does not run if a task
    /// that wrote its bytes fails. So bytes of a task that may still fail are not copied together
    /// with bytes of other tasks.
    fn parts(&self, datum: u32, missing: &Missing) -> SmallVec<[Missing; 2]> {
        let Missing { from, range } = missing;
        let whole = || SmallVec::from_elem(missing.clone(), 1);
        let replicas = self.data[datum as usize].replicas.as_ref();
        let Some(there) = replicas.and_then(|one| one.number(*from)) else { return whole() };
        let mut parts: SmallVec<[Missing; 2]> = SmallVec::new();
        let mut writer_before = None;
        for (range, writer) in self.data[there as usize].history.pieces(range) {
            let writer = writer.filter(|writer| !self.is_well(*writer));
            match parts.last_mut() {
                Some(last) if writer == writer_before && last.range.end == range.start => {
                    last.range.end = range.end;
                }
                _ => parts.push(Missing { from: *from, range }),
            }
            writer_before = writer;
        }
        parts
    }

    /// Whether a task is over and did not fail.
    fn is_well(&self, number: Number) -> bool {
        self.is_over(number) && !self.failures.contains_key(&number)
    }
}
