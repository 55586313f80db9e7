//! An SQLite file from an unknown source: read only, in bounded memory, table by table.
//!
//! The file may be damaged or hostile. It is opened as one that nothing changes, so no journal
//! beside it is read. Only ordinary tables are read, each from its first row to its last, and only
//! columns that are stored: views, virtual tables and computed columns could run for ever. A
//! damaged tree of pages may lead to a row again and again, so the rows of a table are counted
//! against the bytes of the file.

use crate::TraceError;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The first bytes of an SQLite file.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";

/// Maximum number of bytes that SQLite allocates, for all files together.
const HEAP_BYTES_MAX: u32 = 256 << 20;
/// Maximum number of bytes of a text in a row.
const TEXT_BYTES_MAX: i32 = 16 << 20;
/// Maximum number of KiB of pages that are kept in memory.
const CACHE_KIB: u32 = 16 << 10;
/// The bytes of the shortest row in a page: the place of a cell, two lengths, and a header.
const ROW_BYTES_MIN: u64 = 6;

/// The limits of SQLite. None of them restricts what an export has.
const LIMITS: [(Limit, i32); 7] = [
    (Limit::SQLITE_LIMIT_LENGTH, TEXT_BYTES_MAX),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 16),
    (Limit::SQLITE_LIMIT_COLUMN, 400),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 4),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
];

/// An open file with its tables.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    /// The names of the stored columns of each table.
    columns: HashMap<String, Vec<String>>,
    rows_max: u64,
}

/// A row with the columns that were asked for. A column that the table lacks has no value.
pub(super) struct TableRow<'a>(&'a Row<'a>);

impl TableRow<'_> {
    /// The whole number in a column.
    pub(super) fn number(&self, column: usize) -> Option<i64> {
        match self.0.get_ref(column) {
            Ok(ValueRef::Integer(number)) => Some(number),
            _ => None,
        }
    }

    /// A number of 32 bits; 0 for another value.
    pub(super) fn small(&self, column: usize) -> u32 {
        self.number(column).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    }

    /// The text in a column.
    pub(super) fn text(&self, column: usize) -> Option<String> {
        match self.0.get_ref(column) {
            Ok(ValueRef::Text(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }
}

/// The error of a file that SQLite refuses.
fn refused(error: &rusqlite::Error) -> TraceError {
    TraceError::Format(format!("the SQLite file cannot be read: {error}"))
}

/// The address of a file as SQLite takes it. It states that the file does not change.
fn address(path: &Path) -> String {
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                address.push(char::from(*byte));
            }
            other => address.push_str(&format!("%{other:02x}")),
        }
    }
    address + "?mode=ro&immutable=1"
}

impl Database {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self, TraceError> {
        let bytes = std::fs::metadata(path).map_err(TraceError::Io)?.len();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> rusqlite::Result<Self> {
            let connection = Connection::open_with_flags(address(path), flags)?;
            for (limit, value) in LIMITS {
                connection.set_limit(limit, value)?;
            }
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
            connection.execute_batch(&format!(
                "PRAGMA hard_heap_limit = {HEAP_BYTES_MAX}; PRAGMA query_only = ON;
                 PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;
                 PRAGMA cache_size = -{CACHE_KIB};"
            ))?;
            let columns = columns(&connection)?;
            Ok(Self { connection, columns, rows_max: bytes / ROW_BYTES_MIN })
        };
        open().map_err(|error| refused(&error))
    }

    /// Whether the file has a table with rows that can be read.
    pub(super) fn has(&self, table: &str) -> bool {
        self.columns.contains_key(table)
    }

    /// Whether a table has a column.
    pub(super) fn has_column(&self, table: &str, column: &str) -> bool {
        self.columns.get(table).is_some_and(|all| all.iter().any(|one| one == column))
    }

    /// Calls a function with each row of a table, in the order of the file. Without such a table
    /// there is no row.
    pub(super) fn rows(
        &self,
        table: &str,
        wanted: &[&str],
        mut each: impl FnMut(&TableRow<'_>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        if !self.has(table) {
            return Ok(());
        }
        let names: Vec<String> = wanted
            .iter()
            .map(|name| match self.has_column(table, name) {
                true => format!("\"{name}\""),
                false => "NULL".to_owned(),
            })
            .collect();
        let text = format!("SELECT {} FROM main.\"{table}\" NOT INDEXED", names.join(", "));
        let mut statement = self.connection.prepare(&text).map_err(|error| refused(&error))?;
        let mut rows = statement.raw_query();
        let mut count = 0;
        while let Some(row) = rows.next().map_err(|error| refused(&error))? {
            count += 1;
            if count > self.rows_max {
                let cause = format!("the table {table} has more rows than the file has room for");
                return Err(TraceError::Format(cause));
            }
            each(&TableRow(row))?;
        }
        Ok(())
    }

    /// The text with a number in the table of texts. `None` if there is no such text.
    pub(super) fn string(&self, id: i64) -> Result<Option<String>, TraceError> {
        if !self.has("StringIds") {
            return Ok(None);
        }
        let find = || -> rusqlite::Result<Option<String>> {
            let text = "SELECT value FROM main.StringIds WHERE id = ?1";
            let mut statement = self.connection.prepare_cached(text)?;
            let mut rows = statement.query([id])?;
            Ok(rows.next()?.and_then(|row| TableRow(row).text(0)))
        };
        find().map_err(|error| refused(&error))
    }
}

/// The stored columns of each table. The table of texts must have a key: without one, each of its
/// texts would be searched in all rows.
fn columns(connection: &Connection) -> rusqlite::Result<HashMap<String, Vec<String>>> {
    // A view has another type, and a virtual table no page of its own.
    let text = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND rootpage > 0";
    let mut statement = connection.prepare(text)?;
    let mut rows = statement.query([])?;
    let mut all = HashMap::new();
    while let Some(row) = rows.next()? {
        let Some(table) = TableRow(row).text(0) else { continue };
        let mut names = Vec::new();
        let mut has_key = false;
        // Computed columns are not listed.
        connection.pragma(Some("main"), "table_info", &table, |column| {
            let column = TableRow(column);
            let name = column.text(1).unwrap_or_default();
            has_key |= name == "id" && column.number(5) == Some(1);
            names.push(name);
            Ok(())
        })?;
        if table != "StringIds" || (has_key && names.iter().any(|name| name == "value")) {
            all.insert(table, names);
        }
    }
    Ok(all)
}
