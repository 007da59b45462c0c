//! Waiting for what happens in the background.

use std::time::Duration;

/// Looks until it is so; a minute at most.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..12_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came to pass: {what}");
}
