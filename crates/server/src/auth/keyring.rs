//! The keys a server knows.
//!
//! Owns: [`Keyring`]. Whose a key is, is found by comparing its hash with every one known, each in constant
//! time and none left out, so that how long it takes tells nothing about how near a guess came.

use serde::{Deserialize, Serialize};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::auth::identity::{Databases, Identity};
use crate::auth::key::KeyHash;

/// A key as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredKey {
    /// Name of the key, for people and logs.
    pub name: String,
    /// The key's hash.
    pub sha256: KeyHash,
    /// The databases it is for.
    pub databases: Databases,
    /// Whether it may change anything there.
    pub write: bool,
}

/// The keys a server knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keyring {
    /// Them, in the order they were added.
    #[serde(default)]
    pub keys: Vec<StoredKey>,
}

impl Keyring {
    /// Whose `key` is.
    pub fn identify(&self, key: &[u8]) -> Option<Identity> {
        let given = KeyHash::of(key);
        // Counted from 1; 0 is nobody.
        let mut found = 0_u32;
        for (number, stored) in (1_u32..).zip(&self.keys) {
            let same: Choice = stored.sha256.ct_eq(&given);
            found = u32::conditional_select(&found, &number, same);
        }
        let index = usize::try_from(found.checked_sub(1)?).ok()?;
        let stored = self.keys.get(index)?;
        Some(Identity {
            name: stored.name.clone(),
            databases: stored.databases.clone(),
            may_write: stored.write,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::ApiKey;

    fn stored(key: &ApiKey, name: &str) -> StoredKey {
        StoredKey { name: name.to_owned(), sha256: key.hash(), databases: Databases::All, write: true }
    }

    #[test]
    fn a_key_is_found_wherever_it_stands_and_no_other_is() {
        let keys: Vec<ApiKey> = (0..4).map(|_| ApiKey::generate().unwrap()).collect();
        let named = keys.iter().zip(["a", "b", "c"]);
        let keyring = Keyring { keys: named.map(|(key, name)| stored(key, name)).collect() };
        let found: Vec<Option<String>> = keys
            .iter()
            .map(|key| keyring.identify(key.reveal().as_bytes()).map(|identity| identity.name))
            .collect();
        assert_eq!(found, [Some("a".to_owned()), Some("b".to_owned()), Some("c".to_owned()), None]);
        assert_eq!(keyring.identify(b""), None);
        assert_eq!(Keyring::default().identify(keys[0].reveal().as_bytes()), None);
    }

    #[test]
    fn keys_are_long_and_never_the_same() {
        let (one, other) = (ApiKey::generate().unwrap(), ApiKey::generate().unwrap());
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), "hw_".len() + 64);
        assert!(!format!("{one:?} {:?}", one.hash()).contains(&one.reveal()[3..11]), "Debug shows nothing");
    }
}
