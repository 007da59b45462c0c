//! The local disk under a [`Store`].

use std::sync::Arc;

use bytes::Bytes;
use headwater_store::env::TokioEnv;
use headwater_store::local::local_store;
use headwater_store::{PutOnce, RetryPolicy, Store, StoreError};
use object_store::path::Path;

fn store(dir: &std::path::Path, fsync: bool) -> Store {
    let inner = local_store(dir, fsync).unwrap();
    Store::new(inner, Path::default(), Arc::new(TokioEnv::new()), RetryPolicy::default())
}

#[tokio::test]
async fn staging_left_overs_are_neither_listed_nor_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    for fsync in [true, false] {
        let store = store(dir.path(), fsync);
        let path = format!("wal/{fsync}");
        std::fs::create_dir_all(dir.path().join("wal")).unwrap();
        std::fs::write(dir.path().join(format!("{path}#1")), b"half an ent").unwrap();
        let created = store.put_once(&path, Bytes::from_static(b"entry")).await.unwrap();
        assert!(matches!(created, PutOnce::Created), "{created:?}");
        let listed: Vec<_> = store.list("wal").await.unwrap().into_iter().map(|object| object.path).collect();
        assert!(listed.contains(&path) && listed.iter().all(|path| !path.contains('#')), "{listed:?}");
    }
}

#[tokio::test]
async fn a_parent_that_is_a_file_is_an_absent_object_and_a_write_below_it_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), b"x").unwrap();
    let quick = RetryPolicy { base: std::time::Duration::ZERO, ..RetryPolicy::default() };
    let store = store(dir.path(), true).with_retry(quick);
    assert_eq!(store.get("file/below").await.unwrap(), None);
    assert_eq!(store.get("no/such/directory").await.unwrap(), None);
    let error = store.put_once("file/below", Bytes::from_static(b"x")).await.unwrap_err();
    assert_eq!(error.path(), "file/below");
}

#[tokio::test]
async fn a_root_below_the_directory_keeps_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    let whole = store(dir.path(), false);
    let inner = Arc::clone(whole.inner());
    let part = Store::new(inner, Path::from("a table.lance"), Arc::clone(whole.env()), whole.retry());
    part.put("_versions/1", Bytes::from_static(b"x")).await.unwrap();
    whole.put("other", Bytes::from_static(b"y")).await.unwrap();
    let listed: Vec<_> = part.list("").await.unwrap().into_iter().map(|object| object.path).collect();
    assert_eq!(listed, ["_versions/1"]);
    assert_eq!(part.list_dirs("").await.unwrap(), ["_versions"]);
    assert!(dir.path().join("a table.lance/_versions/1").exists());
}

#[test]
fn a_directory_that_is_gone_is_refused() {
    let error = local_store("/no/such/headwater/table", true).unwrap_err();
    assert!(
        matches!(&error, StoreError::Invalid { path, .. } if path == "/no/such/headwater/table"),
        "{error:?}"
    );
}
