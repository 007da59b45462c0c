//! What the tokens of a request's puts say.
//!
//! Owns: [`RequestName`], [`Share`] and their bytes, which stand in docs/formats.md. They are persisted, as
//! client tokens of entries, so they keep their meaning over versions.

use headwater_format::token::{ClientToken, TokenError};
use uuid::Uuid;

/// Digests of request tokens are of this name space: no client token begins as they do by chance.
const NAME_SPACE: Uuid = Uuid::from_u128(0x6f1b_7c52_9d0e_4a38_8c41_27e5_0b93_da6f);

/// What all tokens of one request begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestName(Uuid);

/// What one put of a request did to one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// The request is done with the rows of the shard whose key hashes are from here …
    pub first: u64,
    /// … to here.
    pub last: u64,
    /// How many of them it wrote.
    pub rows: u64,
    /// Whether the request ended with it.
    pub ends: bool,
}

impl RequestName {
    /// Of the request with this token.
    pub fn of(token: &ClientToken) -> Self {
        Self(Uuid::new_v5(&NAME_SPACE, token.bytes()))
    }

    /// What its tokens begin with.
    ///
    /// # Errors
    /// None: there are 16 bytes.
    pub fn beginning(self) -> Result<ClientToken, TokenError> {
        ClientToken::new(self.0.as_bytes())
    }

    /// The token of one put.
    ///
    /// # Errors
    /// None: there are 41 bytes.
    pub fn token(self, share: &Share) -> Result<ClientToken, TokenError> {
        let mut bytes = self.0.as_bytes().to_vec();
        for number in [share.first, share.last, share.rows] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.push(u8::from(share.ends));
        ClientToken::new(&bytes)
    }
}

impl Share {
    /// Read back; none of other tokens.
    pub fn of(token: &ClientToken) -> Option<Self> {
        let (_, rest) = token.bytes().split_first_chunk::<16>()?;
        let (first, rest) = rest.split_first_chunk()?;
        let (last, rest) = rest.split_first_chunk()?;
        let (rows, rest) = rest.split_first_chunk()?;
        let [ends] = rest else { return None };
        let [first, last, rows] = [first, last, rows].map(|bytes| u64::from_be_bytes(*bytes));
        Some(Self { first, last, rows, ends: *ends != 0 })
    }
}
