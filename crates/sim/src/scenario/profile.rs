//! The world of a seed: table and settings, small enough that everything happens within some hundred actions.

use std::time::Duration;

use headwater_engine::ShardSettings;
use headwater_engine::plants::Plants;
use headwater_engine::settings::{MAX_TOKEN_WINDOW_MS, WalCompression};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::run::Scenario;
use crate::rows::KeyShape;
use crate::world::WorldConfig;

/// Memory of a client token.
const TOKEN_BYTES: u64 = 256;

/// What freezes memtables first.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Rows,
    Bytes,
    Entries,
    WalBytes,
    Age,
    Memory,
}

const LIMITS: [Limit; 6] =
    [Limit::Rows, Limit::Bytes, Limit::Entries, Limit::WalBytes, Limit::Age, Limit::Memory];

/// The world of `seed`.
pub(super) fn profile(scenario: Scenario, seed: u64, plants: Plants) -> WorldConfig {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x0009_0f11_e5ee_d000);
    let mut config = WorldConfig::new(seed);
    config.plants = plants;
    config.shape = match rng.random_range(0..20) {
        0..8 => KeyShape::Int,
        8..13 => KeyShape::Text,
        13..17 => KeyShape::Composite,
        _ if matches!(scenario, Scenario::Counter | Scenario::Increment) => KeyShape::Int,
        _ => KeyShape::None,
    };
    config.slow_index = match rng.random_range(0..4) {
        0 => None,
        1 => Some(Duration::from_micros(1)),
        2 => Some(Duration::from_millis(20)),
        _ => Some(Duration::from_millis(500)),
    };
    let limit = LIMITS.get(rng.random_range(0..LIMITS.len())).copied().unwrap_or(Limit::Rows);
    config.settings = settings(&mut rng, limit);
    if matches!(limit, Limit::Memory) {
        config.budget = rng.random_range(24..64) << 10;
    }
    if scenario == Scenario::Retry {
        // A row that is written twice shows where no key hides it.
        if rng.random_bool(0.5) {
            config.shape = KeyShape::None;
        }
        // Longer than any run: a repeated write that comes late, from a process that stood still, would be
        // another write.
        config.settings.tokens.window_ms = MAX_TOKEN_WINDOW_MS;
        config.settings.tokens.max = rng.random_range(20..600);
        config.budget += config.settings.tokens.max as u64 * TOKEN_BYTES;
    }
    config
}

fn settings(rng: &mut SmallRng, limit: Limit) -> ShardSettings {
    let mut settings = ShardSettings::default();
    settings.wal.max_entry_bytes = rng.random_range(2048..8192);
    settings.wal.linger_ms = if rng.random_bool(0.3) { rng.random_range(1..10) } else { 0 };
    settings.wal.replay_parallelism = rng.random_range(1..8);
    settings.wal.compression = match rng.random_range(0..3) {
        0 => WalCompression::None,
        1 => WalCompression::Lz4,
        _ => WalCompression::Zstd,
    };
    settings.freeze.max_rows = 400;
    match limit {
        Limit::Rows => settings.freeze.max_rows = rng.random_range(12..80),
        Limit::Bytes => {
            settings.freeze.max_bytes = settings.wal.max_entry_bytes.max(rng.random_range(8_000..32_000))
        }
        Limit::Entries => settings.freeze.max_entries = rng.random_range(1..12),
        Limit::WalBytes => settings.freeze.max_wal_bytes = rng.random_range(3_000..20_000),
        Limit::Age => settings.freeze.max_age_ms = Some(rng.random_range(20..400)),
        Limit::Memory => {}
    }
    settings.flush.retry_base_ms = rng.random_range(10..200);
    settings.flush.retry_cap_ms = 2_000;
    settings.backpressure.timeout_ms = rng.random_range(200..4_000);
    settings.backpressure.max_frozen = rng.random_range(1..6);
    settings.reads.epoch_confirm_ms = rng.random_range(50..4_000);
    settings.reads.snapshot_max_age_ms = rng.random_range(1_000..60_000);
    settings.wal.company_percent = [0, 10, 100].get(rng.random_range(0..3)).copied().unwrap_or(0);
    settings
}
