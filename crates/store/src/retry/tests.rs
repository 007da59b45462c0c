//! The policy by itself, and its attempts on a seeded clock.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;

use futures::future::pending;
use proptest::prelude::*;

use super::*;
use crate::env::SeededEnv;

fn policy(max_attempts: u32, base_ms: u64, cap_ms: u64, budget_ms: u64) -> RetryPolicy {
    RetryPolicy {
        max_attempts,
        base: Duration::from_millis(base_ms),
        cap: Duration::from_millis(cap_ms),
        budget: Duration::from_millis(budget_ms),
    }
}

#[test]
fn the_pause_spans_from_nothing_to_a_doubling_ceiling() {
    let policy = policy(8, 50, 300, 60_000);
    for (made, ceiling_ms) in [(1, 50), (2, 100), (3, 200), (4, 300), (40, 300), (u32::MAX, 300)] {
        assert_eq!(policy.pause(made, 0), Duration::ZERO);
        assert_eq!(policy.pause(made, u64::MAX), Duration::from_millis(ceiling_ms));
        assert_eq!(policy.pause(made, 1 << 63).as_millis(), u128::from(ceiling_ms / 2));
    }
}

proptest! {
    #[test]
    fn the_pause_stays_below_cap_and_ceiling(
        made in 1u32.., base in 0u64..10_000, cap in 0u64..10_000, random: u64,
    ) {
        let policy = policy(3, base, cap, 1);
        let pause = policy.pause(made, random);
        prop_assert!(pause <= policy.cap);
        prop_assert!(pause <= policy.base.saturating_mul(1 << (made - 1).min(31)));
    }

    #[test]
    fn attempts_and_time_are_both_bounded(
        seed: u64,
        max in 0u32..12,
        base in 0u64..2_000,
        cap in 0u64..2_000,
        budget in 0u64..5_000,
        takes in 0u64..3_000,
    ) {
        let env = SeededEnv::new(seed);
        let policy = policy(max, base, cap, budget);
        let (made, spent) = env.block_on(async {
            let mut attempts = Attempts::new(&env, policy);
            loop {
                let slow = env.sleep(Duration::from_millis(takes));
                let _ = attempts.run(slow).await;
                if !attempts.pause().await {
                    break (attempts.made(), env.now());
                }
            }
        });
        prop_assert!(made >= 1 && made <= max.max(1));
        prop_assert!(spent <= policy.budget, "{spent:?} of {budget} ms");
    }
}

#[test]
fn a_request_that_is_never_answered_is_given_up_at_half_the_budget_and_tried_again() {
    let env = SeededEnv::new(1);
    env.block_on(async {
        let mut attempts = Attempts::new(&env, policy(8, 0, 0, 10_000));
        let unanswered = attempts.run(pending::<()>()).await.unwrap_err();
        assert_eq!(unanswered.after_ms, 5_000);
        assert!(attempts.pause().await);
        assert_eq!(attempts.run(async { 7 }).await.unwrap(), 7);
        assert_eq!(attempts.made(), 2);
    });
}

#[test]
fn an_unanswered_request_is_dropped() {
    struct Flag<'a>(&'a Cell<bool>);
    impl Drop for Flag<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let (env, dropped) = (SeededEnv::new(1), Cell::new(false));
    env.block_on(async {
        let mut attempts = Attempts::new(&env, policy(2, 0, 0, 1_000));
        let flag = Flag(&dropped);
        let hangs = async move {
            let _flag = flag;
            pending::<()>().await;
        };
        attempts.run(hangs).await.unwrap_err();
        assert!(dropped.get());
    });
}

#[test]
fn a_count_that_starts_again_shares_the_time() {
    let env = SeededEnv::new(1);
    env.block_on(async {
        let mut attempts = Attempts::new(&env, policy(1, 0, 0, 1_000));
        attempts.run(env.sleep(Duration::from_millis(400))).await.unwrap();
        assert!(!attempts.pause().await, "its one attempt is used up");
        let mut again = attempts.again();
        assert_eq!(again.made(), 0);
        assert_eq!(again.left(), Duration::from_millis(600));
        again.run(env.sleep(Duration::from_millis(499))).await.unwrap();
        assert_eq!(again.left(), Duration::from_millis(101));
    });
}

#[test]
fn as_settings_durations_are_milliseconds_and_unknown_fields_are_refused() {
    let text = r#"{"max_attempts":3,"base_ms":10,"cap_ms":200,"budget_ms":5000}"#;
    let read: RetryPolicy = serde_json::from_str(text).unwrap();
    assert_eq!(read, policy(3, 10, 200, 5_000));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    let partly: RetryPolicy = serde_json::from_str(r#"{"max_attempts":3}"#).unwrap();
    assert_eq!(partly, RetryPolicy { max_attempts: 3, ..RetryPolicy::default() });
    assert!(serde_json::from_str::<RetryPolicy>(r#"{"base":10}"#).is_err());
}
