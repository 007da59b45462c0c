//! `headwater serve`: a server for LanceDB's clients.
//!
//! Owns: flags, reading the file and the environment, what is printed at the start, signals. Does not own:
//! what a setting means (`headwater_server::config`), serving.

use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use futures::{StreamExt, stream};
use headwater::EnvRef;
use headwater_server::auth::{self, Auth, Keys};
use headwater_server::config::{Config, ConfigError, DEFAULT_FILE, FileText};
use headwater_server::logs;
use headwater_server::serve::{Ended, Server};
use serde_json::{Map, Value};

use crate::Global;
use crate::error::Failure;
use crate::output;
use crate::signals::{Stop, Stops};

/// Flags go before environment and file.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Directory or object-store URL with a directory for each database [default: ./data]
    #[arg(long, value_name = "DIR|URL")]
    data: Option<String>,
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// Port to listen on; 0 for any that is free [default: 8080]
    #[arg(long)]
    port: Option<u16>,
    /// Ask for no API key (on loopback addresses only)
    #[arg(long)]
    no_auth: bool,
    /// File with the hashes of API keys [default: headwater-keys.toml in the data directory]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Certificate for HTTPS, in PEM
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// File of settings [default: headwater.toml, when it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any other setting, as limits.writes=64 or log.format=json; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

pub async fn run(global: &Global, args: &ServeArgs) -> Result<(), Failure> {
    let config = config(global, args)?;
    log(global, &config)?;
    let env = global.env();
    let auth = keys(&config, &env)?;
    let app = headwater_server::app::open(&config, &env).await.map_err(server)?;
    let server = Server::bind(&config, auth, app, env).await.map_err(self::server)?;
    // Listened to before anybody is told where to come.
    let stops = Stops::listen().map_err(|error| Failure::io("signals", &error))?;
    output::line(&format!("Headwater serves {} at {}", config.data, server.url()))?;
    let last = Arc::new(std::sync::Mutex::new(None));
    let signals = stream::unfold((stops, Arc::clone(&last)), |(mut stops, last)| async move {
        let stop = stops.next().await;
        output::note(&format!("{stop}: going down; a second signal ends it at once"));
        if let Ok(mut last) = last.lock() {
            *last = Some(stop);
        }
        Some(((), (stops, last)))
    });
    match server.run(signals.boxed()).await.map_err(self::server)? {
        Ended::Drained => Ok(()),
        Ended::AtOnce => {
            let stop = last.lock().ok().and_then(|last| *last);
            Err(Failure::Stopped(stop.unwrap_or(Stop::Interrupt)))
        }
    }
}

/// The settings of a server, from all four sources.
fn config(global: &Global, args: &ServeArgs) -> Result<Config, Failure> {
    let file = settings_file(args.config.as_deref())?;
    let text = file.as_ref().map(|(name, text)| FileText { name, text });
    let flags = flags(global, args)?;
    Config::load(text, std::env::vars_os().filter_map(as_text), flags).map_err(refused)
}

/// What stands in a variable that is no text cannot be a setting.
fn as_text((name, value): (std::ffi::OsString, std::ffi::OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}

fn settings_file(named: Option<&Path>) -> Result<Option<(PathBuf, String)>, Failure> {
    let name = named.unwrap_or(Path::new(DEFAULT_FILE));
    match std::fs::read_to_string(name) {
        Ok(text) => Ok(Some((name.to_owned(), text))),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::io(&name.display().to_string(), &error)),
    }
}

fn flags(global: &Global, args: &ServeArgs) -> Result<Value, Failure> {
    let mut tree = Map::new();
    for pair in &args.settings {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--set {pair}: a value is missing; write NAME=VALUE")))?;
        let value = value.trim();
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        put(&mut tree, name.trim(), value);
    }
    for pair in &global.storage_options {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            Failure::usage(format!("--storage-option {pair}: a value is missing; write KEY=VALUE"))
        })?;
        // Not through `put`: a name may hold a dot.
        let options = tree.entry("storage").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(options) = options {
            options.insert(name.trim().to_owned(), Value::String(value.to_owned()));
        }
    }
    let path = |path: &PathBuf| Value::String(path.display().to_string());
    let given = [
        ("data", args.data.clone().map(Value::String)),
        ("listen", args.listen.map(|address| Value::String(address.to_string()))),
        ("port", args.port.map(Value::from)),
        ("no_auth", args.no_auth.then_some(Value::Bool(true))),
        ("keys", args.keys.as_ref().map(path)),
        ("tls.cert", args.tls_cert.as_ref().map(path)),
        ("tls.key", args.tls_key.as_ref().map(path)),
        ("fsync", global.no_fsync.then_some(Value::Bool(false))),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            put(&mut tree, name, value);
        }
    }
    Ok(Value::Object(tree))
}

fn put(tree: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            tree.insert(name.to_owned(), value);
        }
        Some((group, rest)) => {
            let inner = tree.entry(group).or_insert_with(|| Value::Object(Map::new()));
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

fn log(global: &Global, config: &Config) -> Result<(), Failure> {
    let told = std::env::var("HEADWATER_LOG").ok();
    let asked = match global.verbose {
        0 => None,
        1 => Some("info,headwater=debug".to_owned()),
        _ => Some("debug,headwater=trace".to_owned()),
    };
    let level = told.or(asked);
    let colours = std::io::stderr().is_terminal();
    let lines = logs::subscriber(&config.log, level.as_deref(), colours, std::io::stderr);
    tracing::subscriber::set_global_default(lines.map_err(refused)?).map_err(server)
}

fn keys(config: &Config, env: &EnvRef) -> Result<Auth, Failure> {
    if config.no_auth {
        output::note(
            "no API key is needed (no_auth): whoever reaches this machine's loopback may do everything",
        );
        return Ok(Auth::Open);
    }
    let file = config.keys_file();
    let opened = auth::open(&file, env).map_err(server)?;
    if let Some(first) = &opened.first {
        output::line(&format!("API key, shown this once: {}", first.reveal()))?;
        output::note(&format!("its hash is in {}; `headwater key add` makes more keys", file.display()));
    }
    if !config.listen.is_loopback() && config.tls.cert.is_none() {
        output::note(
            "keys and rows travel unencrypted: name tls.cert and tls.key, or put a TLS proxy before it",
        );
    }
    Ok(Auth::Keys(Keys::watched(file, opened.keyring, env)))
}

fn refused(error: ConfigError) -> Failure {
    Failure::usage(error.to_string())
}

fn server(error: impl std::fmt::Display) -> Failure {
    Failure::Server(error.to_string())
}
