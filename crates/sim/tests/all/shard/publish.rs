//! The manifest transition itself.

use std::sync::Arc;

use headwater_engine::ShardError;
use headwater_engine::manifest::{Publish, Published};
use headwater_format::coord::{Epoch, Generation, WalPosition};
use headwater_format::shard_manifest::{ShardManifest, SsTable};
use headwater_store::register::Register;
use proptest::prelude::*;

use super::world::World;

fn publish(generation: u64, position: u64, epoch: u64) -> Publish {
    Publish {
        sstable: SsTable {
            generation: Generation::new(generation),
            path: format!("0000abcd_gen_{generation}"),
            in_memory_bytes: Some(1),
            physical_rows: Some(1),
            primary_key_bytes: None,
        },
        last_position: WalPosition::new(position),
        token_floor: None,
        epoch: Epoch::new(epoch),
        in_order: true,
    }
}

async fn run(world: &World, publish: &Publish) -> Result<Published, ShardError> {
    let process = world.machine.process("publisher");
    let register: Register<ShardManifest> = Register::for_shard(world.store(&process), world.shard);
    let known = register.load().await.unwrap().unwrap();
    publish.run(&register, known, || process.env().uuid()).await
}

#[test]
fn publishing_again_is_recognised_and_commits_nothing_p12() {
    let world = World::new(1);
    world.run(async {
        let first = run(&world, &publish(1, 3, 0)).await.unwrap();
        let Published::Now(manifest) = first else { panic!("{first:?}") };
        let again = run(&world, &publish(1, 3, 0)).await.unwrap();
        let Published::AlreadyPublished { sstable, manifest: same } = again else { panic!("{again:?}") };
        assert_eq!(sstable.unwrap().path, "0000abcd_gen_1");
        assert_eq!(manifest, same);
        assert_eq!(world.manifest().await.version, manifest.version);
    });
}

#[test]
fn a_later_generation_is_refused_before_an_earlier_one_p11() {
    let world = World::new(2);
    world.run(async {
        let error = run(&world, &publish(2, 3, 0)).await.unwrap_err();
        assert!(matches!(error, ShardError::Invalid { .. }), "{error}");
        assert_eq!(world.manifest().await.version.get(), 1);
    });
}

#[test]
fn another_epoch_publishes_nothing_p7() {
    let world = World::new(3);
    world.run(async {
        let _writer = world.open("a").await.unwrap();
        let error = run(&world, &publish(1, 3, 0)).await.unwrap_err();
        assert!(matches!(error, ShardError::Fenced { .. }), "{error}");
    });
}

#[test]
fn a_cursor_that_would_not_move_is_an_internal_error_p11() {
    let world = World::new(4);
    world.run(async {
        let error = run(&world, &publish(1, 0, 0)).await.unwrap_err();
        assert!(matches!(error, ShardError::Internal { invariant: "P11", .. }), "{error}");
    });
}

proptest! {
    /// Whatever is asked, versions, generations and cursor move by the rules or not at all.
    #[test]
    fn a_manifest_moves_by_the_rules_or_not_at_all(
        current in 1_u64..5, cursor in 0_u64..9, generation in 1_u64..7, position in 0_u64..12,
    ) {
        let latest = ShardManifest {
            current_generation: Generation::new(current),
            replay_after: WalPosition::new(cursor),
            last_seen: WalPosition::new(cursor),
            ..ShardManifest::clone(&base())
        };
        match headwater_engine::manifest::next_manifest(&latest, &publish(generation, position, 0)) {
            Ok(next) => {
                prop_assert_eq!(generation, current);
                prop_assert!(next.replay_after > latest.replay_after);
                prop_assert!(next.last_seen >= next.replay_after);
                prop_assert_eq!(next.version, latest.version.next());
                prop_assert_eq!(next.current_generation, latest.current_generation.next());
                prop_assert_eq!(next.sstables.len(), latest.sstables.len() + 1);
            }
            Err(_) => prop_assert!(generation != current || position <= cursor),
        }
    }
}

fn base() -> Arc<ShardManifest> {
    let world = World::new(0);
    world.run(world.manifest())
}
