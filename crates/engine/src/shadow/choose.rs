//! How keys are looked for in the base.
//!
//! Owns: [`choose_resolution`] and [`are_selective`], pure functions over counts. Costs are those of Lance on
//! local disk, roughly; a wrong choice costs time only.

/// Rows of its key column that a pass reads in about the time the index takes to look one key up: a page of
/// the index and a page of the key column, against so many neighbours.
const ROWS_PER_LOOKUP: u64 = 200;
/// Rows a pass reads in about the time that one row takes which is read by its address.
const ROWS_PER_TAKE: u64 = 20;

/// Where keys are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// In the key index; rows it does not cover in a pass.
    Index,
    /// In one pass over the key columns.
    Pass,
}

/// What is cheaper to find `keys` in `covered` rows that the key index has.
pub fn choose_resolution(keys: u64, covered: u64) -> Resolution {
    if keys.saturating_mul(ROWS_PER_LOOKUP) < covered { Resolution::Index } else { Resolution::Pass }
}

/// Whether it is worth reading the `candidates` that the index named, or `covered` rows in a pass after all:
/// an index on one column of a composite key may name many that are none.
pub fn are_selective(candidates: u64, covered: u64) -> bool {
    candidates.saturating_mul(ROWS_PER_TAKE) < covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_keys_go_through_the_index_and_many_through_a_pass() {
        assert_eq!(choose_resolution(1, 1_000_000), Resolution::Index);
        assert_eq!(choose_resolution(4_999, 1_000_000), Resolution::Index);
        assert_eq!(choose_resolution(5_000, 1_000_000), Resolution::Pass);
        assert_eq!(choose_resolution(180_000, 1_000_000), Resolution::Pass);
        assert_eq!(choose_resolution(180_000, 100_000_000), Resolution::Index);
    }

    #[test]
    fn a_small_base_and_one_without_an_index_are_passed_over() {
        assert_eq!(choose_resolution(1, 0), Resolution::Pass);
        assert_eq!(choose_resolution(1, 200), Resolution::Pass);
        assert_eq!(choose_resolution(0, 0), Resolution::Pass);
        assert_eq!(choose_resolution(u64::MAX, u64::MAX), Resolution::Pass);
    }

    #[test]
    fn an_index_that_names_much_of_the_base_is_not_followed() {
        assert!(are_selective(1, 1_000));
        assert!(!are_selective(50, 1_000));
        assert!(!are_selective(1, 0));
    }
}
