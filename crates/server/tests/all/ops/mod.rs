//! Everything around the protocol, over real connections: settings, keys, limits, going down, logs, metrics.

mod certificate;
mod client;
mod config;
mod drain;
mod idle;
mod keys;
mod limits;
mod logs;
mod metrics;
mod ready;
mod stall;
mod tls;
mod toy;
mod wait;
