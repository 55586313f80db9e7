//! A table of objects by handle. A handle contains the index of its entry and a generation. So the
//! handle of a removed object does not find the next object in the same entry.
#![forbid(unsafe_code)]

const PLACE_BITS: u32 = 32;

#[derive(Debug)]
struct Entry<T> {
    generation: u64,
    value: Option<T>,
}

/// Objects by handle. No handle is 0.
#[derive(Debug)]
pub(in crate::device::host) struct Table<T> {
    entries: Vec<Entry<T>>,
    free: Vec<usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

fn place(handle: u64) -> usize {
    usize::try_from(handle & ((1 << PLACE_BITS) - 1)).unwrap_or(usize::MAX)
}

impl<T> Table<T> {
    pub(in crate::device::host) fn insert(&mut self, value: T) -> u64 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            self.entries.len() - 1
        });
        let entry = &mut self.entries[at];
        entry.generation += 1;
        entry.value = Some(value);
        entry.generation << PLACE_BITS | at as u64
    }

    pub(in crate::device::host) fn get(&self, handle: u64) -> Option<&T> {
        let entry = self.entries.get(place(handle))?;
        entry.value.as_ref().filter(|_| entry.generation == handle >> PLACE_BITS)
    }

    pub(in crate::device::host) fn get_mut(&mut self, handle: u64) -> Option<&mut T> {
        let entry = self.entries.get_mut(place(handle))?;
        entry.value.as_mut().filter(|_| entry.generation == handle >> PLACE_BITS)
    }

    pub(in crate::device::host) fn remove(&mut self, handle: u64) -> Option<T> {
        self.get(handle)?;
        self.free.push(place(handle));
        self.entries[place(handle)].value.take()
    }

    /// Empties the table and keeps its memory. Later objects get the same handles as in a new
    /// table.
    pub(in crate::device::host) fn cleared(mut self) -> Self {
        self.entries.clear();
        self.free.clear();
        self
    }

    pub(in crate::device::host) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.value.as_ref())
    }

    pub(in crate::device::host) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.value.as_mut())
    }
}

/// Empties `list` and keeps its memory.
pub(in crate::device::host) fn cleared<T>(mut list: Vec<T>) -> Vec<T> {
    list.clear();
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_of_what_is_gone_finds_nothing() {
        let mut table = Table::default();
        let (a, b) = (table.insert('a'), table.insert('b'));
        assert_eq!((table.remove(a), table.remove(a)), (Some('a'), None));
        let c = table.insert('c');
        assert_ne!(a, c);
        assert_eq!((table.get(a), table.get(b), table.get(c)), (None, Some(&'b'), Some(&'c')));
        assert_eq!(table.get(0), None);
        assert_eq!(table.values().count(), 2);
        let mut table = table.cleared();
        assert_eq!((table.values().count(), table.insert('d')), (0, a));
    }
}
