//! All metrics, as Prometheus reads them.
//!
//! Owns: [`Metrics`]: registration of what is declared, and the text of a scrape.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::app::App;
use crate::limits::Limiter;
use crate::metrics::declared::{self, Declared};
use crate::metrics::http::Http;
use crate::metrics::tables::TableMetrics;

/// The format of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    /// What is counted as requests come.
    pub http: Http,
    registry: Registry,
}

impl Metrics {
    /// Nothing counted yet. What `limiter` and `app` tell is asked for at each scrape.
    pub fn new(limiter: Arc<Limiter>, app: Arc<dyn App>) -> Arc<Self> {
        let http = Http::default();
        let mut registry = Registry::with_prefix(declared::PREFIX);
        register(&mut registry, &declared::HTTP_REQUESTS, http.requests.clone());
        register(&mut registry, &declared::HTTP_DURATION, http.duration.clone());
        register(&mut registry, &declared::HTTP_ERRORS, http.errors.clone());
        register(&mut registry, &declared::HTTP_CONNECTIONS, http.connections.clone());
        registry.register_collector(Box::new(Usage(limiter)));
        registry.register_collector(Box::new(TableMetrics(app)));
        Arc::new(Self { http, registry })
    }

    /// All of them now.
    ///
    /// # Errors
    /// None in practice: text is written to memory.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

fn register(registry: &mut Registry, metric: &Declared, value: impl Metric) {
    match unit_of(metric) {
        Some(unit) => registry.register_with_unit(metric.name, metric.help, unit, value),
        None => registry.register(metric.name, metric.help, value),
    }
}

/// A metric's unit, as the registry knows it.
pub(super) fn unit_of(metric: &Declared) -> Option<Unit> {
    metric.unit.map(|unit| match unit {
        declared::Unit::Seconds => Unit::Seconds,
        declared::Unit::Bytes => Unit::Bytes,
    })
}

/// What the limiter counts.
#[derive(Debug)]
struct Usage(Arc<Limiter>);

impl Collector for Usage {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let usage = self.0.usage();
        let mut in_flight = gauge(&mut encoder, &declared::HTTP_IN_FLIGHT)?;
        for (class, count) in [("read", usage.reads), ("write", usage.writes)] {
            in_flight.encode_family(&[("class", class)])?.encode_gauge(&count)?;
        }
        gauge(&mut encoder, &declared::HTTP_BODIES)?.encode_gauge(&usage.body_bytes)
    }
}

fn gauge<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    metric: &Declared,
) -> Result<MetricEncoder<'e>, fmt::Error> {
    static UNITS: [Unit; 2] = [Unit::Seconds, Unit::Bytes];
    let unit = metric.unit.and_then(|unit| UNITS.iter().find(|known| known.as_str() == unit.name()));
    let help = format!("{}.", metric.help);
    encoder.encode_descriptor(metric.name, &help, unit, MetricType::Gauge)
}
