//! Whether a read that met a missing file is made again.
//!
//! Owns: [`Tries`]. What a snapshot names may be compacted and collected before it is read: then the newest
//! manifests name other files. When they name the same ones again, a file is really missing, and the read
//! says so. So it is with SSTables of other columns than the base version that was known. Does not own:
//! taking the next snapshot (`reading`).

use std::collections::BTreeSet;

use headwater_engine::table::TableError;
use headwater_query::QueryError;

/// Reads of one question before it is given up.
const READS: usize = 5;

/// Tries at one read.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    failed: usize,
    sources: BTreeSet<String>,
}

impl Tries {
    /// Whether to read again from the newest manifests, after reading `sources` ended in `error` before any
    /// row was handed out.
    pub fn again(&mut self, sources: BTreeSet<String>, error: &QueryError) -> bool {
        // The base says `Corrupt` of a file that its version names and storage does not have.
        let may_be_old = matches!(
            error,
            QueryError::Table(
                TableError::NotFound { .. } | TableError::Corrupt { .. } | TableError::SchemaChanged { .. }
            )
        );
        self.failed += 1;
        may_be_old && self.failed < READS && std::mem::replace(&mut self.sources, sources.clone()) != sources
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn missing() -> QueryError {
        QueryError::Table(TableError::NotFound { path: "ab_gen_1/data/1.lance".to_owned() })
    }

    #[test]
    fn a_file_that_vanished_once_is_looked_for_in_the_next_snapshot() {
        let mut tries = Tries::default();
        assert!(tries.again(sources(&["base 1", "ab_gen_1"]), &missing()));
        assert!(tries.again(sources(&["base 2"]), &missing()), "other files: again");
    }

    #[test]
    fn a_file_that_every_snapshot_names_is_missing() {
        let mut tries = Tries::default();
        assert!(tries.again(sources(&["base 1", "ab_gen_1"]), &missing()));
        assert!(!tries.again(sources(&["base 1", "ab_gen_1"]), &missing()));
    }

    #[test]
    fn files_that_vanish_for_ever_end_the_read() {
        let mut tries = Tries::default();
        let again = (0..100).take_while(|n| tries.again(sources(&[&format!("base {n}")]), &missing()));
        assert_eq!(again.count(), READS - 1);
    }

    #[test]
    fn other_errors_are_told_at_once() {
        let unavailable = TableError::Unavailable { path: "t".to_owned(), reason: "slow".to_owned() };
        assert!(!Tries::default().again(sources(&["base 1"]), &QueryError::Table(unavailable)));
        let gone = QueryError::Execution { reason: "x".to_owned() };
        assert!(!Tries::default().again(sources(&["base 1"]), &gone));
    }
}
