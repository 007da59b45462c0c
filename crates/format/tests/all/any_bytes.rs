//! Bytes nobody wrote on purpose give a typed error or a valid record, and never a panic (P14).

use std::path::PathBuf;

use bytes::Bytes;
use headwater_format::bloom::Bloom;
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::{self, WalBody};
use headwater_format::{path, version_hint};
use proptest::prelude::*;

/// Decodes `bytes` as an entry and reads every value of every row.
fn read_entry(bytes: Vec<u8>) {
    let Ok(entry) = wal_entry::decode(Bytes::from(bytes)) else { return };
    let WalBody::Rows { batches, .. } = entry.body else { return };
    assert!(!batches.is_empty());
    for batch in batches {
        for column in batch.columns() {
            column.to_data().validate_full().unwrap();
        }
    }
}

fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    std::fs::read(path).unwrap()
}

fn entry() -> impl Strategy<Value = Vec<u8>> {
    let names = ["rows", "tombstone", "sentinel", "lz4", "zstd", "keyless", "keys_all"];
    prop::sample::select(names.map(|name| golden(&format!("wal_{name}.arrow"))).to_vec())
}

#[test]
fn every_byte_of_an_entry_may_be_any_of_a_few() {
    for name in ["wal_rows.arrow", "wal_zstd.arrow"] {
        let whole = golden(name);
        for place in 0..whole.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] ^= change;
                read_entry(bytes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_no_records_or_valid_ones(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_entry(bytes.clone());
        if let Ok(manifest) = ShardManifest::decode(&bytes) {
            prop_assert_eq!(manifest.validate(), Ok(()));
        }
        prop_assert_eq!(Bloom::from_bytes(&bytes).is_ok(), !bytes.is_empty() && bytes.len() % 32 == 0);
        let _: Option<_> = version_hint::decode(&bytes);
        let name = String::from_utf8_lossy(&bytes);
        prop_assert_eq!(path::parse_wal_name(&name), None);
    }

    #[test]
    fn random_bytes_in_the_frame_of_a_stream_are_no_rows_or_valid_ones(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 1..4),
    ) {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.extend_from_slice(&[0xff; 4]);
            bytes.extend_from_slice(&u32::try_from(message.len()).unwrap().to_le_bytes());
            bytes.extend_from_slice(&message);
        }
        bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        read_entry(bytes);
    }

    #[test]
    fn a_damaged_entry_is_refused_or_has_valid_rows(
        bytes in entry(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        moved in any::<(prop::sample::Index, prop::sample::Index, prop::sample::Index)>(),
    ) {
        let mut bytes = bytes;
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        read_entry(bytes.clone());
        let (from, to) = (moved.0.index(bytes.len()), moved.2.index(bytes.len()));
        let length = moved.1.index(64).min(bytes.len() - from).min(bytes.len() - to);
        bytes.copy_within(from..from + length, to);
        read_entry(bytes);
    }
}
