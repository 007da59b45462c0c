//! The decision by itself: every failure with every read-back. Whole calls are in `tests/all/put_once.rs`.

use std::sync::Arc;

use super::*;
use crate::error::ShortBody;

fn error() -> StoreError {
    StoreError::Unavailable {
        path: "p".to_owned(),
        attempts: 1,
        source: Arc::new(ShortBody { announced: 1, received: 0 }),
    }
}

const FAILURES: [fn(StoreError) -> Failure; 5] =
    [Failure::Missing, Failure::Exists, Failure::NotSynced, Failure::Ambiguous, Failure::Refused];

#[test]
fn own_bytes_are_ours_and_others_are_foreign_whatever_the_answer_was() {
    for failure in FAILURES {
        for open in [false, true] {
            assert!(matches!(next_step(failure(error()), ReadBack::Own, open), Step::Created));
            let foreign = ReadBack::Foreign(Bytes::from_static(b"theirs"));
            assert!(
                matches!(next_step(failure(error()), foreign, open), Step::Exists(found) if found == "theirs")
            );
        }
    }
}

#[test]
fn absence_means_the_same_bytes_again_and_already_exists_decides_nothing() {
    for failure in &FAILURES[..4] {
        for open in [false, true] {
            assert!(matches!(next_step(failure(error()), ReadBack::Absent, open), Step::Again(_)));
            assert!(matches!(next_step(failure(error()), ReadBack::Failed(error()), open), Step::Again(_)));
        }
    }
    assert!(matches!(next_step(Failure::NotSynced(error()), ReadBack::Skipped, false), Step::Again(_)));
}

#[test]
fn a_refusal_is_one_only_while_no_earlier_request_can_still_be_applied() {
    for read in [|| ReadBack::Absent, || ReadBack::Failed(error())] {
        assert!(matches!(next_step(Failure::Refused(error()), read(), false), Step::Refused(_)));
        assert!(matches!(next_step(Failure::Refused(error()), read(), true), Step::Unknown(_)));
    }
}
