//! The proof that a rank belongs to the job, without sending the token of the job.
//!
//! Both ends draw a random number that is used once. Each end proves that it has the token by a
//! keyed hash of both numbers and of its side. So a recorded proof is valid neither for another
//! connection nor for the other side. Proofs are compared in constant time.
#![forbid(unsafe_code)]

use std::{fmt, io};

/// The number of bytes of a random number that is used once.
pub(super) const ONCE: usize = 16;
/// The number of bytes of a proof.
pub(super) const PROOF: usize = blake3::OUT_LEN;

/// The token of a job, as the key of a hash. The text of the token never appears in messages.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token([u8; blake3::KEY_LEN]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Zero = 0,
    Other = 1,
}

/// Draws a random number from the system. No other process can know the number before it is sent.
///
/// # Errors
/// Errors of the system.
pub(super) fn once() -> io::Result<[u8; ONCE]> {
    let mut number = [0; ONCE];
    getrandom::fill(&mut number)?;
    Ok(number)
}

impl Token {
    pub(super) fn new(text: &[u8]) -> Self {
        Self(blake3::derive_key("trijet 2026-11-25 token of a job of ranks", text))
    }

    /// The proof of a side. `hello` and `answer` are the first bytes that the two ends have sent,
    /// including their random numbers.
    pub(super) fn proof(&self, side: Side, hello: &[u8], answer: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&[side as u8]).update(hello).update(answer);
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proof depends on the token, on the side and on both random numbers, and does not contain
    /// the token.
    #[test]
    fn a_proof_is_good_for_one_token_one_side_and_one_connection() {
        let (token, hello, answer) = (Token::new(b"job 7"), [1; 32], [2; 24]);
        let proof = token.proof(Side::Other, &hello, &answer);
        assert_eq!(Token::new(b"job 7").proof(Side::Other, &hello, &answer), proof);
        for other in [
            Token::new(b"job 8").proof(Side::Other, &hello, &answer),
            Token::new(b"").proof(Side::Other, &hello, &answer),
            token.proof(Side::Zero, &hello, &answer),
            token.proof(Side::Other, &answer, &hello),
            token.proof(Side::Other, &hello, &[3; 24]),
        ] {
            assert_ne!(other, proof);
        }
        assert_eq!(format!("{token:?}"), "Token");
        assert_ne!(once().unwrap(), once().unwrap());
    }
}
