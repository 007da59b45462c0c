//! Settings: defaults that are right, names at fault, nothing unknown.

use std::time::Duration;

use headwater_engine::settings::{InvalidSetting, ShardSettings, WalCompression};
use headwater_store::RetryPolicy;

fn fault(change: impl FnOnce(&mut ShardSettings)) -> InvalidSetting {
    let mut settings = ShardSettings::default();
    change(&mut settings);
    settings.validate().unwrap_err()
}

#[test]
fn the_defaults_are_valid_and_replayable_by_the_reference() {
    let settings = ShardSettings::default();
    settings.validate().unwrap();
    assert_eq!((settings.freeze.max_rows, settings.freeze.max_entries), (100_000, 8_000));
    assert_eq!(settings.wal.max_entry_bytes, 16 << 20);
    assert_eq!(settings.wal.linger_ms, 0);
}

#[test]
fn retries_are_set_in_milliseconds_and_are_the_stores_own_policy() {
    let text = r#"{"retry": {"max_attempts": 3, "base_ms": 7, "cap_ms": 70, "budget_ms": 700}}"#;
    let settings: ShardSettings = serde_json::from_str(text).unwrap();
    let expected = RetryPolicy {
        max_attempts: 3,
        base: Duration::from_millis(7),
        cap: Duration::from_millis(70),
        budget: Duration::from_millis(700),
    };
    assert_eq!(settings.retry, expected);
    assert_eq!(ShardSettings::default().retry, RetryPolicy::default());
    let unknown = serde_json::from_str::<ShardSettings>(r#"{"retry": {"base": 7}}"#).unwrap_err();
    assert!(unknown.to_string().contains("base"), "{unknown}");
    for (change, name) in [
        (fault(|s| s.retry.max_attempts = 0), "retry.max_attempts"),
        (fault(|s| s.retry.base = Duration::ZERO), "retry.base_ms"),
        (fault(|s| s.retry.cap = Duration::from_millis(1)), "retry.cap_ms"),
        (fault(|s| s.retry.budget = Duration::ZERO), "retry.budget_ms"),
    ] {
        assert_eq!(change.setting, name);
    }
}

#[test]
fn an_invalid_setting_is_named_with_what_would_be_right() {
    let faults = [
        (fault(|s| s.freeze.max_rows = 0), "freeze.max_rows"),
        (fault(|s| s.freeze.max_rows = u32::MAX), "freeze.max_rows"),
        (fault(|s| s.freeze.max_entries = 0), "freeze.max_entries"),
        (fault(|s| s.freeze.max_wal_bytes = 0), "freeze.max_wal_bytes"),
        (fault(|s| s.freeze.max_age_ms = Some(0)), "freeze.max_age_ms"),
        (fault(|s| s.freeze.max_bytes = 1 << 20), "freeze.max_bytes"),
        (fault(|s| s.wal.max_entry_bytes = 100), "wal.max_entry_bytes"),
        (fault(|s| s.wal.max_entry_bytes = (1 << 30) + 1), "freeze.max_bytes"),
        (fault(|s| s.wal.linger_ms = 60_000), "wal.linger_ms"),
        (fault(|s| s.wal.company_percent = 101), "wal.company_percent"),
        (fault(|s| s.wal.replay_parallelism = 0), "wal.replay_parallelism"),
        (fault(|s| s.flush.retry_base_ms = 0), "flush.retry_base_ms"),
        (fault(|s| s.flush.retry_cap_ms = 1), "flush.retry_cap_ms"),
        (fault(|s| s.backpressure.max_frozen = 0), "backpressure.max_frozen"),
        (fault(|s| s.reads.epoch_confirm_ms = 0), "reads.epoch_confirm_ms"),
        (fault(|s| s.reads.snapshot_max_age_ms = 0), "reads.snapshot_max_age_ms"),
        (fault(|s| s.reads.max_pinned_snapshots = 0), "reads.max_pinned_snapshots"),
    ];
    for (fault, setting) in faults {
        assert_eq!(fault.setting, setting);
    }
    let text = fault(|s| s.freeze.max_rows = 0).to_string();
    assert_eq!(text, "setting freeze.max_rows: 0 is too small, it must be at least 1");
}

#[test]
fn unknown_settings_are_refused_at_every_level() {
    for text in [r#"{"freze": {}}"#, r#"{"freeze": {"max_row": 1}}"#, r#"{"wal": {"compression": "gzip"}}"#] {
        let error = serde_json::from_str::<ShardSettings>(text).unwrap_err().to_string();
        assert!(error.contains("unknown"), "{error}");
    }
}

#[test]
fn settings_read_back_as_written_and_what_is_left_out_is_the_default() {
    let text = r#"{"freeze": {"max_rows": 10, "max_age_ms": 5000}, "wal": {"compression": "zstd"}}"#;
    let settings: ShardSettings = serde_json::from_str(text).unwrap();
    assert_eq!(settings.freeze.max_rows, 10);
    assert_eq!(settings.freeze.max_age_ms, Some(5000));
    assert_eq!(settings.freeze.max_entries, 8_000);
    assert_eq!(settings.wal.compression, WalCompression::Zstd);
    let again: ShardSettings = serde_json::from_str(&serde_json::to_string(&settings).unwrap()).unwrap();
    assert_eq!(again, settings);
}
