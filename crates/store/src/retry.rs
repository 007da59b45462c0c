//! How often and how long a request is tried again.
//!
//! Owns: [`RetryPolicy`], full jitter, the deadline of one request. Does not own: which failures are worth
//! another attempt (`error`). All chance and time come from [`Env`]. Attempts and time are both bounded, so
//! every call to storage ends (L1).

use std::future::Future;
use std::time::Duration;

use futures::future::{Either, select};
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::error::NoAnswer;

/// Bounds on retrying one call to storage: exponential backoff with full jitter. The one type for it, in
/// settings as in code; as settings, durations are whole milliseconds (`base_ms`, …).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Requests per call at most, the first one included; 0 counts as 1.
    pub max_attempts: u32,
    /// The pause before attempt n+1 is drawn evenly from 0 ..= `base` · 2^(n-1), up to `cap`.
    #[serde(rename = "base_ms", with = "millis")]
    pub base: Duration,
    /// Longest pause between two attempts.
    #[serde(rename = "cap_ms", with = "millis")]
    pub cap: Duration,
    /// Longest time for the call as a whole. One request may take at most half of it, so that a request that
    /// is never answered leaves time for another.
    #[serde(rename = "budget_ms", with = "millis")]
    pub budget: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 10,
            base: Duration::from_millis(50),
            cap: Duration::from_secs(5),
            budget: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// The pause after `made` attempts, for a random number: full jitter, so that callers that failed
    /// together do not return together.
    pub fn pause(&self, made: u32, random: u64) -> Duration {
        let doublings = made.saturating_sub(1).min(31);
        let ceiling = self.base.saturating_mul(1 << doublings).min(self.cap);
        let nanos = u64::try_from(ceiling.as_nanos()).unwrap_or(u64::MAX);
        // Multiply-shift instead of a remainder: even, and right for a ceiling of u64::MAX.
        let drawn = (u128::from(random) * (u128::from(nanos) + 1)) >> 64;
        Duration::from_nanos(u64::try_from(drawn).unwrap_or(nanos))
    }
}

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    env: &'a dyn Env,
    policy: RetryPolicy,
    started: Duration,
    made: u32,
}

impl<'a> Attempts<'a> {
    /// Starts counting, time included.
    pub fn new(env: &'a dyn Env, policy: RetryPolicy) -> Self {
        Self { env, policy, started: env.now(), made: 0 }
    }

    /// A fresh count of attempts within what is left of the same time.
    pub fn again(&self) -> Self {
        Self { made: 0, ..*self }
    }

    /// Attempts made so far.
    pub fn made(&self) -> u32 {
        self.made
    }

    fn left(&self) -> Duration {
        self.policy.budget.saturating_sub(self.env.now().saturating_sub(self.started))
    }

    /// Runs one attempt. An answer that does not come in time is dropped: whether the request was applied is
    /// then unknown.
    pub async fn run<T>(&mut self, attempt: impl Future<Output = T>) -> Result<T, NoAnswer> {
        self.made = self.made.saturating_add(1);
        let limit = self.left().min(self.policy.budget / 2);
        let deadline = self.env.sleep(limit);
        futures::pin_mut!(attempt);
        match select(attempt, deadline).await {
            Either::Left((answer, _)) => Ok(answer),
            Either::Right(((), _)) => {
                Err(NoAnswer { after_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) })
            }
        }
    }

    /// Whether another attempt may be made at once.
    pub fn any_left(&self) -> bool {
        self.made < self.policy.max_attempts.max(1) && !self.left().is_zero()
    }

    /// Waits before the next attempt; false when attempts or time are used up.
    pub async fn pause(&mut self) -> bool {
        if !self.any_left() {
            return false;
        }
        let pause = self.policy.pause(self.made, self.env.random());
        if pause >= self.left() {
            return false;
        }
        self.env.sleep(pause).await;
        true
    }
}

/// Durations as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests;
