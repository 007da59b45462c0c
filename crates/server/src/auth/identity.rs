//! What the key of a request may do.
//!
//! Owns: [`Identity`]. It stands in the extensions of each request whose key was checked; a request without
//! one came to a server that needs no keys, and may do everything.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Whose key a request came with, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the key, for logs. Not the key.
    pub name: String,
    /// Where.
    pub databases: Databases,
    /// Whether it may change anything there.
    pub may_write: bool,
}

/// The databases a key is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Databases {
    /// Those of these names.
    List(BTreeSet<String>),
    /// All there are and will be.
    #[serde(with = "all")]
    All,
}

impl Databases {
    /// Whether `database` is one of them.
    pub fn contains(&self, database: &str) -> bool {
        match self {
            Self::All => true,
            Self::List(names) => names.contains(database),
        }
    }
}

/// [`Databases::All`] as the word `all`.
mod all {
    use serde::{Deserialize, Deserializer, Serializer};

    const ALL: &str = "all";

    pub fn serialize<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(ALL)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            ALL => Ok(()),
            _ => Err(serde::de::Error::custom("a list of names or the word \"all\" is needed")),
        }
    }
}
