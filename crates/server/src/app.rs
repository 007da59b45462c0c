//! The seam between what listens (`serve`) and what answers.
//!
//! Owns: [`App`], [`OpenTable`], what an app tells of a table, and [`open`], which says what app a server
//! has. Does not own: any route.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::future::BoxFuture;
use headwater::{EnvRef, TableStats};

use crate::config::{Config, ConfigError};
use crate::refusal::Refusal;

/// Why an app could not do something, for the log.
pub type AppError = Box<dyn std::error::Error + Send + Sync>;

/// What answers the requests that are let through.
pub trait App: Send + Sync + 'static {
    /// All its routes, and what is answered elsewhere.
    fn router(&self) -> Router;

    /// The tables that are open now.
    fn tables(&self) -> Vec<OpenTable>;

    /// Takes no more writes, flushes what can be flushed within `deadline`, and closes. What was acknowledged
    /// is durable whatever comes of it (P1).
    fn drain(&self, deadline: Duration) -> BoxFuture<'_, Result<(), AppError>>;
}

/// An open table.
#[derive(Clone, Debug)]
pub struct OpenTable {
    /// Its database.
    pub database: String,
    /// Its name, with namespaces.
    pub table: String,
    /// What it tells about itself.
    pub stats: TableStats,
}

/// The app of a server with these settings.
///
/// # Errors
/// [`ConfigError`] for settings of shards that cannot be.
pub fn open(config: &Config, env: &EnvRef) -> Result<Arc<dyn App>, ConfigError> {
    config.open_options(env)?;
    Ok(Arc::new(NoRoutes))
}

/// An app without a route: it says of every request that it is not supported.
struct NoRoutes;

impl App for NoRoutes {
    fn router(&self) -> Router {
        Router::new().fallback(|| async { Refusal::unsupported("this route is not supported") })
    }

    fn tables(&self) -> Vec<OpenTable> {
        Vec::new()
    }

    fn drain(&self, _deadline: Duration) -> BoxFuture<'_, Result<(), AppError>> {
        Box::pin(async { Ok(()) })
    }
}
