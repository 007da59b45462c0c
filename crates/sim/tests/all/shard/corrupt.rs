//! Objects that cannot be what their name says: a typed error with the path, and nothing lost.

use headwater_engine::ShardError;
use headwater_engine::snapshot::ReadLevel;
use headwater_format::coord::{Epoch, ManifestVersion, ShardId};
use headwater_format::path;
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::{Compression, WalBody, encode_rows, encode_sentinel};
use uuid::Uuid;

use super::world::{ROOT, World, ops};

/// A shard with three entries of one row.
async fn three_entries(world: &World) {
    let writer = world.open("a").await.unwrap();
    for op in 1..=3 {
        writer.shard.put(world.rows.put(op, &[op as u32])).await.unwrap();
    }
    writer.process.crash();
}

async fn refused(world: &World, part: &str) -> ShardError {
    let error = world.open("b").await.err().expect("the open must be refused");
    assert!(error.to_string().contains(part), "{part:?} not in: {error}");
    error
}

#[test]
fn a_hole_in_the_wal_is_an_error_not_the_end_p8() {
    let world = World::new(1);
    world.run(async {
        three_entries(&world).await;
        let path = world.wal_path(2);
        let bytes = world.faults.read(|objects| objects.get(&path).unwrap().bytes.clone());
        world.faults.erase(&path);
        let error = refused(&world, "position 2 is missing").await;
        assert!(matches!(error, ShardError::Corrupt { .. }), "{error}");
        world.faults.overwrite(&path, bytes);
        let again = world.open("c").await.unwrap();
        assert_eq!(ops(&again.live(&world.rows, ReadLevel::Durable).await), [(1, 1), (2, 2), (3, 3)]);
    });
}

#[test]
fn a_truncated_or_foreign_entry_is_corrupt_with_its_path() {
    let world = World::new(2);
    world.run(async {
        three_entries(&world).await;
        let path = world.wal_path(2);
        let whole = world.faults.read(|objects| objects.get(&path).unwrap().bytes.clone());
        for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
            world.faults.overwrite(&path, whole.slice(..cut));
            let error = refused(&world, "wal/").await;
            assert!(matches!(error, ShardError::Corrupt { .. }), "{cut}: {error}");
        }
        world.faults.overwrite(&path, "no arrow at all".into());
        assert!(matches!(refused(&world, "wal/").await, ShardError::Corrupt { .. }));
        world.faults.overwrite(&path, whole);
        let again = world.open("c").await.unwrap();
        assert_eq!(again.live(&world.rows, ReadLevel::Durable).await.len(), 3);
    });
}

#[test]
fn an_entry_of_a_larger_epoch_ends_the_open() {
    let world = World::new(3);
    world.run(async {
        three_entries(&world).await;
        world.faults.overwrite(&world.wal_path(4), encode_sentinel(Epoch::new(99)).unwrap());
        let error = refused(&world, "99").await;
        assert!(matches!(error, ShardError::Fenced { .. }), "{error}");
    });
}

#[test]
fn rows_whose_epoch_falls_are_corrupt_p7() {
    let world = World::new(4);
    world.run(async {
        three_entries(&world).await;
        let b = world.open("b").await.unwrap();
        b.shard.put(world.rows.put(4, &[4])).await.unwrap();
        let schema = b.shard.storage_schema().clone();
        b.process.crash();
        let WalBody::Rows { batches, generation } = world.entries().into_values().next_back().unwrap().body
        else {
            panic!("rows expected")
        };
        let old =
            encode_rows(&schema, Epoch::new(1), generation.unwrap(), &batches, Compression::None).unwrap();
        world.faults.overwrite(&world.wal_path(6), old);
        let error = world.open("c").await.err().unwrap();
        assert!(error.to_string().contains("epoch 1 follow rows of epoch 2"), "{error}");
    });
}

#[test]
fn a_generation_that_jumps_is_corrupt() {
    let world = World::new(5);
    world.run(async {
        let a = world.open("a").await.unwrap();
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let schema = a.shard.storage_schema().clone();
        a.process.crash();
        let WalBody::Rows { batches, .. } = world.entries().into_values().next_back().unwrap().body else {
            panic!("rows expected")
        };
        let far = headwater_format::coord::Generation::new(5);
        let entry = encode_rows(&schema, Epoch::new(1), far, &batches, Compression::None).unwrap();
        world.faults.overwrite(&world.wal_path(2), entry);
        let error = refused(&world, "generation 5").await;
        assert!(matches!(error, ShardError::Corrupt { .. }), "{error}");
    });
}

#[test]
fn entries_of_another_schema_are_refused_with_their_path() {
    let world = World::new(6);
    world.run(async {
        three_entries(&world).await;
        let other = World::with_key(6, headwater_sim::rows::KeyShape::Text);
        let entry = other.run(async {
            let writer = other.open("a").await.unwrap();
            writer.shard.put(other.rows.put(1, &[1])).await.unwrap();
            other.faults.read(|objects| objects.get(&other.wal_path(1)).unwrap().bytes.clone())
        });
        world.faults.overwrite(&world.wal_path(3), entry);
        let error = refused(&world, "wal/").await;
        assert!(matches!(error, ShardError::Invalid { .. }), "{error}");
    });
}

#[test]
fn a_manifest_that_is_truncated_or_of_another_shard_or_version_is_corrupt() {
    let world = World::new(7);
    world.run(async {
        three_entries(&world).await;
        let newest = world.manifest().await;
        let at = |version: ManifestVersion| format!("{ROOT}/{}", path::manifest_path(world.shard, version));
        let path = at(newest.version);
        let whole = world.faults.read(|objects| objects.get(&path).unwrap().bytes.clone());
        let mut other_shard = ShardManifest::clone(&newest);
        other_shard.shard_id = ShardId::new(Uuid::from_u128(8));
        let mut other_version = ShardManifest::clone(&newest);
        other_version.version = newest.version.plus(5);
        let wrong =
            [whole.slice(..whole.len() - 1), "?".into(), other_shard.encode(), other_version.encode()];
        for bytes in wrong {
            world.faults.overwrite(&path, bytes);
            let error = refused(&world, "manifest/").await;
            assert!(matches!(error, ShardError::Corrupt { .. }), "{error}");
        }
        world.faults.overwrite(&path, whole);
        assert_eq!(world.open("c").await.unwrap().live(&world.rows, ReadLevel::Durable).await.len(), 3);
    });
}

#[test]
fn unknown_names_and_staging_left_overs_in_the_wal_are_ignored() {
    let world = World::new(8);
    world.run(async {
        three_entries(&world).await;
        for name in [".tmp.0af3", "#1"] {
            world.faults.overwrite(&format!("{}{name}", world.wal_path(4)), "half".into());
        }
        world.faults.overwrite(&format!("{ROOT}/{}/notes.txt", path::wal_dir(world.shard)), "hello".into());
        let again = world.open("b").await.unwrap();
        assert_eq!(again.live(&world.rows, ReadLevel::Durable).await.len(), 3);
    });
}

#[test]
fn a_shard_without_a_manifest_says_to_initialise() {
    let mut world = World::new(9);
    world.shard = ShardId::new(Uuid::from_u128(99));
    world.run(async {
        let error = world.open("a").await.err().unwrap();
        assert!(error.to_string().contains("initialise"), "{error}");
    });
}
