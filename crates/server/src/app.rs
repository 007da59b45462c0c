//! The seam between what listens (`serve`) and what answers.
//!
//! Owns: [`App`], [`OpenTable`], what an app tells of a table, and [`open`], which says what app a server
//! has. Does not own: any route.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use headwater::{EnvRef, TableStats};

use crate::config::Config;
use crate::error::ApiError;
use crate::names::TableId;
use crate::router::router;
use crate::service::Service;

/// Why an app could not do something, for the log.
pub type AppError = Box<dyn std::error::Error + Send + Sync>;

/// What answers the requests that are let through.
pub trait App: Send + Sync + 'static {
    /// All its routes, and what is answered elsewhere.
    fn router(&self) -> Router;

    /// The tables with a write tier that are open now.
    fn tables(&self) -> Vec<OpenTable>;

    /// How many tables are open now, with a write tier and without.
    fn open_tables(&self) -> usize;

    /// Asks storage for something small.
    fn ready(&self) -> BoxFuture<'_, Result<(), ApiError>>;

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
/// Settings of shards that cannot be, or what storage says.
pub async fn open(config: &Config, env: &EnvRef) -> Result<Arc<dyn App>, AppError> {
    let options = config.open_options(env)?;
    let service = Service::new(&config.data, options, Arc::clone(env)).await?;
    service.keep_open(config.tables.keep());
    Ok(of(service))
}

/// The LanceDB remote protocol, served by `service`.
pub fn of(service: Arc<Service>) -> Arc<dyn App> {
    Arc::new(Protocol { service })
}

/// The LanceDB remote protocol.
struct Protocol {
    service: Arc<Service>,
}

impl App for Protocol {
    fn router(&self) -> Router {
        router(Arc::clone(&self.service))
    }

    fn tables(&self) -> Vec<OpenTable> {
        let table = |(id, stats): (TableId, TableStats)| OpenTable {
            database: id.database().name().to_owned(),
            table: id.name().to_owned(),
            stats,
        };
        self.service.tiers().into_iter().map(table).collect()
    }

    fn open_tables(&self) -> usize {
        self.service.open_tables()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        self.service.storage().look(self.service.env()).boxed()
    }

    fn drain(&self, deadline: Duration) -> BoxFuture<'_, Result<(), AppError>> {
        let drained = async move {
            match self.service.drain(deadline).await {
                true => Ok(()),
                false => {
                    Err("not every table was flushed in time: its rows are in the WAL, and are replayed"
                        .into())
                }
            }
        };
        drained.boxed()
    }
}
