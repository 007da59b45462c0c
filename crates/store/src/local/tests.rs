//! The local disk: what is refused, what is synced. Semantics are the conformance suite's business.
#![allow(clippy::unwrap_used)]

use object_store::{ObjectStoreExt, PutMode};

use super::*;
use crate::env::TokioEnv;
use crate::error::Failure;

fn create() -> PutOptions {
    PutOptions { mode: PutMode::Create, ..PutOptions::default() }
}

fn disk(dir: &FsPath) -> LocalDisk {
    LocalDisk {
        files: LocalFileSystem::new_with_prefix(dir).unwrap().with_fsync(true),
        rooted: Arc::default(),
    }
}

#[test]
fn a_missing_directory_or_a_file_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let error = local_store(&missing, true).unwrap_err();
    assert!(matches!(&error, StoreError::Invalid { path, .. } if *path == missing.display().to_string()));
    let file = dir.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    assert!(matches!(local_store(&file, false), Err(StoreError::Invalid { .. })));
    assert!(local_store(dir.path(), true).is_ok() && local_store(dir.path(), false).is_ok());
}

#[test]
fn directories_above_an_object_are_synced_once() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path());
    futures::executor::block_on(async {
        for name in ["a/b/one", "a/b/two", "a/c/three"] {
            disk.put_opts(&Path::from(name), "x".into(), create()).await.unwrap();
        }
    });
    let root = dir.path().canonicalize().unwrap();
    let rooted: Vec<_> = disk.rooted.lock().iter().cloned().collect();
    assert_eq!(rooted, [root.join("a/b"), root.join("a/c")]);
}

/// P1: `put_once` asks so for an object whose PUT was not answered in time.
#[test]
fn a_durable_read_syncs_what_it_finds_and_an_ordinary_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path());
    // Published by a PUT nobody waits for any more.
    std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
    std::fs::write(dir.path().join("a/b/one"), b"x").unwrap();
    let path = Path::from("a/b/one");
    futures::executor::block_on(async {
        disk.get_opts(&path, GetOptions::default()).await.unwrap();
        assert!(disk.rooted.lock().is_empty());
        let found = disk.get_opts(&path, DurableRead::options()).await.unwrap();
        assert_eq!(found.bytes().await.unwrap(), "x");
        assert_eq!(disk.rooted.lock().len(), 1);
        let missing = disk.get_opts(&Path::from("a/c/none"), DurableRead::options()).await.unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
        assert_eq!(disk.rooted.lock().len(), 1);
    });
}

#[test]
fn an_object_that_is_there_exists_and_one_that_is_not_leaves_the_error_alone() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path());
    futures::executor::block_on(async {
        disk.put_opts(&Path::from("d/x"), "x".into(), create()).await.unwrap();
        let existing = disk.put_opts(&Path::from("d/x"), "y".into(), create()).await.unwrap_err();
        assert!(matches!(existing, Error::AlreadyExists { .. }));
        // A parent that is a file: nothing to sync, and the operating system's error comes through.
        let below = disk.put_opts(&Path::from("d/x/below"), "y".into(), create()).await.unwrap_err();
        assert!(matches!(Failure::of("d/x/below", 1, below), Failure::Missing(_)));
    });
}

#[cfg(unix)]
#[test]
fn what_cannot_be_synced_is_neither_refused_nor_ambiguous() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = sync(&socket).unwrap_err();
    assert_eq!(error.path, socket.display().to_string());
    let said = Error::Generic { store: NAME, source: Box::new(error) };
    assert!(matches!(Failure::of("d/x", 1, said), Failure::NotSynced(_)));
}

#[test]
fn syncing_a_tree_reaches_every_file_and_says_which_one_failed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("deep/er")).unwrap();
    std::fs::write(tree.join("deep/er/file"), b"x").unwrap();
    runtime.block_on(async {
        let env = TokioEnv::new();
        sync_tree(&env, &tree).await.unwrap();
        sync_tree(&env, tree.join("deep/er/file")).await.unwrap();
        let missing = tree.join("missing");
        let error = sync_tree(&env, &missing).await.unwrap_err();
        assert!(matches!(&error, StoreError::Invalid { path, .. } if *path == missing.display().to_string()));
    });
}

#[test]
fn a_multipart_write_and_ranges_work_through_the_wrapper() {
    let dir = tempfile::tempdir().unwrap();
    let store = local_store(dir.path(), true).unwrap();
    futures::executor::block_on(async {
        let path = Path::from("multi");
        let mut upload = store.put_multipart(&path).await.unwrap();
        upload.put_part("hello ".into()).await.unwrap();
        upload.put_part("world".into()).await.unwrap();
        upload.complete().await.unwrap();
        assert_eq!(store.get_ranges(&path, &[0..5, 6..11]).await.unwrap(), ["hello", "world"]);
        store.rename(&path, &Path::from("renamed")).await.unwrap();
        store.copy(&Path::from("renamed"), &Path::from("copied")).await.unwrap();
        assert_eq!(store.get(&Path::from("copied")).await.unwrap().bytes().await.unwrap(), "hello world");
        assert!(store.get(&path).await.is_err());
    });
}
