//! Everything around the protocol, over real connections: settings, keys, limits, going down, logs, metrics.

mod client;
mod config;
mod drain;
mod keys;
mod limits;
mod logs;
mod metrics;
mod tls;
mod toy;
