//! Measuring in turn: A B A B, so that what the machine does meanwhile meets both.
//!
//! Owns: [`Sample`], [`alternate`], and the numbers a set of samples comes to ([`Spread`]). Does not own: how
//! one sample is taken (the workloads) or shown (`report`).

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::place::Wal;

/// What one run of one side came to.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The figure, in the unit of its case.
    pub value: f64,
    /// How long it took.
    pub seconds: f64,
    /// Milliseconds of each put, where there were puts.
    pub latencies_ms: Vec<f64>,
    /// What the WAL grew by.
    pub wal: Option<Wal>,
    /// Bytes acknowledged.
    pub payload_bytes: u64,
}

/// Runs every entrant once, in order, `rounds` times over. The samples of each entrant, by round.
pub async fn alternate<E: Copy>(
    rounds: usize,
    entrants: &[E],
    mut run: impl AsyncFnMut(E) -> Result<Sample>,
) -> Result<Vec<Vec<Sample>>> {
    let mut samples = vec![Vec::with_capacity(rounds); entrants.len()];
    for _ in 0..rounds {
        for (entrant, taken) in entrants.iter().zip(&mut samples) {
            taken.push(run(*entrant).await?);
        }
    }
    Ok(samples)
}

/// Several measurements of one thing.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Median of the distances from the median.
    pub mad: f64,
    /// How many.
    pub samples: usize,
}

impl Spread {
    /// Of these, in any order.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values = sorted(values);
        let median = percentile(&values, 0.5);
        let distances = sorted(values.iter().map(|value| (value - median).abs()));
        Self {
            median,
            min: percentile(&values, 0.0),
            max: percentile(&values, 1.0),
            mad: percentile(&distances, 0.5),
            samples: values.len(),
        }
    }

    /// Of the values of some samples.
    pub fn of_values(samples: &[Sample]) -> Self {
        Self::of(samples.iter().map(|sample| sample.value))
    }

    /// Of the ratios `of / to`, round by round.
    pub fn of_ratios(of: &[Sample], to: &[Sample]) -> Self {
        Self::of(of.iter().zip(to).map(|(of, to)| of.value / to.value))
    }
}

/// The values in ascending order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The value with this share of the others below it; not a number when there is none.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (last as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// Counts by name, as tables show them.
pub type Counts = BTreeMap<String, u64>;
