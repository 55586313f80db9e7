//! How ranks find each other: rank 0 listens, and the others connect and say which rank they are.
#![forbid(unsafe_code)]

use super::rank_frames::Frame;
use super::rank_steps::named;
use crate::base::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

const OP: &str = "join ranks";
/// The first bytes of each connection, in both directions.
const WORD: [u8; 8] = *b"trijet-1";
/// The word, the rank and the number of ranks.
const HELLO: usize = WORD.len() + 8;
/// The pause between two looks at connections, and between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(5);
/// How much longer than the timeout a rank waits for the answer of rank 0, which waits no longer than the timeout.
const GRACE: Duration = Duration::from_secs(1);
/// The most connections that have not said which rank they are.
const UNKNOWN_MAX: usize = 1024;

/// A process among those that join.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) rank: usize,
    pub(super) count: usize,
    pub(super) timeout: Duration,
}

fn failed(cause: String, source: io::Error) -> Error {
    Error::new(ErrorKind::Io, OP, format!("{cause}: {source}")).caused_by(source)
}

/// Joins the other ranks, and returns the connections: on rank 0 to each other one, on the others to rank 0.
pub(super) fn join(place: Place, address: &str) -> Result<BTreeMap<usize, TcpStream>> {
    let streams = match place {
        Place { count: 1, .. } => BTreeMap::new(),
        Place { rank: 0, .. } => listen(place, address)?,
        _ => BTreeMap::from([(0, connect(place, address)?)]),
    };
    for stream in streams.values() {
        let set = || {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(place.timeout))?;
            stream.set_read_timeout(Some(place.timeout))
        };
        set().map_err(|error| failed("a connection cannot be set up".to_owned(), error))?;
    }
    Ok(streams)
}

/// A connection that has not said which rank it is.
struct Unknown {
    stream: TcpStream,
    from: SocketAddr,
    hello: Vec<u8>,
}

/// What a look at an unknown connection shows.
enum Look {
    Nothing,
    /// It was closed: what closes a connection without a word is not waited for.
    Closed,
    Rank(usize),
}

impl Unknown {
    /// # Errors
    /// What is wrong with the connection.
    fn look(&mut self, count: usize) -> std::result::Result<Look, String> {
        let mut bytes = [0; HELLO];
        match self.stream.read(&mut bytes[..HELLO - self.hello.len()]) {
            Ok(0) => return Ok(Look::Closed),
            Ok(read) => self.hello.extend(&bytes[..read]),
            Err(error) if is_pause(&error) => return Ok(Look::Nothing),
            Err(_) => return Ok(Look::Closed),
        }
        let from = self.from;
        let word = &self.hello[..WORD.len().min(self.hello.len())];
        if !WORD.starts_with(word) {
            let word = String::from_utf8_lossy(word);
            return Err(format!("a connection from {from} is not from a rank: it sent `{word}`"));
        }
        if self.hello.len() < HELLO {
            return Ok(Look::Nothing);
        }
        let number = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&self.hello[at..at + 4]);
            usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX)
        };
        let (rank, others) = (number(WORD.len()), number(WORD.len() + 4));
        if others != count {
            return Err(format!(
                "rank {rank} from {from} says that there are {others} ranks; rank 0 was started with {count}"
            ));
        }
        Ok(Look::Rank(rank))
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Rank 0 takes the connections of the others, and tells all of them the outcome.
fn listen(place: Place, address: &str) -> Result<BTreeMap<usize, TcpStream>> {
    let cannot = |error| failed(format!("rank 0 cannot listen at {address}"), error);
    let listener = TcpListener::bind(address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let (mut joined, mut unknown) = (BTreeMap::new(), Vec::new());
    let outcome = gather(place, &listener, &mut joined, &mut unknown);
    if let Err(error) = &outcome
        && error.kind() != ErrorKind::PeerLost
    {
        take_late(place, &listener, joined.len(), &mut unknown);
    }
    let told = outcome.as_ref().map(|()| Vec::new()).map_err(ToString::to_string);
    for stream in joined.values_mut().chain(unknown.iter_mut().map(|one| &mut one.stream)) {
        let mut tell = || {
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(place.timeout))?;
            stream.write_all(&WORD)?;
            Frame::Answer(told.clone()).write(stream)
        };
        // A rank that does not get the answer has ended, which its connection shows later.
        drop(tell());
    }
    outcome.map(|()| joined)
}

/// Takes the connections of ranks that come a little later than a contradiction was found, so that they learn of it too.
fn take_late(place: Place, listener: &TcpListener, joined: usize, unknown: &mut Vec<Unknown>) {
    let deadline = Instant::now() + GRACE;
    while joined + unknown.len() + 1 < place.count && Instant::now() < deadline {
        match listener.accept() {
            Ok((stream, from)) => unknown.push(Unknown { stream, from, hello: Vec::new() }),
            Err(error) if is_pause(&error) => park_timeout(PAUSE),
            Err(_) => return,
        }
    }
}

fn gather(
    place: Place,
    listener: &TcpListener,
    joined: &mut BTreeMap<usize, TcpStream>,
    unknown: &mut Vec<Unknown>,
) -> Result<()> {
    let Place { count, timeout, .. } = place;
    let refused = |cause| Error::new(ErrorKind::InvalidValue, OP, cause);
    let deadline = Instant::now() + timeout;
    loop {
        match listener.accept() {
            Ok((stream, from)) if unknown.len() < UNKNOWN_MAX => {
                let set = stream.set_nonblocking(true);
                set.map_err(|error| failed(format!("the connection from {from}"), error))?;
                unknown.push(Unknown { stream, from, hello: Vec::new() });
                continue;
            }
            Ok(_) => {}
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(failed("no connection can be taken".to_owned(), error)),
        }
        let mut at = 0;
        while let Some(one) = unknown.get_mut(at) {
            match one.look(count).map_err(refused)? {
                Look::Nothing => at += 1,
                Look::Closed => drop(unknown.swap_remove(at)),
                Look::Rank(rank) if rank == 0 || joined.contains_key(&rank) => {
                    let from = one.from;
                    return Err(refused(format!("rank {rank} is there twice, also from {from}")));
                }
                Look::Rank(rank) => {
                    joined.insert(rank, unknown.swap_remove(at).stream);
                }
            }
        }
        if joined.len() + 1 == count {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let missing: Vec<_> = (1..count).filter(|rank| !joined.contains_key(rank)).collect();
            let have = if let [_] = missing[..] { "has" } else { "have" };
            let missing = named(&missing, count);
            let cause = format!("{missing} {have} not joined within {timeout:?}");
            return Err(Error::new(ErrorKind::PeerLost, OP, cause));
        }
        park_timeout(PAUSE);
    }
}

/// Connects to rank 0, and waits for its answer.
fn connect(place: Place, address: &str) -> Result<TcpStream> {
    let Place { rank, count, timeout } = place;
    let lost = |cause: String| Error::new(ErrorKind::PeerLost, OP, cause);
    let deadline = Instant::now() + timeout;
    let mut stream = loop {
        let reason = match attempt(address, deadline) {
            Ok(stream) => break stream,
            Err(reason) => reason,
        };
        if Instant::now() >= deadline {
            let cause = format!(
                "rank 0 of {count} was not found at {address} within {timeout:?}: {reason}"
            );
            return Err(lost(cause));
        }
        park_timeout(PAUSE);
    };
    let mut ask = || {
        let mut hello = WORD.to_vec();
        for number in [rank, count] {
            hello.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
        }
        stream.set_read_timeout(Some(timeout + GRACE))?;
        stream.write_all(&hello)?;
        let mut word = [0; WORD.len()];
        stream.read_exact(&mut word)?;
        if word != WORD {
            let word = String::from_utf8_lossy(&word);
            let cause = format!("what listens there is not rank 0: it sent `{word}`");
            return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
        }
        Frame::read(&mut stream)
    };
    let without = |why| format!("rank 0 of {count} at {address} did not complete the join: {why}");
    match ask() {
        Ok(Frame::Answer(Ok(_))) => Ok(stream),
        Ok(Frame::Answer(Err(cause))) => {
            let cause = cause
                .strip_prefix(OP)
                .and_then(|rest| rest.strip_prefix(": "))
                .map(str::to_owned)
                .unwrap_or(cause);
            Err(lost(cause))
        }
        Ok(other) => Err(lost(without(format!("it sent {other:?}")))),
        Err(error) => Err(lost(without(error.to_string())).caused_by(error)),
    }
}

fn attempt(address: &str, deadline: Instant) -> io::Result<TcpStream> {
    let mut reason = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for one in address.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(PAUSE);
        match TcpStream::connect_timeout(&one, left) {
            // Where no process listens, the system may choose the same port for this end: then the connection is to itself.
            Ok(stream) if stream.local_addr()? == stream.peer_addr()? => {}
            Ok(stream) => return Ok(stream),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}
