//! What a table is and has: columns, versions, sizes.
//!
//! Owns: the replies of `/describe/`, `/version/list/`, `/stats/`. Does not own: indexes (`index`).

use std::sync::Arc;

use arrow_schema::Schema;
use lance::Dataset;
use lance::arrow::json::JsonSchema;
use lance::dataset::statistics::DatasetStatisticsExt;
use serde_json::{Value, json};

/// Rows of a fragment below which it is small.
const SMALL_FRAGMENT_ROWS: usize = 1024 * 1024;

/// Columns of a version.
///
/// # Errors
/// What cannot be told in the words of the protocol.
pub fn describe(dataset: &Dataset) -> Result<Value, lance::Error> {
    let schema = Schema::from(dataset.schema());
    Ok(json!({ "version": dataset.version_id(), "schema": JsonSchema::try_from(&schema)? }))
}

/// All versions there still are.
///
/// # Errors
/// What storage says.
pub async fn versions(dataset: &Dataset) -> Result<Value, lance::Error> {
    let versions = dataset.versions().await?.into_iter().map(|version| {
        json!({
            "version": version.version,
            "timestamp": version.timestamp.to_rfc3339(),
            "metadata": version.metadata,
        })
    });
    Ok(json!({ "versions": versions.collect::<Vec<_>>() }))
}

/// Rows, bytes and fragments.
///
/// # Errors
/// What storage says.
pub async fn stats(dataset: &Arc<Dataset>, indexes: usize) -> Result<Value, lance::Error> {
    let bytes: u64 =
        dataset.calculate_data_stats().await?.fields.iter().map(|field| field.bytes_on_disk).sum();
    let mut lengths = Vec::new();
    for fragment in dataset.get_fragments() {
        lengths.push(fragment.count_rows(None).await?);
    }
    lengths.sort_unstable();
    let rows: usize = lengths.iter().sum();
    Ok(json!({
        "total_bytes": bytes,
        "num_rows": rows,
        "num_deleted_rows": dataset.count_deleted_rows().await?,
        "num_indices": indexes,
        "fragment_stats": {
            "num_fragments": lengths.len(),
            "num_small_fragments": lengths.iter().filter(|rows| **rows < SMALL_FRAGMENT_ROWS).count(),
            "lengths": {
                "min": lengths.first().copied().unwrap_or_default(),
                "max": lengths.last().copied().unwrap_or_default(),
                "mean": rows.checked_div(lengths.len()).unwrap_or_default(),
                "p25": quantile(&lengths, 25),
                "p50": quantile(&lengths, 50),
                "p75": quantile(&lengths, 75),
                "p99": quantile(&lengths, 99),
            },
        },
    }))
}

/// The value below or at which so many per cent of `sorted` lie; 0 of nothing.
fn quantile(sorted: &[usize], per_cent: usize) -> usize {
    let place = sorted.len().saturating_sub(1).saturating_mul(per_cent) / 100;
    sorted.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_there_are() {
        assert_eq!(quantile(&[], 50), 0);
        assert_eq!(quantile(&[7], 99), 7);
        let hundred: Vec<usize> = (0..=100).collect();
        assert_eq!([25, 50, 75, 99].map(|at| quantile(&hundred, at)), [25, 50, 75, 99]);
    }
}
