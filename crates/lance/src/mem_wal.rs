//! What a base table says about its write tier: the MemWAL index details, as plain values.
//!
//! Owns: [`MemWal`] and its translation from and to Lance's details message. Does not own: commits (`init`),
//! how rows are spread over shards (`sharding`).

use std::collections::{BTreeMap, HashMap};

use headwater_engine::table::TableError;
use headwater_format::coord::{Generation, ShardId};
use lance_core::datatypes::Schema as LanceSchema;
use lance_table::system_index::mem_wal::MemWalIndexDetails;
use uuid::Uuid;

use crate::sharding::{SPEC_ID, Sharding};

/// Key of the incarnation in `writer_config_defaults` of the MemWAL details.
pub const INCARNATION: &str = "headwater.incarnation";

/// The write tier of a table, as its base records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemWal {
    /// How rows are spread over shards.
    pub sharding: Sharding,
    /// Id of the sharding spec; 0 with [`Sharding::Manual`].
    pub spec_id: u32,
    /// Random id made at init; every shard id of ours is derived from it. `None` on a table initialised
    /// elsewhere that no writer of ours has opened yet.
    pub incarnation: Option<Uuid>,
    /// Per shard the last generation that is part of the base.
    pub compacted: BTreeMap<ShardId, Generation>,
    /// Names of the base indexes writers must maintain. Empty when `maintain_all` is set.
    pub maintained: Vec<String>,
    /// Writers maintain every index of the base they can, and skip what they cannot.
    pub maintain_all: bool,
    /// Defaults recorded for writers, as plain text.
    pub writer_defaults: BTreeMap<String, String>,
}

impl MemWal {
    /// Reads the details of a table whose base has `schema`.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when they describe a sharding this version does not know, or an incarnation
    /// that is no UUID.
    pub(crate) fn read(details: &MemWalIndexDetails, schema: &LanceSchema) -> Result<Self, TableError> {
        let (spec_id, sharding) = Sharding::read(&details.sharding_specs, schema)?;
        let incarnation = details
            .writer_config_defaults
            .get(INCARNATION)
            .map(|text| {
                Uuid::parse_str(text).map_err(|_| {
                    TableError::invalid(format!("{INCARNATION} of the table is no UUID: {text:?}"))
                })
            })
            .transpose()?;
        Ok(Self {
            sharding,
            spec_id,
            incarnation,
            compacted: details
                .compacted_sstables
                .iter()
                .map(|done| (ShardId::new(done.shard_id), Generation::new(done.generation)))
                .collect(),
            maintained: details.maintained_indexes.clone(),
            maintain_all: details.maintain_all_indexes,
            writer_defaults: details.writer_config_defaults.clone().into_iter().collect(),
        })
    }

    /// Of a version of the base from before it had a write tier.
    pub(crate) fn none() -> Self {
        Self {
            sharding: Sharding::Manual,
            spec_id: 0,
            incarnation: None,
            compacted: BTreeMap::new(),
            maintained: Vec::new(),
            maintain_all: false,
            writer_defaults: BTreeMap::new(),
        }
    }

    /// The last generation of `shard` that is part of the base; 0 when none is.
    pub fn compacted(&self, shard: ShardId) -> Generation {
        self.compacted.get(&shard).copied().unwrap_or(Generation::ZERO)
    }
}

/// What a table that gets its write tier records for its writers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterSpec {
    /// Names of the base indexes they maintain; `None`: all they can.
    pub maintained: Option<Vec<String>>,
    /// Settings, as plain text.
    pub defaults: BTreeMap<String, String>,
}

/// The details of a table that gets its write tier now.
pub(crate) fn fresh_details(
    sharding: &Sharding,
    writers: &WriterSpec,
    schema: &LanceSchema,
    incarnation: Uuid,
) -> Result<MemWalIndexDetails, TableError> {
    let spec = sharding.spec(schema)?;
    debug_assert_eq!(spec.spec_id, SPEC_ID);
    let mut defaults: HashMap<String, String> = writers.defaults.clone().into_iter().collect();
    defaults.insert(INCARNATION.to_owned(), incarnation.to_string());
    Ok(MemWalIndexDetails {
        num_shards: sharding.shards(),
        sharding_specs: vec![spec],
        maintained_indexes: writers.maintained.clone().unwrap_or_default(),
        maintain_all_indexes: writers.maintained.is_none(),
        writer_config_defaults: defaults,
        ..MemWalIndexDetails::default()
    })
}
