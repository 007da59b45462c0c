//! Gets, lists, deletes: what is tried again and what is not.

use bytes::Bytes;
use headwater_store::env::SeededEnv;
use headwater_store::{Kind, Request, StoreError};

use crate::scripted::{OnGet, OnPut, Scripted};

const PATH: &str = "_versions/1.manifest";
const BODY: Bytes = Bytes::from_static(b"0123456789");

#[test]
fn a_body_shorter_than_announced_is_read_again() {
    let (env, scripted) = (SeededEnv::new(1), Scripted::default());
    let store = scripted.store(&env);
    scripted.place(PATH, BODY);
    scripted.on_get(PATH, [OnGet::Short, OnGet::Error, OnGet::Short]);
    assert_eq!(env.block_on(store.get(PATH)).unwrap(), Some(BODY));
    let counts = store.meter().snapshot().get(Request::Get, Kind::Base);
    assert_eq!((counts.requests, counts.failed, counts.bytes), (4, 3, 5 + 5 + 10));
}

#[test]
fn reads_end_when_attempts_are_used_up() {
    let (env, scripted) = (SeededEnv::new(1), Scripted::default());
    let store = scripted.store(&env);
    scripted.place(PATH, BODY);
    scripted.on_get(PATH, [OnGet::Short; 4]);
    let error = env.block_on(store.get(PATH)).unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable { path, attempts: 4, .. } if path == PATH), "{error:?}");
    assert!(error.is_retryable());
}

#[test]
fn a_read_that_hangs_is_given_up_and_tried_again() {
    let (env, scripted) = (SeededEnv::new(1), Scripted::default());
    let store = scripted.store(&env);
    scripted.place(PATH, BODY);
    scripted.on_get(PATH, [OnGet::Hangs]);
    assert_eq!(env.block_on(store.get(PATH)).unwrap(), Some(BODY));
    scripted.on_get(PATH, [OnGet::Hangs; 4]);
    let error = env.block_on(store.get(PATH)).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}

#[test]
fn a_refused_read_is_not_tried_again() {
    let (env, scripted) = (SeededEnv::new(1), Scripted::default());
    let store = scripted.store(&env);
    scripted.on_get(PATH, [OnGet::Denied]);
    let error = env.block_on(store.get(PATH)).unwrap_err();
    assert!(matches!(error, StoreError::PermissionDenied { .. }), "{error:?}");
    assert_eq!(store.meter().snapshot().total().requests, 1);
}

#[test]
fn an_overwrite_is_tried_again_until_it_is_answered() {
    let (env, scripted) = (SeededEnv::new(1), Scripted::default());
    let store = scripted.store(&env);
    scripted.on_put(PATH, [OnPut::ErrorBefore, OnPut::AnswerLost]);
    env.block_on(store.put(PATH, BODY)).unwrap();
    assert_eq!(scripted.there(PATH), Some(BODY));
    assert_eq!(store.meter().snapshot().get(Request::Put, Kind::Base).requests, 3);
    scripted.on_put(PATH, [OnPut::DiskFull]);
    assert!(matches!(env.block_on(store.put(PATH, BODY)), Err(StoreError::Full { .. })));
}

#[test]
fn the_same_seed_takes_the_same_steps() {
    let run = |seed| {
        let (env, scripted) = (SeededEnv::new(seed), Scripted::default());
        let store = scripted.store(&env);
        scripted.on_get(PATH, [OnGet::Error; 3]);
        let _ = env.block_on(store.get(PATH));
        (env.steps(), env.trace(), headwater_store::env::Env::now(&env))
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).2, run(6).2, "pauses are drawn from the seed");
}
