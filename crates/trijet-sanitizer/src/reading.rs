//! The tables in device memory: how they are made, and the thread that reads them.

use crate::batches::{FullTable, TABLES, Tables};
use crate::capture::{AccessCapture, ContextTables, IS_INSIDE, handle};
use crate::table::{self, TableContent};
use std::ffi::{c_int, c_void};
use std::sync::PoisonError;

/// `SANITIZER_ERROR_OUT_OF_MEMORY`.
const NO_MEMORY: c_int = 7;
/// The work of a context is not known to be complete. No code of the library.
const NOT_DONE: c_int = -1;

impl AccessCapture {
    /// Makes the tables of a context.
    ///
    /// # Errors
    /// The error of the library, if there is no memory for one table.
    pub(crate) fn new_tables(&self, context: usize) -> Result<Tables, c_int> {
        let stream = self.legacy_stream(context)?;
        let mut addresses = Vec::new();
        for _ in 0..TABLES {
            let mut memory: *mut c_void = std::ptr::null_mut();
            let bytes = table::BYTES + table::ALIGNMENT;
            // SAFETY: the context exists, because this callback is about it or about a launch in
            // it. The call writes the local variable.
            let code = unsafe { (self.api.alloc)(handle(context), &raw mut memory, bytes) };
            if code != 0 {
                break;
            }
            let address = memory.expose_provenance().next_multiple_of(table::ALIGNMENT);
            if self.clear(address, stream).is_err() {
                break;
            }
            addresses.push(address);
        }
        if addresses.is_empty() { Err(NO_MEMORY) } else { Ok(Tables::new(&addresses)) }
    }

    /// Clears a new table.
    fn clear(&self, address: usize, stream: *mut c_void) -> Result<(), c_int> {
        self.fill(address, table::BYTES, stream)?;
        self.wait_for_stream(stream)
    }

    fn legacy_stream(&self, context: usize) -> Result<*mut c_void, c_int> {
        let mut stream: *mut c_void = std::ptr::null_mut();
        // SAFETY: the context exists, as for `new_tables`. The call writes the local variable.
        let code =
            unsafe { (self.api.stream)(handle(context), std::ptr::null_mut(), &raw mut stream) };
        if code == 0 { Ok(stream) } else { Err(code) }
    }

    fn fill(&self, address: usize, bytes: usize, stream: *mut c_void) -> Result<(), c_int> {
        // SAFETY: the bytes are a part of a table, which no launch uses at this time.
        let code = unsafe { (self.api.fill)(handle(address), 0, bytes, stream) };
        if code == 0 { Ok(()) } else { Err(code) }
    }

    fn wait_for_stream(&self, stream: *mut c_void) -> Result<(), c_int> {
        // SAFETY: the stream exists: a table that is taken has no stream that has ended, and the
        // call that ends a stream waits until its tables are read. False if that wait is in vain
        // while this thread waits for the same stream.
        let code = unsafe { (self.api.wait)(stream) };
        if code == 0 { Ok(()) } else { Err(code) }
    }

    /// Reads tables until the process ends. The body of a thread.
    pub fn read_tables(&self) {
        // The library's own work in this thread is not recorded.
        IS_INSIDE.set(true);
        loop {
            let (context, full) = self.next_table();
            let waited = self.wait_for_launches(context, &full);
            if self.gives_back(context, &full, waited != Ok(false)) {
                continue;
            }
            let content = waited.and_then(|_| self.read(context, &full));
            let slots = content.as_ref().map_or(0, |content| content.keys.len());
            match &content {
                Ok(content) => {
                    let all = table::touched(content, full.calls.len());
                    for (call, touched) in
                        full.calls.iter().zip(&all).filter(|(call, _)| **call != 0)
                    {
                        (self.hooks.touched)(*call, Some(touched));
                    }
                }
                Err(_) => full.calls.iter().for_each(|call| (self.hooks.touched)(*call, None)),
            }
            let mut state = self.state();
            state.is_reading = false;
            let is_read = content.is_ok();
            if let Some(ContextTables::Ready(tables)) = state.contexts.get_mut(&context) {
                match is_read {
                    true => tables.free(full.table, full.calls.len(), slots),
                    false => tables.lose(full.table),
                }
            }
            state.is_stuck &= !is_read;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for a table to read.
    fn next_table(&self) -> (usize, FullTable) {
        let mut state = self.state();
        loop {
            if state.captured.is_empty() {
                let found = state.contexts.iter_mut().find_map(|(context, one)| match one {
                    ContextTables::Ready(tables) => Some((*context, tables.take()?)),
                    _ => None,
                });
                if let Some(found) = found {
                    state.is_reading = true;
                    return found;
                }
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the launches of a table. Returns whether all are complete: a capture ends the
    /// waits.
    fn wait_for_launches(&self, context: usize, full: &FullTable) -> Result<bool, c_int> {
        let is_capturing = || !self.state().captured.is_empty();
        if !full.ended.is_empty() && !is_capturing() {
            return (self.hooks.wait_for_context)(context).then_some(true).ok_or(NOT_DONE);
        }
        for stream in &full.streams {
            if is_capturing() {
                return Ok(false);
            }
            self.wait_for_stream(handle(*stream))?;
        }
        // A stream that has ended has no wait of its own.
        Ok(full.ended.is_empty())
    }

    /// Gives a table back if a capture has begun, or had begun during the wait for its launches.
    fn gives_back(&self, context: usize, full: &FullTable, has_waited: bool) -> bool {
        let mut state = self.state();
        if has_waited && state.captured.is_empty() {
            return false;
        }
        state.is_reading = false;
        if let Some(ContextTables::Ready(tables)) = state.contexts.get_mut(&context) {
            tables.put_back(full.clone());
        }
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Reads a table whose launches are complete, and clears it.
    fn read(&self, context: usize, full: &FullTable) -> Result<TableContent, c_int> {
        let stream = match full.streams.last() {
            Some(stream) => handle(*stream),
            None => self.legacy_stream(context)?,
        };
        let at = |offset: usize| full.address + offset;
        let mut header = vec![0_u8; table::HEADER_BYTES];
        self.download(&mut header, at(0), stream)?;
        let [slots, maps] = table::counters(&header);
        let keys = self.words(slots, 8, at(table::KEYS_AT), stream)?;
        let words = self.words(slots, table::SLOT_BYTES, at(table::BITS_AT), stream)?;
        let used = self.words(maps, table::MAP_BYTES, at(table::MAPS_AT), stream)?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let content = TableContent {
            keys: keys.chunks_exact(8).map(word).collect(),
            words: {
                let half = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap_or_default());
                words.chunks_exact(4).map(half).collect()
            },
            maps: { used.chunks_exact(24) }
                .map(|one| [word(&one[..8]), word(&one[8..16]), word(&one[16..])])
                .collect(),
            full: header[table::FULL_AT..table::FULL_AT + table::LAUNCHES + 1].to_vec(),
        };
        self.fill(at(0), table::BITS_AT, stream)?;
        if slots > 0 {
            self.fill(at(table::BITS_AT), slots * table::SLOT_BYTES, stream)?;
        }
        if maps > 0 {
            self.fill(at(table::MAP_TABLE_AT), table::MAPS_AT - table::MAP_TABLE_AT, stream)?;
        }
        self.wait_for_stream(stream)?;
        Ok(content)
    }

    /// The first `count` elements at an address.
    fn words(
        &self,
        count: usize,
        bytes: usize,
        from: usize,
        stream: *mut c_void,
    ) -> Result<Vec<u8>, c_int> {
        let mut all = vec![0_u8; count * bytes];
        if count > 0 {
            self.download(&mut all, from, stream)?;
        }
        Ok(all)
    }

    fn download(&self, to: &mut [u8], from: usize, stream: *mut c_void) -> Result<(), c_int> {
        // SAFETY: the bytes are a part of a table, whose launches are complete. The library waits
        // for the copy.
        let code =
            unsafe { (self.api.download)(to.as_mut_ptr().cast(), handle(from), to.len(), stream) };
        if code == 0 { Ok(()) } else { Err(code) }
    }
}
