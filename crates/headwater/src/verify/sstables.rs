//! Every SSTable the newest manifest names (P9), and that its rows are those of its shard (P16).
//!
//! Owns: which SSTables are looked into, with what expectations, each once. Does not own: looking into one
//! (`headwater-lance`).

use std::collections::BTreeMap;

use headwater_engine::table::TableError;
use headwater_format::shard_manifest::SsTable;
use headwater_lance::{LanceTable, ShardValue, Sharding, SsTableCheck, SsTableContext};

use super::manifests::History;
use super::report::Checked;

/// SSTables looked into so far, by name: they are immutable, so once is enough.
#[derive(Debug, Default)]
pub(super) struct SsTables {
    seen: BTreeMap<String, SsTableCheck>,
}

impl SsTables {
    /// What is to be said about all SSTables of the newest manifest in `history`. `value` is the one all rows
    /// of the shard have, if it is known; else that of the first row counts. `report` is told after each.
    pub async fn check(
        &mut self,
        table: &LanceTable,
        history: &History,
        sharding: Option<&Sharding>,
        value: Option<ShardValue>,
        mut report: impl FnMut(Checked),
    ) -> Result<Vec<SsTableCheck>, TableError> {
        let Some(manifest) = history.newest() else { return Ok(Vec::new()) };
        let ours = history.published_by_us();
        let (mut checks, mut value) = (Vec::new(), value);
        for sstable in &manifest.sstables {
            let check = match self.seen.get(&sstable.path) {
                Some(seen) => seen.clone(),
                None => {
                    let own_bloom = ours.contains(sstable.path.as_str());
                    let context = SsTableContext { sharding, value: value.clone(), own_bloom };
                    table.check_sstable(manifest.shard_id, sstable, &context).await?
                }
            };
            value = value.or_else(|| check.value.clone());
            self.remember(sstable, &check);
            report(counted(&check));
            checks.push(check);
        }
        Ok(checks)
    }

    /// One with findings is looked into again: it may have been on its way out.
    fn remember(&mut self, sstable: &SsTable, check: &SsTableCheck) {
        if check.findings.is_empty() {
            self.seen.insert(sstable.path.clone(), check.clone());
        }
    }
}

/// What one SSTable adds to the counts.
pub(super) fn counted(check: &SsTableCheck) -> Checked {
    Checked {
        sstables: 1,
        sstable_rows: check.rows,
        replaced_rows: check.replaced,
        tombstones: check.tombstones,
        ..Checked::default()
    }
}
