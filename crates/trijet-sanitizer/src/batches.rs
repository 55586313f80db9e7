//! Which table a launch uses, and when a table is read: the state of the tables of a context,
//! without a call of the library.
//!
//! A table is *free*, *open* for launches, *closed*, or *being read*. It is closed after a number
//! of launches that depends on how much they touch, and before a stream or a context ends. It is
//! read when no launch of it is between its start and its end, so that all of them are enqueued.

use crate::table::{LAUNCHES, SLOTS};
use std::collections::BTreeSet;

/// The number of tables of a context.
pub const TABLES: usize = 4;
/// The number of launches of the first table.
const FIRST_LAUNCHES: usize = 16;
/// Maximum number of launches after which a table is closed.
const CLOSED_AT: usize = 1024;

/// The state of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TableState {
    #[default]
    Free,
    Open,
    Closed,
    Reading,
    /// The library could not read or clear it.
    Lost,
}

/// A table of a context.
#[derive(Debug, Clone, Default)]
struct Table {
    address: usize,
    state: TableState,
    /// The call that each launch belongs to; the launches have the numbers from 1.
    calls: Vec<u64>,
    /// The number of launches that are between their begin and their end.
    beginning: u32,
    /// The number of its closing among all closings of the context.
    closed: u64,
    streams: BTreeSet<usize>,
    /// Streams of it that have ended, and all streams that have ended while it is read.
    ended: BTreeSet<usize>,
}

/// The tables of a context.
#[derive(Debug, Clone)]
pub struct Tables {
    tables: Vec<Table>,
    /// The number of launches after which a table is closed.
    close_at: usize,
    /// The number of closings so far.
    closings: u64,
}

/// A place in a table for a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablePlace {
    /// The number of the table.
    pub table: usize,
    /// The address of the table.
    pub address: usize,
    /// The number of the launch in the table.
    pub launch: u32,
}

/// A table to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullTable {
    /// The number of the table.
    pub table: usize,
    /// The address of the table.
    pub address: usize,
    /// The call that each launch belongs to.
    pub calls: Vec<u64>,
    /// The streams of the launches.
    pub streams: BTreeSet<usize>,
    /// The streams of launches that have ended. Their handles must not be used.
    pub ended: BTreeSet<usize>,
}

impl Tables {
    /// Tables at these addresses.
    #[must_use]
    pub fn new(addresses: &[usize]) -> Self {
        let table = |address: &usize| Table { address: *address, ..Table::default() };
        Self {
            tables: addresses.iter().map(table).collect(),
            close_at: FIRST_LAUNCHES,
            closings: 0,
        }
    }

    /// A place for a launch of a call in a stream. `None` if no table is open or free.
    pub fn begin(&mut self, call: u64, stream: usize) -> Option<TablePlace> {
        let with = |tables: &[Table], state| tables.iter().position(|one| one.state == state);
        let at = with(&self.tables, TableState::Open)
            .or_else(|| with(&self.tables, TableState::Free))?;
        let table = &mut self.tables[at];
        table.state = TableState::Open;
        table.calls.push(call);
        table.beginning += 1;
        table.streams.insert(stream);
        let launch = u32::try_from(table.calls.len()).ok()?;
        // A graph may have more nodes than a table usually takes.
        let address = table.address;
        if table.calls.len() >= LAUNCHES {
            self.close_table(at);
        }
        Some(TablePlace { table: at, address, launch })
    }

    /// Notes that a stream ends. Its launches may go on.
    pub fn end_stream(&mut self, stream: usize) {
        for table in &mut self.tables {
            // The streams of a table that is being read are not here.
            if table.streams.remove(&stream) || table.state == TableState::Reading {
                table.ended.insert(stream);
            }
        }
    }

    fn close_table(&mut self, at: usize) {
        self.closings += 1;
        self.tables[at].state = TableState::Closed;
        self.tables[at].closed = self.closings;
    }

    /// Ends a launch that began in a table.
    pub fn end(&mut self, at: usize) {
        let table = &mut self.tables[at];
        table.beginning = table.beginning.saturating_sub(1);
        if table.state == TableState::Open && table.calls.len() >= self.close_at {
            self.close_table(at);
        }
    }

    /// Takes a launch back that has just begun: its place has no call.
    pub fn forget(&mut self, place: &TablePlace) {
        if let Some(call) = self.tables[place.table].calls.get_mut(place.launch as usize - 1) {
            *call = 0;
        }
        self.end(place.table);
    }

    /// Whether a launch has a place now, or never will.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let has_room = |one: &Table| matches!(one.state, TableState::Open | TableState::Free);
        self.tables.iter().any(has_room)
            || self.tables.iter().all(|one| one.state == TableState::Lost)
    }

    /// Closes the open table. Returns the number of the last closing.
    pub fn close(&mut self) -> u64 {
        if let Some(at) = self.tables.iter().position(|one| one.state == TableState::Open) {
            self.close_table(at);
        }
        self.closings
    }

    /// Whether the tables up to a closing are read.
    #[must_use]
    pub fn is_read_up_to(&self, closing: u64) -> bool {
        let waits = |one: &Table| matches!(one.state, TableState::Closed | TableState::Reading);
        !self.tables.iter().any(|one| waits(one) && one.closed <= closing)
    }

    /// A table to be read, which is being read from now on.
    pub fn take(&mut self) -> Option<FullTable> {
        let is_ready = |one: &Table| one.state == TableState::Closed && one.beginning == 0;
        let at = self.tables.iter().position(is_ready)?;
        let table = &mut self.tables[at];
        table.state = TableState::Reading;
        Some(FullTable {
            table: at,
            address: table.address,
            calls: std::mem::take(&mut table.calls),
            streams: std::mem::take(&mut table.streams),
            ended: std::mem::take(&mut table.ended),
        })
    }

    /// Gives back a table that was taken and not read.
    pub fn put_back(&mut self, full: FullTable) {
        let table = &mut self.tables[full.table];
        table.state = TableState::Closed;
        table.calls = full.calls;
        table.streams = full.streams.difference(&table.ended).copied().collect();
        table.ended.extend(full.ended);
    }

    /// Frees a table that was read, in which `launches` launches took `slots` slots.
    pub fn free(&mut self, at: usize, launches: usize, slots: usize) {
        self.tables[at].state = TableState::Free;
        self.tables[at].ended.clear();
        // Two fifths of the slots, because later launches may touch more.
        let wanted = (SLOTS * 2 / 5).saturating_mul(launches.max(1)) / slots.max(1);
        self.close_at = wanted.clamp(8, CLOSED_AT).min(2 * self.close_at);
    }

    /// Gives up a table that cannot be used again.
    pub fn lose(&mut self, at: usize) {
        self.tables[at].state = TableState::Lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_when_all_its_launches_have_ended() {
        let mut tables = Tables::new(&[0x1000, 0x2000]);
        let first = tables.begin(7, 1).unwrap();
        let second = tables.begin(8, 2).unwrap();
        assert_eq!([first.launch, second.launch], [1, 2]);
        tables.close();
        tables.end(first.table);
        assert_eq!(tables.take(), None);
        tables.end(second.table);
        let full = tables.take().unwrap();
        assert_eq!((&full.calls, full.streams.len()), (&vec![7, 8], 2));
        assert!(!tables.is_read_up_to(1) && tables.is_read_up_to(0));
        tables.put_back(full.clone());
        assert_eq!(tables.take().as_ref(), Some(&full));
        tables.free(full.table, 2, 10);
        assert!(tables.is_read_up_to(1));
    }

    #[test]
    fn the_handle_of_a_stream_that_has_ended_is_not_used() {
        let mut tables = Tables::new(&[0x1000, 0x2000]);
        for stream in [1, 2, 3] {
            let place = tables.begin(1, stream).unwrap();
            tables.end(place.table);
        }
        tables.end_stream(2);
        tables.close();
        let full = tables.take().unwrap();
        assert_eq!((&full.streams, &full.ended), (&[1, 3].into(), &[2].into()));
        tables.end_stream(3);
        tables.put_back(full);
        let full = tables.take().unwrap();
        assert_eq!((&full.streams, &full.ended), (&[1].into(), &[2, 3].into()));
        tables.free(full.table, 3, 10);
        tables.end_stream(9);
        let place = tables.begin(2, 2).unwrap();
        tables.end(place.table);
        tables.close();
        let full = tables.take().unwrap();
        assert_eq!((&full.streams, &full.ended), (&[2].into(), &[].into()));
    }

    /// A launch whose begin and end surround the closing of its table goes on in it.
    #[test]
    fn launches_take_the_next_table_while_one_is_closed_and_none_if_all_are() {
        let mut tables = Tables::new(&[0x1000, 0x2000]);
        let first = tables.begin(1, 1).unwrap();
        tables.close();
        let second = tables.begin(2, 1).unwrap();
        assert_ne!(first.table, second.table);
        tables.close();
        assert_eq!(tables.begin(3, 1), None);
        tables.end(first.table);
        let full = tables.take().unwrap();
        tables.free(full.table, 1, 1);
        assert_eq!(tables.begin(3, 1).map(|place| place.table), Some(first.table));
    }

    #[test]
    fn a_table_takes_fewer_launches_if_they_touch_much() {
        let mut tables = Tables::new(&[0x1000]);
        let mut close = |slots: usize| {
            let mut count = 0;
            loop {
                let place = tables.begin(0, 0).unwrap();
                tables.end(place.table);
                count += 1;
                if let Some(full) = tables.take() {
                    tables.free(full.table, full.calls.len(), slots * count);
                    return count;
                }
            }
        };
        assert_eq!(close(1), 16);
        assert_eq!(close(SLOTS / 16), 32);
        assert_eq!(close(1), 8, "two fifths of the slots, and eight launches at least");
    }

    /// A wait for the tables up to now ends, although later launches have tables.
    #[test]
    fn later_tables_do_not_prolong_a_wait() {
        let mut tables = Tables::new(&[0x1000, 0x2000]);
        let first = tables.begin(1, 1).unwrap();
        tables.end(first.table);
        let closing = tables.close();
        let second = tables.begin(2, 1).unwrap();
        tables.end(second.table);
        tables.close();
        let full = tables.take().unwrap();
        assert_eq!(full.calls, [1]);
        tables.free(full.table, 1, 1);
        assert!(tables.is_read_up_to(closing) && !tables.is_read_up_to(closing + 1));
    }

    #[test]
    fn no_launch_waits_for_tables_that_are_all_lost() {
        let mut tables = Tables::new(&[0x1000]);
        let place = tables.begin(1, 1).unwrap();
        tables.end(place.table);
        tables.close();
        assert!(!tables.is_settled());
        let full = tables.take().unwrap();
        tables.lose(full.table);
        assert!(tables.is_settled() && tables.begin(2, 1).is_none());
    }

    #[test]
    fn a_graph_with_more_kernels_than_a_table_has_numbers_uses_several() {
        let mut tables = Tables::new(&[0x1000, 0x2000]);
        let places: Vec<_> = (0..=LAUNCHES).map(|_| tables.begin(5, 1).unwrap()).collect();
        assert_eq!(places[LAUNCHES - 1].launch as usize, LAUNCHES);
        assert_eq!((places[LAUNCHES].table, places[LAUNCHES].launch), (1, 1));
    }
}
