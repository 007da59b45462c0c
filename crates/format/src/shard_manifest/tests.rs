//! Bytes and validation of shard manifests. `tests/all/goldens.rs` reads what the reference wrote.

use proptest::prelude::*;

use super::*;

fn sstable(generation: u64) -> SsTable {
    SsTable {
        generation: Generation::new(generation),
        path: format!("0000abcd_gen_{generation}"),
        in_memory_bytes: Some(0),
        physical_rows: Some(4),
        primary_key_bytes: None,
    }
}

fn full() -> ShardManifest {
    ShardManifest {
        version: ManifestVersion::new(300),
        shard_id: ShardId::new(Uuid::from_u128(0x1234_5678_9abc_def0_0fed_cba9_8765_4321)),
        shard_spec_id: 1,
        shard_field_values: BTreeMap::from([
            ("bucket".to_owned(), vec![3, 0, 0, 0]),
            ("x".to_owned(), Vec::new()),
        ]),
        writer_epoch: Epoch::new(5),
        replay_after: WalPosition::new(70),
        last_seen: WalPosition::new(81),
        current_generation: Generation::new(9),
        sstables: vec![sstable(2), sstable(7), sstable(8)],
        status: ShardStatus::Sealed,
        write_id: Some(Uuid::from_u128(7)),
        token_floor: TokenFloor::of([64, 70].map(WalPosition::new).into(), 1_700_000_000_000),
    }
}

fn fresh() -> ShardManifest {
    ShardManifest::fresh(full().shard_id, 0, BTreeMap::new(), None)
}

fn refused(change: impl FnOnce(&mut ShardManifest)) -> ManifestError {
    let mut manifest = full();
    change(&mut manifest);
    let error = ShardManifest::decode(&manifest.encode()).unwrap_err();
    assert_eq!(manifest.validate(), Err(error.clone()));
    error
}

fn field_at_fault(error: &ManifestError) -> &'static str {
    match error {
        ManifestError::Missing { field } | ManifestError::Invalid { field, .. } => field,
        ManifestError::Undecodable { .. } => "",
    }
}

#[test]
fn a_manifest_comes_back() {
    for manifest in [full(), fresh()] {
        assert_eq!(ShardManifest::decode(&manifest.encode()), Ok(manifest));
    }
    assert_eq!(fresh().writer_epoch, Epoch::ZERO);
    assert_eq!(fresh().current_generation, Generation::new(1));
}

#[test]
fn absent_numbers_are_not_zero() {
    let decoded = ShardManifest::decode(&full().encode()).unwrap();
    assert_eq!(decoded.sstables[0].in_memory_bytes, Some(0));
    assert_eq!(decoded.sstables[0].primary_key_bytes, None);
}

#[test]
fn every_strict_prefix_of_what_we_write_is_refused() {
    for manifest in [full(), fresh()] {
        let bytes = manifest.encode();
        for length in 0..bytes.len() {
            let found = ShardManifest::decode(&bytes[..length]);
            assert!(found.is_err(), "{length} of {} bytes gave {found:?}", bytes.len());
        }
    }
}

#[test]
fn a_prefix_in_tag_order_is_refused_or_lacks_only_what_may_be_absent() {
    let manifest = full();
    let bytes = in_tag_order(&manifest);
    assert_eq!(ShardManifest::decode(&bytes), Ok(manifest.clone()));
    let mut passed = 0;
    for length in 0..bytes.len() {
        let Ok(found) = ShardManifest::decode(&bytes[..length]) else { continue };
        passed += 1;
        let lacking = ShardManifest {
            shard_field_values: found.shard_field_values.clone(),
            status: found.status,
            write_id: found.write_id,
            token_floor: None,
            ..manifest.clone()
        };
        assert_eq!(found, lacking);
    }
    let cuts = "before each of two values, the status, the write id, the token floor: what the docs say";
    assert_eq!(passed, 5, "cut {cuts}");
}

/// As protobuf libraries write it.
fn in_tag_order(manifest: &ShardManifest) -> Vec<u8> {
    let whole = wire::Manifest::decode(manifest.encode().as_ref()).unwrap().encode_to_vec();
    assert_ne!(whole, manifest.encode());
    whole
}

/// As the page of formats states it: tag 1001, a message of a position and a time.
#[test]
fn a_token_floor_is_these_bytes() {
    let floor = TokenFloor { position: WalPosition::new(64), entries: Vec::new(), newest_ms: 300 };
    let manifest = ShardManifest { token_floor: Some(floor), ..fresh() };
    let golden = [0xca, 0x3e, 0x05, 0x08, 0x40, 0x10, 0xac, 0x02];
    let bytes = manifest.encode();
    assert_eq!(bytes.windows(golden.len()).filter(|window| *window == golden).count(), 1);
    assert_eq!(bytes.len(), fresh().encode().len() + golden.len());
    let error = refused(|manifest| manifest.token_floor.as_mut().unwrap().position = WalPosition::ZERO);
    assert_eq!(error, ManifestError::Missing { field: "token_floor.position" });
    // Entries 64, 65 and 80: the steps 0, 1 and 15, packed, in tag 3.
    let floor = TokenFloor::of([64, 65, 80].map(WalPosition::new).into(), 300);
    let golden = [0xca, 0x3e, 0x0a, 0x08, 0x40, 0x10, 0xac, 0x02, 0x1a, 0x03, 0x00, 0x01, 0x0f];
    let bytes = ShardManifest { token_floor: floor, ..fresh() }.encode();
    assert_eq!(bytes.windows(golden.len()).filter(|window| *window == golden).count(), 1);
}

#[test]
fn a_token_floor_names_the_entries_to_read_or_where_they_begin() {
    let at = |entries: &[u64]| entries.iter().map(|entry| WalPosition::new(*entry)).collect::<Vec<_>>();
    let floor = |entries: &[u64]| TokenFloor::of(at(entries).into_iter().collect(), 1);
    assert_eq!(floor(&[]), None);
    assert_eq!(floor(&[9, 3, 5]).unwrap().to_read(WalPosition::new(7)).collect::<Vec<_>>(), at(&[3, 5]));
    let many: Vec<u64> = (10..=10 + MAX_LISTED_ENTRIES as u64).collect();
    let many = floor(&many).unwrap();
    assert_eq!((many.position, many.entries.len()), (WalPosition::new(10), 0));
    assert_eq!(many.to_read(WalPosition::new(12)).collect::<Vec<_>>(), at(&[10, 11, 12]));
}

#[test]
fn unknown_tags_are_ignored() {
    let mut bytes = full().encode().to_vec();
    bytes.extend_from_slice(&[0xa0, 0x1f, 0x07]); // tag 500, number 7
    bytes.extend_from_slice(&[0xaa, 0x1f, 0x03, b'n', b'e', b'w']); // tag 501, three bytes
    assert_eq!(ShardManifest::decode(&bytes), Ok(full()));
}

#[test]
fn bytes_of_something_else_are_refused() {
    assert_eq!(ShardManifest::decode(b""), Err(ManifestError::Missing { field: "shard_id" }));
    for bytes in [&b"{\"version\":1}"[..], b"\xff\xff\xff\xff", &[0x08], &[0x0a, 0x05, 0x01]] {
        assert!(ShardManifest::decode(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn counting_starts_at_one() {
    let error = refused(|manifest| manifest.version = ManifestVersion::ZERO);
    assert_eq!(error, ManifestError::Missing { field: "version" });
    let error = refused(|manifest| manifest.current_generation = Generation::ZERO);
    assert_eq!(error, ManifestError::Missing { field: "current_generation" });
}

#[test]
fn sstables_ascend_below_the_generation_to_come() {
    let faults: [fn(&mut ShardManifest); 4] = [
        |manifest| manifest.sstables[0].generation = Generation::ZERO,
        |manifest| manifest.sstables[1].generation = Generation::new(2),
        |manifest| manifest.sstables.swap(0, 1),
        |manifest| manifest.current_generation = Generation::new(8),
    ];
    for fault in faults {
        assert_eq!(field_at_fault(&refused(fault)), "sstables");
    }
}

#[test]
fn a_path_is_the_name_of_one_directory() {
    for path in ["", ".", "..", "a/b", "../x", "a\\b", "a\0"] {
        let error = refused(|manifest| manifest.sstables[0].path = path.to_owned());
        assert_eq!(field_at_fault(&error), "sstables", "{path:?}");
    }
    let mut foreign = full();
    foreign.sstables[0].path = "compacted-by-hand".to_owned();
    assert_eq!(ShardManifest::decode(&foreign.encode()), Ok(foreign), "names of others are theirs to choose");
}

#[test]
fn ids_have_sixteen_bytes_and_the_status_is_known() {
    let mut bytes = full().encode().to_vec();
    bytes.extend_from_slice(&[0x5a, 0x03, 0x0a, 0x01, 0xff]); // a later shard id of one byte wins
    assert_eq!(field_at_fault(&ShardManifest::decode(&bytes).unwrap_err()), "shard_id");
    let mut bytes = full().encode().to_vec();
    bytes.extend_from_slice(&[0xc2, 0x3e, 0x01, 0xff]); // a later write id of one byte
    assert_eq!(field_at_fault(&ShardManifest::decode(&bytes).unwrap_err()), "write_id");
    let mut bytes = full().encode().to_vec();
    bytes.extend_from_slice(&[0x78, 0x02]);
    assert_eq!(field_at_fault(&ShardManifest::decode(&bytes).unwrap_err()), "status");
    let mut bytes = full().encode().to_vec();
    bytes.extend_from_slice(&[0x72, 0x03, 0x0a, 0x01, b'x']); // a second value for x
    assert_eq!(field_at_fault(&ShardManifest::decode(&bytes).unwrap_err()), "shard_field_entries");
}

fn any_manifest() -> impl Strategy<Value = ShardManifest> {
    let numbers = prop::array::uniform4(any::<u64>());
    let optional = || prop::option::of(any::<u64>());
    let table = (1_u64..1_000, "[^/\\\\\\x00.]{1,12}", optional(), optional(), optional());
    let values = prop::collection::btree_map("\\PC{0,6}", prop::collection::vec(any::<u8>(), 0..20), 0..4);
    let entries = prop::collection::btree_set((1..=u64::MAX).prop_map(WalPosition::new), 0..9);
    let floor = (entries, any::<u64>()).prop_map(|(entries, newest_ms)| TokenFloor::of(entries, newest_ms));
    let write_id = prop::option::of(any::<u128>());
    let rest = (any::<u128>(), any::<u32>(), values, any::<bool>(), write_id, floor);
    (numbers, prop::collection::vec(table, 0..6), rest).prop_map(|(numbers, tables, rest)| {
        let [version, writer_epoch, replay_after, last_seen] = numbers;
        let (shard_id, shard_spec_id, shard_field_values, sealed, write_id, floor) = rest;
        let mut generation = 0;
        let sstables =
            tables.into_iter().map(|(step, path, in_memory_bytes, physical_rows, primary_key_bytes)| {
                generation += step;
                let generation = Generation::new(generation);
                SsTable { generation, path, in_memory_bytes, physical_rows, primary_key_bytes }
            });
        ShardManifest {
            sstables: sstables.collect(),
            version: ManifestVersion::new(version.max(1)),
            shard_id: ShardId::new(Uuid::from_u128(shard_id)),
            shard_spec_id,
            shard_field_values,
            writer_epoch: Epoch::new(writer_epoch),
            replay_after: WalPosition::new(replay_after),
            last_seen: WalPosition::new(last_seen),
            current_generation: Generation::new(generation + 1),
            status: if sealed { ShardStatus::Sealed } else { ShardStatus::Active },
            write_id: write_id.map(Uuid::from_u128),
            token_floor: floor,
        }
    })
}

proptest! {
    #[test]
    fn any_manifest_comes_back_whole_and_never_in_part(manifest in any_manifest(), cut: prop::sample::Index) {
        let bytes = manifest.encode();
        prop_assert_eq!(manifest.validate(), Ok(()));
        prop_assert_eq!(&manifest.encode(), &bytes, "the same manifest, the same bytes");
        prop_assert!(ShardManifest::decode(&bytes[..cut.index(bytes.len())]).is_err());
        prop_assert_eq!(ShardManifest::decode(&bytes), Ok(manifest));
    }

    #[test]
    fn any_bytes_give_an_error_or_a_valid_manifest(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(manifest) = ShardManifest::decode(&bytes) {
            prop_assert_eq!(manifest.validate(), Ok(()));
        }
    }

    #[test]
    fn a_changed_byte_gives_an_error_or_a_valid_manifest(
        manifest in any_manifest(),
        place: prop::sample::Index,
        change in 1_u8..,
    ) {
        let mut bytes = manifest.encode().to_vec();
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        if let Ok(manifest) = ShardManifest::decode(&bytes) {
            prop_assert_eq!(manifest.validate(), Ok(()));
        }
    }
}
