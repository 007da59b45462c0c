//! What every workload is handed: how much to do, where, and the report to add to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use arrow_array::RecordBatch;

use crate::data;
use crate::place::Place;
use crate::report::Report;

/// Rounds of a long workload: more would take hours.
const LONG_ROUNDS: usize = 3;

/// See the module.
pub struct Bench {
    /// Alternations of a short workload.
    pub rounds: usize,
    /// What was found so far.
    pub report: Report,
    /// Whether the curves go on to 10 million rows.
    pub long: bool,
    /// Where tables lie that are synced.
    pub synced: PathBuf,
    /// A Python with LanceDB.
    pub python: PathBuf,
    quick: bool,
    directory: PathBuf,
}

impl Bench {
    /// A bench with nothing measured, tables below `directory`.
    pub fn new(rounds: usize, quick: bool, long: bool, directory: PathBuf) -> Self {
        let (synced, python) = (directory.clone(), PathBuf::from("python3"));
        Self { rounds, report: Report::new(rounds, quick), long, synced, python, quick, directory }
    }

    /// Alternations of a long workload.
    pub fn long_rounds(&self) -> usize {
        self.rounds.min(LONG_ROUNDS)
    }

    /// So much work, or a tenth of it when quick.
    pub fn amount(&self, full: usize) -> usize {
        if self.quick { (full / 10).max(1) } else { full }
    }

    /// So many seconds, or a tenth of them when quick.
    pub fn seconds(&self, full: f64) -> f64 {
        if self.quick { full / 10.0 } else { full }
    }

    /// The directory that is measured, with fsync or without.
    pub fn directory(&self, fsync: bool) -> &Path {
        if fsync { &self.synced } else { &self.directory }
    }

    /// A new place in it.
    pub fn disk(&self, fsync: bool) -> Result<Place> {
        Place::disk(self.directory(fsync), fsync)
    }

    /// `count` batches of `rows` rows, from the first row on.
    pub fn batches(&self, count: usize, rows: usize) -> Result<Arc<[RecordBatch]>> {
        Ok(data::batches(0, count, rows)?.into())
    }
}
