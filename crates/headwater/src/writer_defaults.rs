//! Settings that a table records for all its writers.
//!
//! Owns: reading `writer_config_defaults` of the MemWAL details: the names the reference's initialiser
//! records, and `headwater.` with the name of any setting, as `headwater.freeze.max_rows`. What the one who
//! opens the table chose himself goes first, then what the table records, then our defaults. Does not own:
//! what settings mean. A recorded name that says nothing to us is left alone: it may be for another writer.

use std::collections::{BTreeMap, BTreeSet};

use headwater_engine::settings::{MIN_ENTRY_BYTES, ShardSettings};
use headwater_lance::INCARNATION;

use crate::error::Error;
use crate::settings::SettingsText;

/// Our own names begin so.
const OWN: &str = "headwater.";
/// Names the reference records, and the setting here that means the same.
const REFERENCE: [(&str, &str); 6] = [
    ("max_memtable_rows", "freeze.max_rows"),
    ("max_memtable_size", "freeze.max_bytes"),
    ("max_memtable_batches", "freeze.max_entries"),
    ("max_wal_flush_interval_ms", "wal.linger_ms"),
    ("max_wal_persist_retries", "retry.max_attempts"),
    ("wal_persist_retry_base_delay_ms", "retry.base_ms"),
];

/// `chosen` with what `recorded` says of the settings that are not in `given`.
///
/// # Errors
/// [`Error::Setting`] naming a recorded setting with a value it cannot have.
pub(crate) fn apply(
    chosen: ShardSettings,
    given: &BTreeSet<String>,
    recorded: &BTreeMap<String, String>,
) -> Result<ShardSettings, Error> {
    let mut text = SettingsText::of(&chosen)?;
    let ours = SettingsText::defaults()?;
    let mut changed = false;
    for (name, value) in recorded {
        let Some(setting) = setting_of(name, &text) else { continue };
        // A setting that is not our default was chosen, too, whether it was said or not.
        if given.contains(&setting) || text.value(&setting) != ours.value(&setting) {
            continue;
        }
        text.set(&setting, &converted(name, value)).map_err(|error| in_table(name, error))?;
        changed = true;
    }
    if !changed {
        return Ok(chosen);
    }
    let small = text.unchecked()?.freeze.max_bytes;
    // An entry must fit in a memtable. The reference knows no such limit, so a table may record a small one.
    if small < text.unchecked()?.wal.max_entry_bytes && !given.contains("wal.max_entry_bytes") {
        text.set("wal.max_entry_bytes", &small.max(MIN_ENTRY_BYTES).to_string())?;
    }
    text.build().map_err(|error| in_table("writer_config_defaults", error))
}

/// The setting that a recorded name is about.
fn setting_of(name: &str, known: &SettingsText) -> Option<String> {
    if name == INCARNATION {
        return None;
    }
    if let Some(own) = name.strip_prefix(OWN) {
        return known.names().into_iter().find(|setting| setting == own);
    }
    REFERENCE.iter().find(|(recorded, _)| *recorded == name).map(|(_, setting)| (*setting).to_owned())
}

/// Retries are what follows the first attempt; here the first one counts.
fn converted(name: &str, value: &str) -> String {
    match (name, value.trim().parse::<u64>()) {
        ("max_wal_persist_retries", Ok(retries)) => retries.saturating_add(1).to_string(),
        _ => value.trim().to_owned(),
    }
}

fn in_table(name: &str, error: Error) -> Error {
    match error {
        Error::Setting { name: setting, reason } => Error::Setting {
            name: setting,
            reason: format!(
                "{reason} (the table records it for its writers, as {name}; choose a value here)"
            ),
        },
        other => other,
    }
}
