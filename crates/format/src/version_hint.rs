//! The version hint: `{"version":N}`, where to begin looking for the newest shard manifest.
//!
//! Owns: its bytes. Never authoritative: whoever reads it probes upward from there, and takes an unreadable
//! hint for none. Called by the manifest register in `headwater-store`.

use bytes::Bytes;
use serde::Deserialize;

use crate::coord::ManifestVersion;

#[derive(Deserialize)]
struct Hint {
    version: ManifestVersion,
}

/// The bytes of the hint for `version`.
pub fn encode(version: ManifestVersion) -> Bytes {
    Bytes::from(format!("{{\"version\":{version}}}"))
}

/// The version a hint names; `None` when it is unreadable or names no version (0). Other members are ignored.
pub fn decode(bytes: &[u8]) -> Option<ManifestVersion> {
    let hint: Hint = serde_json::from_slice(bytes).ok()?;
    (hint.version > ManifestVersion::ZERO).then_some(hint.version)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_unreadable_hint_is_no_hint() {
        for bytes in
            [&b""[..], b"{", b"{}", b"{\"version\":0}", b"{\"version\":-1}", b"{\"version\":\"2\"}", b"\xff"]
        {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
        assert_eq!(decode(b" { \"other\": [1], \"version\": 9 }\n"), Some(ManifestVersion::new(9)));
    }

    proptest! {
        #[test]
        fn a_hint_comes_back(version in 1..=u64::MAX) {
            let version = ManifestVersion::new(version);
            prop_assert_eq!(decode(&encode(version)), Some(version));
        }
    }
}
