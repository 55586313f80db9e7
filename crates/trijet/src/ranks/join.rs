//! The join of ranks. Rank 0 listens. The other ranks connect, send their rank, and prove that they
//! belong to the job ([`Token`]). Rank 0 then proves that it belongs to the same job.
//!
//! Any program may connect to the port. Rank 0 drops a connection that is not from a rank of this
//! job, limits the number and the time of such connections, and continues. If a rank has not joined
//! within the timeout, the error describes some of the dropped connections.
#![forbid(unsafe_code)]

use super::frames::Frame;
use super::steps::named;
use super::token::{ONCE, PROOF, Side, Token, once};
use crate::base::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

const OP: &str = "join ranks";
/// The first bytes of each connection, in both directions.
const WORD: [u8; 8] = *b"trijet-2";
/// The number of bytes of the hello: the word, the rank, the number of ranks, and a random number
/// that is used once.
const HELLO: usize = WORD.len() + 8 + ONCE;
/// The number of bytes of the answer: the word, and a random number that is used once.
const ANSWER: usize = WORD.len() + ONCE;
/// The pause between two checks of all connections, and between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(5);
/// The other ranks wait up to the timeout plus this time for an answer of rank 0. Rank 0 itself
/// waits no longer than the timeout. After a contradiction, rank 0 accepts late ranks for this
/// time.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum time from a connection to its proof. A rank that is slower connects again.
const PROOF_WAIT: Duration = Duration::from_secs(5);
/// Maximum number of connections without a proof. If there are more, rank 0 drops one of them.
const UNKNOWN_MAX: usize = 256;
/// Maximum number of connections that are accepted between two checks of all connections.
const TAKEN_MAX: usize = 64;
/// Maximum number of strangers that an error describes. A stranger is a connection that is not from
/// a rank of the job.
const NAMED_MAX: usize = 3;

/// A process that joins the group: its rank, the number of ranks, and the timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessRank {
    pub(crate) rank: usize,
    pub(crate) count: usize,
    pub(crate) timeout: Duration,
}

fn failed(cause: String, source: io::Error) -> Error {
    Error::new(ErrorKind::Io, OP, format!("{cause}: {source}")).caused_by(source)
}

/// Joins the other ranks, and returns the connections by the rank at the other end. Rank 0 has a
/// connection to each other rank. Each other rank has a connection to rank 0 only.
pub(super) fn join(
    own: ProcessRank,
    address: &str,
    token: &Token,
) -> Result<BTreeMap<usize, TcpStream>> {
    let streams = match own {
        ProcessRank { count: 1, .. } => BTreeMap::new(),
        ProcessRank { rank: 0, .. } => listen(own, address, token)?,
        _ => BTreeMap::from([(0, connect(own, address, token)?)]),
    };
    for stream in streams.values() {
        let set = || {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(own.timeout))?;
            stream.set_read_timeout(Some(own.timeout))
        };
        set().map_err(|error| failed("a connection cannot be set up".to_owned(), error))?;
    }
    Ok(streams)
}

/// A connection to rank 0 whose other end has not sent a proof.
struct Unknown {
    stream: TcpStream,
    from: SocketAddr,
    since: Instant,
    /// The bytes that the other end has sent so far: the hello, and then the proof.
    said: Vec<u8>,
    /// The answer of rank 0 to the hello; `None` before the hello is complete.
    answer: Option<[u8; ANSWER]>,
}

/// A connection from a rank of this job.
struct Proven {
    stream: TcpStream,
    from: SocketAddr,
    rank: usize,
    count: usize,
    /// The proof of rank 0 for this connection.
    proof: [u8; PROOF],
}

/// The result of a check of a connection without a proof.
enum ConnectionLook {
    Nothing,
    /// The connection must be dropped, because it has closed or is from a stranger. The text
    /// describes the stranger. There is no text if the error need not describe the connection.
    Gone(Option<String>),
    /// The connection is from a rank of the job. The fields are the rank, the number of ranks, and
    /// the proof of rank 0 for this connection.
    Proven(usize, usize, [u8; PROOF]),
}

impl Unknown {
    fn look(&mut self, token: &Token) -> ConnectionLook {
        let from = self.from;
        loop {
            let wanted = if self.answer.is_none() { HELLO } else { HELLO + PROOF };
            let mut bytes = [0; HELLO + PROOF];
            match self.stream.read(&mut bytes[..wanted - self.said.len()]) {
                Ok(read @ 1..) => self.said.extend(&bytes[..read]),
                Err(error) if is_pause(&error) => break,
                // The error need not describe a connection that closes too early.
                Ok(0) | Err(_) => return ConnectionLook::Gone(None),
            }
            let word = &self.said[..WORD.len().min(self.said.len())];
            if !WORD.starts_with(word) {
                let word = word.escape_ascii();
                return ConnectionLook::Gone(Some(format!(
                    "a connection from {from} is not from a rank: it sent `{word}`"
                )));
            }
            match self.answer {
                None if self.said.len() == HELLO => match self.ask() {
                    Ok(answer) => self.answer = Some(answer),
                    Err(_) => return ConnectionLook::Gone(None),
                },
                Some(answer) if self.said.len() == HELLO + PROOF => {
                    return self.judge(token, &answer);
                }
                _ => {}
            }
        }
        if self.since.elapsed() < PROOF_WAIT {
            return ConnectionLook::Nothing;
        }
        let said = self.said.len();
        ConnectionLook::Gone(Some(format!(
            "a connection from {from} sent {said} bytes within {PROOF_WAIT:?}, but a rank sends {}",
            HELLO + PROOF
        )))
    }

    /// Answers the hello. The other end sends its proof after this answer.
    fn ask(&mut self) -> io::Result<[u8; ANSWER]> {
        let mut answer = [0; ANSWER];
        answer[..WORD.len()].copy_from_slice(&WORD);
        answer[WORD.len()..].copy_from_slice(&once()?);
        // The answer fits into the buffer of the new connection, so this write does not block.
        self.stream.write_all(&answer)?;
        Ok(answer)
    }

    fn judge(&mut self, token: &Token, answer: &[u8]) -> ConnectionLook {
        let (hello, proof) = self.said.split_at(HELLO);
        let number = |at: usize| {
            let bytes = hello[at..at + 4].try_into().map_or(u32::MAX, u32::from_le_bytes);
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        let (rank, count) = (number(WORD.len()), number(WORD.len() + 4));
        // The comparison takes the same time for all wrong proofs.
        if token.proof(Side::Other, hello, answer) == *proof {
            return ConnectionLook::Proven(
                rank,
                count,
                *token.proof(Side::Zero, hello, answer).as_bytes(),
            );
        }
        // These zeros are not a valid proof. The other end learns from the zeros that its token is
        // wrong.
        drop(self.stream.write_all(&[0; PROOF]));
        let from = self.from;
        ConnectionLook::Gone(Some(format!(
            "a connection from {from} claims to be rank {rank}, but does not have the token of this job"
        )))
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The port of rank 0, and all connections to it.
struct Door<'a> {
    own: ProcessRank,
    token: &'a Token,
    listener: TcpListener,
    unknown: Vec<Unknown>,
    joined: BTreeMap<usize, Proven>,
    /// Ranks of the job that cannot join: the rank is not valid or has already joined, or the
    /// number of ranks differs from the number on rank 0.
    refused: Vec<Proven>,
    /// Descriptions of strangers, at most [`NAMED_MAX`].
    strangers: Vec<String>,
    /// The number of all strangers.
    strangers_count: usize,
}

/// On rank 0: accepts the connections of the other ranks, and sends each rank the outcome.
fn listen(own: ProcessRank, address: &str, token: &Token) -> Result<BTreeMap<usize, TcpStream>> {
    let cannot = |error| failed(format!("rank 0 cannot listen at {address}"), error);
    let listener = TcpListener::bind(address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let (unknown, joined, refused) = (Vec::new(), BTreeMap::new(), Vec::new());
    let strangers = Vec::new();
    let mut door =
        Door { own, token, listener, unknown, joined, refused, strangers, strangers_count: 0 };
    let outcome = door.gather();
    if outcome.as_ref().is_err_and(|(kind, _)| *kind != ErrorKind::PeerLost) {
        door.take_late();
    }
    let outcome = outcome.map_err(|(kind, cause)| Error::new(kind, OP, door.with_strangers(cause)));
    let told = outcome.as_ref().map(|()| Vec::new()).map_err(ToString::to_string);
    let Door { mut joined, mut refused, .. } = door;
    for Proven { stream, proof, .. } in joined.values_mut().chain(&mut refused) {
        let mut tell = || {
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(own.timeout))?;
            stream.write_all(proof)?;
            Frame::Answer(told.clone()).write(stream)
        };
        // This write fails if the rank has ended. A later read from the connection then shows the
        // end.
        drop(tell());
    }
    outcome.map(|()| joined.into_iter().map(|(rank, one)| (rank, one.stream)).collect())
}

impl Door<'_> {
    /// Accepts connections until all ranks have joined.
    ///
    /// # Errors
    /// Ranks that are missing, or a contradiction between ranks.
    fn gather(&mut self) -> std::result::Result<(), (ErrorKind, String)> {
        let ProcessRank { count, timeout, .. } = self.own;
        let deadline = Instant::now() + timeout;
        loop {
            let trouble = self.take();
            self.look().map_err(|cause| (ErrorKind::InvalidValue, cause))?;
            if self.joined.len() + 1 == count {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let missing = (1..count).filter(|rank| !self.joined.contains_key(rank));
                let missing: Vec<_> = missing.collect();
                let have = if let [_] = missing[..] { "has" } else { "have" };
                let missing = named(&missing, count);
                let mut cause = format!("{missing} {have} not joined within {timeout:?}");
                if let Err(error) = trouble {
                    cause = format!("{cause}; rank 0 cannot accept connections: {error}");
                }
                return Err((ErrorKind::PeerLost, cause));
            }
            park_timeout(PAUSE);
        }
    }

    fn with_strangers(&self, cause: String) -> String {
        let more = self.strangers_count - self.strangers.len();
        let more = (more > 0).then(|| format!("and {more} more such connections"));
        [cause].iter().chain(&self.strangers).chain(&more).cloned().collect::<Vec<_>>().join("; ")
    }

    /// After a contradiction, accepts more ranks for up to [`GRACE`], so that these ranks get the
    /// error.
    fn take_late(&mut self) {
        let deadline = Instant::now() + GRACE;
        while self.joined.len() + self.refused.len() + 1 < self.own.count
            && Instant::now() < deadline
        {
            drop((self.take(), self.look()));
            park_timeout(PAUSE);
        }
    }

    /// Accepts new connections. After an error, a later call may succeed: in most cases, a
    /// connection has already ended, or other programs have reached a limit of the system for a
    /// while.
    fn take(&mut self) -> io::Result<()> {
        for _ in 0..TAKEN_MAX {
            let (stream, from) = match self.listener.accept() {
                Ok(one) => one,
                Err(error) if is_pause(&error) => break,
                Err(error) => return Err(error),
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.unknown.len() == UNKNOWN_MAX {
                // Drops the oldest connection without a hello, or else the oldest connection. A
                // connection with a hello is more likely from a rank.
                let oldest = self.unknown.iter().position(|one| one.answer.is_none());
                self.unknown.remove(oldest.unwrap_or(0));
                self.strangers_count += 1;
            }
            let (since, said) = (Instant::now(), Vec::new());
            self.unknown.push(Unknown { stream, from, since, said, answer: None });
        }
        Ok(())
    }

    /// Checks all connections that have not sent a proof.
    ///
    /// # Errors
    /// A rank of this job that contradicts rank 0 or another rank. The error is returned after all
    /// connections have been checked.
    fn look(&mut self) -> std::result::Result<(), String> {
        let mut outcome = Ok(());
        for mut one in std::mem::take(&mut self.unknown) {
            match one.look(self.token) {
                ConnectionLook::Nothing => self.unknown.push(one),
                ConnectionLook::Gone(word) => {
                    self.strangers_count += usize::from(word.is_some());
                    let is_named = self.strangers.len() < NAMED_MAX;
                    self.strangers.extend(word.filter(|_| is_named));
                }
                ConnectionLook::Proven(rank, count, proof) => {
                    let Unknown { stream, from, .. } = one;
                    let added = self.add(Proven { stream, from, rank, count, proof });
                    outcome = outcome.and(added);
                }
            }
        }
        outcome
    }

    fn add(&mut self, one: Proven) -> std::result::Result<(), String> {
        let (Proven { from, rank, count, .. }, own) = (&one, self.own.count);
        let cause = if *count != own {
            format!("rank {rank} from {from} was started with {count} ranks, but rank 0 with {own}")
        } else if *rank == 0 || *rank >= own || self.joined.contains_key(rank) {
            format!("rank {rank} has joined twice; the second connection is from {from}")
        } else {
            self.joined.insert(*rank, one);
            return Ok(());
        };
        self.refused.push(one);
        Err(cause)
    }
}

/// On the other ranks: connects to rank 0, and waits for the outcome of the join.
fn connect(own: ProcessRank, address: &str, token: &Token) -> Result<TcpStream> {
    let ProcessRank { count, timeout, .. } = own;
    let lost = |cause: String| Error::new(ErrorKind::PeerLost, OP, cause);
    let without = |why| format!("rank 0 of {count} at {address} did not complete the join: {why}");
    let deadline = Instant::now() + timeout;
    let (mut stream, hello, answer) = loop {
        let greeted = attempt(address, deadline).and_then(|stream| greet(stream, own));
        let reason = match greeted {
            Ok(greeted) => break greeted,
            // Another program listens at this address, so a later attempt would fail.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(lost(without(error.to_string())).caused_by(error));
            }
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
        stream.write_all(token.proof(Side::Other, &hello, &answer).as_bytes())?;
        let mut proof = [0; PROOF];
        stream.read_exact(&mut proof)?;
        if token.proof(Side::Zero, &hello, &answer) != proof {
            let cause = "it does not have the token of this rank (TRIJET_JOB_TOKEN)";
            return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
        }
        Frame::read(&mut stream)
    };
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

/// Sends the hello, and waits for the answer of rank 0. Returns the connection, the hello and the
/// answer.
///
/// # Errors
/// `InvalidData` if another program than rank 0 answers. After any other error, a later attempt may
/// succeed.
fn greet(
    mut stream: TcpStream,
    ProcessRank { rank, count, timeout }: ProcessRank,
) -> io::Result<(TcpStream, [u8; HELLO], [u8; ANSWER])> {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
    let hello = [&WORD[..], &number(rank), &number(count), &once()?].concat();
    let hello: [u8; HELLO] = hello.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut answer = [0; ANSWER];
    stream.set_read_timeout(Some(timeout + GRACE))?;
    stream.write_all(&hello)?;
    let (word, number) = answer.split_at_mut(WORD.len());
    stream.read_exact(word)?;
    if word != WORD {
        let word = word.escape_ascii();
        let cause = format!("the program that listens there is not rank 0: it sent `{word}`");
        return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
    }
    stream.read_exact(number)?;
    Ok((stream, hello, answer))
}

fn attempt(address: &str, deadline: Instant) -> io::Result<TcpStream> {
    let mut reason = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for one in address.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(PAUSE);
        match TcpStream::connect_timeout(&one, left) {
            // If no process listens at a port of this host, the system may choose this port for
            // this end of the connection. The connection then leads to itself.
            Ok(stream) if stream.local_addr()? == stream.peer_addr()? => {}
            Ok(stream) => return Ok(stream),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}
