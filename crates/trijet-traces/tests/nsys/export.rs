//! Exports of Nsight Systems that tests write, in the form of its documented schema.

use rusqlite::Connection;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The number of process 77, and of its thread 78.
pub(crate) const PROCESS: i64 = 77 << 24;
pub(crate) const THREAD: i64 = PROCESS + 78;

/// The bytes of a page of the files.
pub(crate) const PAGE_BYTES: usize = 512;

/// The tables, with the columns that are read and some of the others.
pub(crate) const TABLES: &str = "
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
    CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
    CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
    CREATE TABLE TARGET_INFO_CUDA_CONTEXT_INFO (nullStreamId INTEGER NOT NULL, hwId INTEGER,
        vmId INTEGER, processId INTEGER, deviceId INTEGER, contextId INTEGER);
    CREATE TABLE TARGET_INFO_CUDA_STREAM (streamId INTEGER NOT NULL, hwId INTEGER, vmId INTEGER,
        processId INTEGER, contextId INTEGER, priority INTEGER, flag INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
        streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
        launchType INTEGER, graphNodeId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
        streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
        copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
        streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL,
        bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
        eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,
        nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
        streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        syncType INTEGER NOT NULL, eventId INTEGER NOT NULL);
    CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, address INTEGER NOT NULL,
        pc INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL,
        memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER, streamId INTEGER,
        localMemoryPoolAddress INTEGER);
    CREATE TABLE PROFILER_OVERHEAD (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
        correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
    CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
        rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
        endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);";

/// The tables of labels.
pub(crate) const ENUMS: &str = "
    CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'),
        (2, 'CUDA_MEMCPY_KIND_DTOH', 'Device-to-Host'),
        (8, 'CUDA_MEMCPY_KIND_DTOD', 'Device-to-Device'),
        (10, 'CUDA_MEMCPY_KIND_PTOP', 'Peer-to-Peer');
    CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'),
        (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'),
        (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'),
        (3, 'CUDA_MEMOPR_MEMORY_KIND_ARRAY', 'Array');
    CREATE TABLE ENUM_CUPTI_SYNC_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    INSERT INTO ENUM_CUPTI_SYNC_TYPE VALUES
        (1, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE', 'Event sync'),
        (2, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT', 'Stream wait sync'),
        (3, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE', 'Stream sync'),
        (4, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE', 'Context sync');
    CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES (34, 'NvtxMark', 'NvtxMark'),
        (59, 'NvtxPushPopRange', 'NvtxPushPopRange'),
        (60, 'NvtxStartEndRange', 'NvtxStartEndRange'),
        (75, 'NvtxDomainCreate', 'NvtxDomainCreate');";

/// A file in a folder of its own.
pub(crate) struct Export {
    path: PathBuf,
    _folder: TempDir,
}

impl Export {
    /// A file with these parts of the schema.
    pub(crate) fn with(parts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A name that is no address as it stands.
        let export = Self { path: folder.path().join("a report%20?x#.sqlite"), _folder: folder };
        export.rows(&format!("PRAGMA page_size = {PAGE_BYTES};{}", parts.concat()))
    }

    /// The file after further statements.
    pub(crate) fn rows(self, statements: &str) -> Self {
        let connection = Connection::open(&self.path).unwrap();
        // Nothing needs to outlive a loss of power.
        connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
        connection.execute_batch(statements).unwrap();
        connection.close().unwrap();
        self
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the first page of a table, from 1.
    pub(crate) fn root_page(&self, table: &str) -> u32 {
        let connection = Connection::open(&self.path).unwrap();
        let text = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        connection.query_row(text, [table], |row| row.get(0)).unwrap()
    }
}
