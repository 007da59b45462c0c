//! What is logged: lines for people or for machines, each within its request.
//!
//! Owns: [`subscriber`]. Does not own: where lines go and that they are installed (the caller), the line of
//! each request (`observe`). Never in a log: a key, a body, a query string. Keys are taken off a request
//! before anything behind `auth` sees it, and what is logged of a request is named one by one.

use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::{ConfigError, Log, LogFormat};

/// What writes log lines to `writer`. `overridden` is a level that goes before the configured one.
///
/// # Errors
/// [`ConfigError::Refused`] for a level that is none.
pub fn subscriber<W>(
    log: &Log,
    overridden: Option<&str>,
    colours: bool,
    writer: W,
) -> Result<impl Subscriber + Send + Sync + use<W>, ConfigError>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let level = overridden.unwrap_or(&log.level);
    let filter = EnvFilter::try_new(level).map_err(|error| ConfigError::Refused {
        name: "log.level".to_owned(),
        reason: format!("{level:?} is none: {error}; write info, debug or headwater=debug,warn"),
    })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match log.format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed(),
    };
    Ok(Registry::default().with(lines))
}
