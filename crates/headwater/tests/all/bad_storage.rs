//! Objects that cannot be what their names say: a typed error that names the object, and nothing is changed.

use std::fs;
use std::path::PathBuf;

use headwater::coord::{Epoch, Generation, ManifestVersion, ShardId, WalPosition};
use headwater::{Error, ShardError, Sharding, Table, TableError};
use headwater_format::path;
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_format::wal_entry::{self, Compression};

use crate::support::{Home, expected, read, rows, text, tree};

/// A table whose only shard crashed with three WAL entries: positions 1 to 3 (position 1 is the claim's
/// fence).
struct Crashed {
    home: Home,
    shard: ShardId,
}

impl Crashed {
    async fn new() -> Self {
        let home = Home::new();
        let table = home.create(&Sharding::Unsharded).await;
        for (id, name) in [(1, "a"), (2, "b"), (3, "c")] {
            table.put(rows(&[(id, name)])).await.unwrap();
        }
        table.abandon();
        drop(table);
        let shard = home.shard().await.id.parse().unwrap();
        Self { home, shard }
    }

    fn file(&self, path: String) -> PathBuf {
        self.home.path().join(path)
    }

    /// Position of the last entry.
    async fn last(&self) -> WalPosition {
        WalPosition::new(self.home.shard().await.wal.last.unwrap())
    }

    fn entry(&self, position: WalPosition) -> PathBuf {
        self.file(path::wal_path(self.shard, position))
    }

    async fn manifest(&self) -> ShardManifest {
        let version = ManifestVersion::new(self.home.shard().await.manifest.unwrap().version);
        ShardManifest::decode(&fs::read(self.file(path::manifest_path(self.shard, version))).unwrap())
            .unwrap()
    }

    fn write_manifest(&self, manifest: &ShardManifest) {
        fs::write(self.file(path::manifest_path(manifest.shard_id, manifest.version)), manifest.encode())
            .unwrap();
    }

    async fn open_error(&self) -> Error {
        let table = self.home.open().await;
        table.open_shards().await.unwrap_err()
    }

    /// Opening names `path` as corrupt and changes no WAL entry; `inspect` names it too.
    async fn assert_corrupt(&self, path: &str) {
        let wal = self.file(path::wal_dir(self.shard));
        let before = tree(&wal);
        let error = self.open_error().await;
        let found = match &error {
            Error::Shard { source: ShardError::Corrupt { path, .. }, .. } => path.clone(),
            Error::Table { source, .. } => match source.as_ref() {
                TableError::Corrupt { path, .. } => path.clone(),
                other => panic!("not corrupt: {other:?}"),
            },
            other => panic!("not corrupt: {other:?}"),
        };
        assert_eq!(found, path, "{error}");
        let after = tree(&wal);
        assert!(
            before.iter().all(|(file, content)| after.get(file) == Some(content)),
            "no entry was touched"
        );
        let problems = self.home.shard().await.problems;
        assert!(problems.iter().any(|problem| problem.path == path), "{problems:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_wal_entry_is_corrupt_by_name() {
    let crashed = Crashed::new().await;
    let last = crashed.last().await;
    let whole = fs::read(crashed.entry(last)).unwrap();
    for keep in [0, 1, whole.len() / 2, whole.len() - 1] {
        fs::write(crashed.entry(last), &whole[..keep]).unwrap();
        crashed.assert_corrupt(&path::wal_path(crashed.shard, last)).await;
    }
    fs::write(crashed.entry(last), whole).unwrap();
    assert_eq!(crashed.home.reopen_and_read().await, expected(&[(1, "a"), (2, "b"), (3, "c")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wal_entry_of_another_kind_of_content_is_corrupt_by_name() {
    let crashed = Crashed::new().await;
    let last = crashed.last().await;
    fs::write(crashed.entry(last), b"{\"this\": \"is no Arrow stream\"}").unwrap();
    crashed.assert_corrupt(&path::wal_path(crashed.shard, last)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_a_newer_epoch_than_the_manifest_knows_is_an_error() {
    let crashed = Crashed::new().await;
    let last = crashed.last().await;
    let schema = std::sync::Arc::new(crate::support::schema());
    let foreign = wal_entry::encode_rows(
        &schema,
        Epoch::new(99),
        Generation::new(1),
        &[rows(&[(9, "from the future")])],
        Compression::None,
    );
    fs::write(crashed.entry(last), foreign.unwrap()).unwrap();
    let error = crashed.open_error().await;
    assert!(text(&error).contains("99"), "{error:?}");
    assert!(error.shard_error().is_some(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_entry_of_a_lower_epoch_than_one_before_it_is_an_error_and_shown() {
    let crashed = Crashed::new().await;
    let table = crashed.home.open().await;
    table.put(rows(&[(4, "d")])).await.unwrap();
    table.put(rows(&[(5, "e")])).await.unwrap();
    table.abandon();
    drop(table);
    let last = crashed.last().await;
    let (old, new) = (crashed.entry(WalPosition::new(1)), crashed.entry(last));
    fs::copy(old, new).unwrap();
    let problems = crashed.home.shard().await.problems;
    assert!(problems.iter().any(|p| p.path == path::wal_path(crashed.shard, last)), "{problems:?}");
    let error = crashed.open_error().await;
    assert!(error.shard_error().is_some(), "{error:?}");
    assert!(text(&error).contains(&path::wal_path(crashed.shard, last)), "{error} names the entry");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_another_table_is_refused() {
    let crashed = Crashed::new().await;
    let last = crashed.last().await;
    let other = arrow_array::RecordBatch::try_from_iter([(
        "temperature",
        std::sync::Arc::new(arrow_array::Float64Array::from(vec![1.5])) as arrow_array::ArrayRef,
    )])
    .unwrap();
    let entry = wal_entry::encode_rows(
        &other.schema(),
        Epoch::new(1),
        Generation::new(1),
        &[other],
        Compression::None,
    );
    fs::write(crashed.entry(last), entry.unwrap()).unwrap();
    let error = crashed.open_error().await;
    assert!(error.shard_error().is_some(), "{error:?}");
    assert!(text(&error).contains(&path::wal_path(crashed.shard, last)), "{error} names the entry");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_in_the_wal_is_an_error_not_a_skip() {
    let crashed = Crashed::new().await;
    let (last, hole) = (crashed.last().await, crashed.last().await.previous());
    let missing = fs::read(crashed.entry(hole)).unwrap();
    fs::remove_file(crashed.entry(hole)).unwrap();
    let problems = crashed.home.shard().await.problems;
    assert!(problems.iter().any(|p| p.path == path::wal_path(crashed.shard, hole)), "{problems:?}");

    let error = crashed.open_error().await;
    assert!(
        text(&error).contains(&path::wal_path(crashed.shard, hole))
            || text(&error).contains(&hole.to_string()),
        "{error}"
    );
    assert!(crashed.entry(last).exists(), "the entry behind the hole stays");

    fs::write(crashed.entry(hole), missing).unwrap();
    assert_eq!(crashed.home.reopen_and_read().await, expected(&[(1, "a"), (2, "b"), (3, "c")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_or_undecodable_manifest_is_corrupt_by_name() {
    let crashed = Crashed::new().await;
    let manifest = crashed.manifest().await;
    let name = path::manifest_path(crashed.shard, manifest.version);
    let whole = fs::read(crashed.file(name.clone())).unwrap();
    for bad in [&whole[..0], &whole[..whole.len() - 3], b"\xff\xff\xff\xff"] {
        fs::write(crashed.file(name.clone()), bad).unwrap();
        crashed.assert_corrupt(&name).await;
    }
    fs::write(crashed.file(name), whole).unwrap();
    assert_eq!(crashed.home.reopen_and_read().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_of_another_shard_or_version_is_corrupt_by_name() {
    let crashed = Crashed::new().await;
    let manifest = crashed.manifest().await;
    let name = path::manifest_path(crashed.shard, manifest.version);
    let other_shard = ShardManifest { shard_id: ShardId::new(uuid::Uuid::from_u128(7)), ..manifest.clone() };
    let other_version = ShardManifest { version: manifest.version.next(), ..manifest.clone() };
    for wrong in [other_shard, other_version] {
        fs::write(crashed.file(name.clone()), wrong.encode()).unwrap();
        crashed.assert_corrupt(&name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_shard_takes_no_writer() {
    let crashed = Crashed::new().await;
    let manifest = crashed.manifest().await;
    crashed.write_manifest(&ShardManifest {
        version: manifest.version.next(),
        writer_epoch: manifest.writer_epoch.next(),
        status: ShardStatus::Sealed,
        ..manifest
    });
    let table = crashed.home.open().await;
    let error = table.put(rows(&[(4, "d")])).await.unwrap_err();
    assert!(text(&error).contains("sealed") && text(&error).contains(&crashed.shard.to_string()), "{error}");
    assert_eq!(crashed.home.shard().await.manifest.unwrap().status, "sealed");
    assert_eq!(table.open_shards().await.unwrap(), 0, "there is no active shard");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_shards_of_one_value_make_the_table_read_only_and_both_are_named() {
    let crashed = Crashed::new().await;
    let manifest = crashed.manifest().await;
    let twin = ShardId::new(uuid::Uuid::from_u128(0x1234));
    let created = ShardManifest {
        version: ManifestVersion::new(1),
        shard_id: twin,
        writer_epoch: Epoch::ZERO,
        sstables: Vec::new(),
        ..manifest
    };
    fs::create_dir_all(crashed.file(path::manifest_dir(twin))).unwrap();
    crashed.write_manifest(&created);

    let before = tree(&crashed.home.path());
    let table: Table = crashed.home.open().await;
    let put = table.put(rows(&[(4, "d")])).await.unwrap_err();
    let open = table.open_shards().await.unwrap_err();
    for error in [put, open] {
        for shard in [crashed.shard, twin] {
            assert!(text(&error).contains(&shard.to_string()), "{error} names {shard}");
        }
    }
    assert_eq!(tree(&crashed.home.path()), before, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sstable_that_is_gone_is_a_typed_error_and_shown() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    table.close().await.unwrap();
    let name = home.shard().await.sstables[0].path.clone();
    fs::remove_dir_all(home.shard_dir().await.join(&name)).unwrap();
    let problems = home.shard().await.problems;
    assert!(problems.iter().any(|problem| problem.path.ends_with(&name)), "{problems:?}");

    let table = home.open().await;
    table.put(rows(&[(2, "b")])).await.expect("writing goes on");
    let snapshot = table.snapshot(headwater::ReadLevel::Durable).await.unwrap();
    let (id, shard) = &snapshot.shards()[0];
    let error = table.files().open_sstable(*id, &shard.sstables().unwrap()[0]).await.unwrap_err();
    assert!(matches!(error, TableError::NotFound { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn staging_left_overs_and_unknown_names_do_not_disturb_a_writer() {
    let crashed = Crashed::new().await;
    let next = crashed.entry(crashed.last().await.next());
    let staged = next.with_file_name(format!("{}.tmp.0badcafe", next.file_name().unwrap().to_string_lossy()));
    fs::write(&staged, b"half an entry").unwrap();
    fs::write(next.with_file_name("README.txt"), b"who put this here?").unwrap();
    let version = crashed.manifest().await.version.next();
    let manifest = crashed.file(path::manifest_path(crashed.shard, version));
    fs::write(
        manifest.with_file_name(format!("{}#1", manifest.file_name().unwrap().to_string_lossy())),
        b"half",
    )
    .unwrap();

    let table = crashed.home.open().await;
    table.put(rows(&[(4, "d")])).await.unwrap();
    assert_eq!(read(&table).await, expected(&[(1, "a"), (2, "b"), (3, "c"), (4, "d")]));
    assert_eq!(crashed.home.shard().await.left_overs.len(), 3);
}
