//! A key as its owner has it, and the hash by which a server knows it.
//!
//! Owns: [`ApiKey`], [`KeyHash`]. A key is 256 bits from the operating system, so that one round of SHA-256
//! keeps it: there is nothing to guess, and nothing a slow hash would make slower to guess.

use std::fmt;

use rand::TryRngCore;
use rand::rngs::OsRng;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// What every key begins with, so that people and scanners of repositories know one.
const PREFIX: &str = "hw_";
const SECRET_BYTES: usize = 32;

/// A new key. It is shown to its owner and not kept.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key nobody had before.
    ///
    /// # Errors
    /// What the operating system said when it was asked for chance.
    pub fn generate() -> Result<Self, rand::rand_core::OsError> {
        let mut secret = [0_u8; SECRET_BYTES];
        OsRng.try_fill_bytes(&mut secret)?;
        Ok(Self(format!("{PREFIX}{}", hex::encode(secret))))
    }

    /// The key, for the one place where it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Its hash.
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(self.0.as_bytes())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// The SHA-256 of a key. Compared in constant time only, so there is no `==`.
#[derive(Clone)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Of a key as it came.
    pub fn of(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }
}

impl ConstantTimeEq for KeyHash {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

impl Serialize for KeyHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(self.0))
    }
}

impl<'de> Deserialize<'de> for KeyHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut hash = [0_u8; 32];
        hex::decode_to_slice(&text, &mut hash)
            .map_err(|_| serde::de::Error::custom("64 hexadecimal digits are needed"))?;
        Ok(Self(hash))
    }
}
