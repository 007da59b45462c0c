//! Put-once, answer by answer.

use bytes::Bytes;
use headwater_store::env::SeededEnv;
use headwater_store::{Kind, PutOnce, Request, StoreError};

use crate::scripted::{OnGet, OnPut, Scripted};

const PATH: &str = "_mem_wal/s/wal/1.arrow";
const OURS: Bytes = Bytes::from_static(b"our bytes");
const THEIRS: Bytes = Bytes::from_static(b"not ours!");

/// One put of [`OURS`] under a script, with the requests it took: (puts, gets).
fn put(scripted: &Scripted) -> (Result<PutOnce, StoreError>, (u64, u64)) {
    let env = SeededEnv::new(7);
    let store = scripted.store(&env);
    let outcome = env.block_on(store.put_once(PATH, OURS));
    let counted = store.meter().snapshot();
    let requests =
        (counted.get(Request::Put, Kind::Wal).requests, counted.get(Request::Get, Kind::Wal).requests);
    (outcome, requests)
}

fn scripted(puts: impl IntoIterator<Item = OnPut>, gets: impl IntoIterator<Item = OnGet>) -> Scripted {
    let scripted = Scripted::default();
    scripted.on_put(PATH, puts);
    scripted.on_get(PATH, gets);
    scripted
}

#[track_caller]
fn assert_created(scripted: &Scripted, requests: (u64, u64)) {
    let (outcome, took) = put(scripted);
    assert!(matches!(outcome, Ok(PutOnce::Created)), "{outcome:?}");
    assert_eq!(scripted.there(PATH), Some(OURS));
    assert_eq!(took, requests, "(puts, gets)");
}

#[track_caller]
fn assert_theirs(scripted: &Scripted, requests: (u64, u64)) {
    let (outcome, took) = put(scripted);
    assert!(matches!(&outcome, Ok(PutOnce::Exists { found }) if *found == THEIRS), "{outcome:?}");
    assert_eq!(scripted.there(PATH), Some(THEIRS));
    assert_eq!(took, requests, "(puts, gets)");
}

#[test]
fn an_undisturbed_put_takes_one_request() {
    assert_created(&scripted([], []), (1, 0));
}

#[test]
fn a_lost_answer_is_resolved_by_reading_own_bytes_back() {
    assert_created(&scripted([OnPut::AnswerLost], []), (1, 1));
    assert_created(&scripted([OnPut::AppliedAndHangs], []), (1, 1));
}

#[test]
fn already_exists_from_our_own_earlier_attempt_is_created() {
    assert_created(&scripted([OnPut::AnswerLostThenExists], []), (1, 1));
}

#[test]
fn already_exists_with_nothing_there_means_again() {
    assert_created(&scripted([OnPut::FalselyExists], []), (2, 1));
}

#[test]
fn an_error_before_anything_was_done_means_the_same_bytes_again() {
    assert_created(&scripted([OnPut::ErrorBefore, OnPut::ErrorBefore, OnPut::Hangs], []), (4, 3));
}

#[test]
fn somebody_elses_object_is_reported_with_its_bytes() {
    let scripted = Scripted::default();
    scripted.place(PATH, THEIRS);
    assert_theirs(&scripted, (1, 2));
    scripted.on_put(PATH, [OnPut::ErrorBefore]);
    assert_theirs(&scripted, (1, 2));
}

#[test]
fn one_damaged_read_of_our_own_entry_does_not_make_it_foreign() {
    for damage in [OnGet::Flipped(3), OnGet::Short, OnGet::Empty, OnGet::Error, OnGet::Hangs] {
        assert_created(&scripted([OnPut::AnswerLost], [damage]), (1, 2));
    }
    assert_created(
        &scripted([OnPut::AnswerLost], [OnGet::Flipped(0), OnGet::Flipped(1), OnGet::Flipped(2)]),
        (1, 4),
    );
}

#[test]
fn a_damaged_read_of_a_foreign_entry_is_never_handed_out() {
    let scripted = scripted([], [OnGet::Through, OnGet::Flipped(2)]);
    scripted.place(PATH, THEIRS);
    assert_theirs(&scripted, (1, 4));
}

#[test]
fn reads_that_never_agree_end_and_are_not_believed() {
    let distinct = (0..64).map(|read| OnGet::Flipped(read % 9));
    let (outcome, (puts, gets)) = put(&scripted([OnPut::AnswerLost], distinct));
    assert!(matches!(outcome, Ok(PutOnce::Unknown { source: StoreError::Corrupt { .. } })), "{outcome:?}");
    assert_eq!((puts, gets), (4, 16));
}

#[test]
fn when_reading_back_fails_the_put_is_sent_again() {
    let scripted = scripted([OnPut::AnswerLost], [OnGet::Error; 4]);
    assert_created(&scripted, (2, 5));
}

#[test]
fn what_cannot_be_resolved_within_the_budget_is_unknown() {
    let unreadable = scripted([OnPut::AnswerLost], [OnGet::Error; 64]);
    let (outcome, (puts, gets)) = put(&unreadable);
    assert!(
        matches!(&outcome, Ok(PutOnce::Unknown { source: StoreError::Unavailable { .. } })),
        "{outcome:?}"
    );
    assert_eq!((puts, gets), (4, 16));
    assert_eq!(unreadable.there(PATH), Some(OURS), "it was applied after all");

    let (outcome, _) = put(&scripted([OnPut::ErrorBefore; 4], []));
    assert!(matches!(outcome, Ok(PutOnce::Unknown { .. })), "a request that failed may still be applied");
    let (outcome, _) = put(&scripted([OnPut::Hangs; 4], []));
    assert!(matches!(outcome, Ok(PutOnce::Unknown { .. })), "{outcome:?}");
}

#[test]
fn calling_again_with_the_same_bytes_resolves_the_unknown() {
    let scripted = scripted([OnPut::AnswerLost], [OnGet::Error; 16]);
    assert!(matches!(put(&scripted).0, Ok(PutOnce::Unknown { .. })));
    assert_created(&scripted, (1, 1));
}

#[test]
fn refusals_are_typed_name_the_path_and_leave_nothing() {
    for (fault, expected) in [
        (OnPut::Denied, "permission"),
        (OnPut::DiskFull, "full"),
        (OnPut::ReadOnly, "read-only"),
        (OnPut::NotSupported, "not supported"),
    ] {
        let refusing = scripted([fault], []);
        let (outcome, (puts, _)) = put(&refusing);
        let error = outcome.unwrap_err();
        let kind = match &error {
            StoreError::PermissionDenied { .. } => "permission",
            StoreError::Full { .. } => "full",
            StoreError::ReadOnly { .. } => "read-only",
            StoreError::NotSupported { .. } => "not supported",
            other => panic!("{other:?}"),
        };
        assert_eq!((kind, error.path(), puts), (expected, PATH, 1));
        assert!(error.to_string().contains(PATH));
        assert_eq!(refusing.there(PATH), None);
        // The cause went away: the same call goes through.
        assert_created(&refusing, (1, 0));
    }
}

#[test]
fn a_refusal_after_an_ambiguous_answer_is_unknown() {
    for refusal in [OnPut::Denied, OnPut::DiskFull] {
        let (outcome, (puts, _)) = put(&scripted([OnPut::ErrorBefore, refusal], []));
        assert!(matches!(outcome, Ok(PutOnce::Unknown { .. })), "{outcome:?}");
        assert_eq!(puts, 2);
    }
}

#[test]
fn a_refusal_of_the_backends_own_retry_does_not_hide_that_its_first_attempt_was_applied() {
    assert_created(&scripted([OnPut::AppliedThenDenied], []), (1, 1));
}

#[test]
fn a_missing_bucket_is_an_error_not_an_unknown() {
    let (outcome, (puts, _)) = put(&scripted([OnPut::NoBucket; 4], []));
    assert!(matches!(&outcome, Err(StoreError::Unavailable { path, .. }) if path == PATH), "{outcome:?}");
    assert_eq!(puts, 4);
}

/// P1: an object that can be read is not durable while its directory cannot be synced.
#[test]
fn reading_back_proves_nothing_while_the_disk_cannot_sync() {
    assert_created(&scripted([OnPut::NotSynced, OnPut::NotSynced], []), (3, 1));
    let (outcome, (puts, gets)) = put(&scripted([OnPut::NotSynced; 4], []));
    assert!(matches!(outcome, Ok(PutOnce::Unknown { .. })), "{outcome:?}");
    assert_eq!((puts, gets), (4, 0));
}

/// P1: on a local disk an object can be read while the sync of its directory, which the PUT waits for, goes
/// on.
#[test]
fn own_bytes_that_can_be_read_before_they_are_synced_are_synced_before_the_answer() {
    let slow = scripted([OnPut::AppliedAndHangs], []);
    assert_created(&slow, (1, 1));
    assert!(slow.is_synced(PATH), "a power cut would take an acknowledged write back");
}

#[test]
fn own_bytes_that_can_be_read_and_not_be_synced_are_not_acknowledged() {
    let (outcome, _) = put(&scripted([OnPut::AppliedAndHangs], [OnGet::NotSynced; 64]));
    assert!(matches!(outcome, Ok(PutOnce::Unknown { .. })), "{outcome:?}");
    // The disk recovers: the same bytes are sent again, and then proven.
    assert_created(&scripted([OnPut::AppliedAndHangs], [OnGet::NotSynced; 4]), (2, 5));
}

#[test]
fn paths_no_store_takes_are_refused_before_any_request() {
    let env = SeededEnv::new(1);
    let scripted = Scripted::default();
    let store = scripted.store(&env);
    for path in ["a//b", "../up", "a/./b", ""] {
        let outcome = env.block_on(store.put_once(path, OURS));
        assert!(matches!(&outcome, Err(StoreError::Invalid { .. })), "{path}: {outcome:?}");
    }
    assert_eq!(store.meter().snapshot().total().requests, 0);
}
