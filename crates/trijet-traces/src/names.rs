//! The names of activities, each once.

use std::collections::HashMap;
use trijet_cupti::file::{NAME_BYTES_MAX, NAMES_MAX};
use trijet_ledger::trace::activity::NameId;

/// The names so far.
#[derive(Debug, Default)]
pub(crate) struct NameTable {
    numbers: HashMap<String, u32>,
    pub(crate) all: Vec<String>,
}

impl NameTable {
    /// The number of a name. `None` if it is empty, or if there are too many.
    pub(crate) fn of(&mut self, name: &str) -> Option<NameId> {
        let end = name.floor_char_boundary(NAME_BYTES_MAX);
        let name = &name[..end];
        if let Some(number) = self.numbers.get(name) {
            return Some(NameId(*number));
        }
        if name.is_empty() || self.all.len() >= NAMES_MAX {
            return None;
        }
        let number = u32::try_from(self.all.len()).ok()?;
        self.all.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Some(NameId(number))
    }
}
