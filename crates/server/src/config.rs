//! What a server can be told, and by whom: defaults, then a file, then the environment, then flags.
//!
//! Owns: [`Config`] and its limits, the order of the four, refusing names nobody knows (with the nearest
//! ones) and combinations that cannot be meant. Does not own: where the texts come from; the caller reads
//! file and environment. What stands under `storage` may be a credential and is never shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use figment::providers::Serialized;
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use headwater::settings::{SettingsText, near};
use headwater::{EnvRef, MemoryBudget, OpenOptions, ShardSettings, TableOptions};
use serde::{Deserialize, Deserializer, Serialize};

use crate::idle::Keep;

/// Beginning of the environment variables that are read; what follows is the name of a setting in capitals,
/// with `__` between a group and what is in it. Orchestrators set `HEADWATER_PORT` and the like for services
/// of that name, so the prefix says more than the product's name.
pub const PREFIX: &str = "HEADWATER_SERVE_";
/// The file that is read when it is there and no other is named.
pub const DEFAULT_FILE: &str = "headwater.toml";
/// The keys file of a server whose data is in a local directory, in that directory; of any other server, in
/// the working directory.
pub const KEYS_FILE: &str = "headwater-keys.toml";
/// Groups that hold names of others: options of object stores, settings of shards.
const OPEN_GROUPS: [&str; 2] = ["storage", "shard"];

/// What a server can be told. Each name is one of the file, of the environment, and mostly of a flag.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Directory or object-store URL with a directory for each database.
    pub data: String,
    /// Address to listen on.
    pub listen: IpAddr,
    /// Port to listen on; 0 for any that is free.
    pub port: u16,
    /// Whether requests need no key. On loopback addresses only.
    pub no_auth: bool,
    /// The file with the keys' hashes.
    pub keys: Option<PathBuf>,
    /// HTTPS, if both files are named.
    pub tls: TlsFiles,
    /// How much at once.
    pub limits: Limits,
    /// How long and how many tables are kept open.
    pub tables: Tables,
    /// What is logged, and how.
    pub log: Log,
    /// How long an idle connection is kept, in seconds. Clients keep theirs for 300.
    pub keep_alive_seconds: u64,
    /// How long going down may take, in seconds: half of it for requests under way, the rest for flushing.
    pub drain_seconds: u64,
    /// Whether files on local disk are synced before a write is acknowledged.
    pub fsync: bool,
    /// Bytes that memtables and what reads keep may use, over all tables.
    pub memory_bytes: u64,
    /// Options for the object store.
    pub storage: Secrets,
    /// Settings of shards, as `headwater ingest --settings` takes them.
    pub shard: serde_json::Map<String, serde_json::Value>,
}

/// Files of a certificate and its private key, in PEM.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TlsFiles {
    /// The certificate, with those that vouch for it behind it.
    pub cert: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

/// How much at once. What goes beyond is refused early, with statuses upon which clients try again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Connections; more wait to be accepted.
    pub connections: usize,
    /// Writes under way.
    pub writes: usize,
    /// Reads under way.
    pub reads: usize,
    /// Bytes of request bodies that may be in memory.
    pub body_bytes: u64,
    /// Bytes of one body that are counted at most: a long upload is read in pieces, and no more of it is
    /// kept.
    pub body_bytes_each: u64,
    /// How long a body may pause, in seconds.
    pub body_pause_seconds: u64,
    /// How long a body may take as a whole, in seconds.
    pub body_seconds: u64,
    /// How long a client may take nothing of a reply, in seconds.
    pub reply_stall_seconds: u64,
}

/// How long and how many tables are kept open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tables {
    /// How long a table may be open without a request, in seconds; then it is flushed and closed.
    pub idle_close_seconds: u64,
    /// How many may be open; beyond it, those are closed that nobody has used for longest.
    pub open: usize,
}

/// What is logged, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Log {
    /// The form of a line.
    pub format: LogFormat,
    /// What is logged, as `info` or `warn,headwater=debug`.
    pub level: String,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// Names and values of which the values are never shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Secrets(pub BTreeMap<String, String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl<'de> Deserialize<'de> for Secrets {
    /// Numbers and booleans are taken as their text, so that no error has to show a value.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Scalar {
            Text(String),
            Switch(bool),
            Whole(i64),
            Number(f64),
        }
        let scalars = BTreeMap::<String, Scalar>::deserialize(deserializer)?;
        let text = |scalar| match scalar {
            Scalar::Text(text) => text,
            Scalar::Switch(on) => on.to_string(),
            Scalar::Whole(number) => number.to_string(),
            Scalar::Number(number) => number.to_string(),
        };
        Ok(Self(scalars.into_iter().map(|(name, scalar)| (name, text(scalar))).collect()))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: "./data".to_owned(),
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8080,
            no_auth: false,
            keys: None,
            tls: TlsFiles::default(),
            limits: Limits::default(),
            tables: Tables::default(),
            log: Log::default(),
            keep_alive_seconds: 360,
            drain_seconds: 30,
            fsync: true,
            memory_bytes: 1 << 30,
            storage: Secrets::default(),
            shard: serde_json::Map::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            writes: 512,
            reads: 256,
            body_bytes: 512 << 20,
            body_bytes_each: 32 << 20,
            body_pause_seconds: 30,
            body_seconds: 4 * 60 * 60,
            reply_stall_seconds: 300,
        }
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self { idle_close_seconds: 15 * 60, open: 1000 }
    }
}

impl Tables {
    /// As whoever keeps them open is told.
    pub fn keep(&self) -> Keep {
        Keep { idle: Duration::from_secs(self.idle_close_seconds), most: self.open }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "warn,headwater=info".to_owned() }
    }
}

/// A file's text.
#[derive(Clone, Copy, Debug)]
pub struct FileText<'a> {
    /// Its name.
    pub name: &'a Path,
    /// What is in it.
    pub text: &'a str,
}

/// Why a server cannot be told that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file is no TOML.
    #[error("{file}: {reason}{}", line.map(|line| format!(" in line {line}")).unwrap_or_default())]
    Syntax {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: Option<usize>,
        /// What the parser said.
        reason: String,
    },
    /// Nobody reads that name.
    #[error("{source_name}: there is no setting {name}; near it are {near}")]
    Unknown {
        /// Where it stands.
        source_name: String,
        /// The name.
        name: String,
        /// Names like it.
        near: String,
    },
    /// A value of the wrong kind.
    #[error("{source_name}: {name}: {reason}")]
    Value {
        /// Where it stands.
        source_name: String,
        /// The setting.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// What cannot be meant.
    #[error("{name}: {reason}")]
    Refused {
        /// The setting.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
}

impl Config {
    /// The defaults, under what stands in `file`, under what `environment` says, under `flags` (a map or
    /// struct with the names of settings, and nothing for what was not given).
    ///
    /// # Errors
    /// [`ConfigError`] for the first thing that is wrong.
    pub fn load(
        file: Option<FileText<'_>>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: impl Serialize,
    ) -> Result<Self, ConfigError> {
        let flags = Serialized::defaults(flags);
        let layers = [
            file.map(of_file).transpose()?,
            Some(of_environment(environment)),
            Some(Layer {
                name: "flags".to_owned(),
                values: flags.data().map(default_profile).map_err(value)?,
            }),
        ];
        let known = known_names();
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        for layer in layers.into_iter().flatten() {
            layer.check_names(&known)?;
            figment = figment.merge(layer);
        }
        let config: Self = figment.extract().map_err(value)?;
        config.check()?;
        Ok(config)
    }

    /// Whether the data is on object storage.
    pub fn is_remote(&self) -> bool {
        self.data.contains("://") && !self.data.starts_with("file://")
    }

    /// The keys file.
    pub fn keys_file(&self) -> PathBuf {
        match &self.keys {
            Some(keys) => keys.clone(),
            None if self.is_remote() => PathBuf::from(KEYS_FILE),
            None => Path::new(self.data.strip_prefix("file://").unwrap_or(&self.data)).join(KEYS_FILE),
        }
    }

    /// How long an idle connection is kept.
    pub fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.keep_alive_seconds)
    }

    /// How long going down may take.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds)
    }

    /// The settings of shards, and which of them were given.
    ///
    /// # Errors
    /// [`ConfigError::Refused`] for one nobody knows, or that cannot have its value.
    pub fn shard_settings(&self) -> Result<(ShardSettings, BTreeSet<String>), ConfigError> {
        let build = || {
            let mut settings = SettingsText::defaults()?;
            settings.merge(&serde_json::Value::Object(self.shard.clone()))?;
            Ok((settings.build()?, settings.given().clone()))
        };
        build().map_err(|error: headwater::Error| refused("shard", &error.to_string()))
    }

    /// How tables are opened. Those opened with clones of it share one memory budget.
    ///
    /// # Errors
    /// As [`Config::shard_settings`].
    pub fn open_options(&self, env: &EnvRef) -> Result<OpenOptions, ConfigError> {
        let (settings, given) = self.shard_settings()?;
        let storage_options = self.storage.0.clone();
        let table = TableOptions { storage_options, fsync: self.fsync, ..TableOptions::default() };
        let (memory, env) = (Some(MemoryBudget::new(self.memory_bytes)), Some(Arc::clone(env)));
        Ok(OpenOptions { settings, given, table, memory, env, ..OpenOptions::default() })
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.data.trim().is_empty() {
            return Err(refused("data", "a directory or object-store URL is needed"));
        }
        if self.no_auth && !self.listen.is_loopback() {
            let reason = format!(
                "without keys anybody who reaches {} could read and write everything: listen on 127.0.0.1, \
                 or leave no_auth out",
                self.listen
            );
            return Err(refused("no_auth", &reason));
        }
        match (&self.tls.cert, &self.tls.key) {
            (Some(_), None) => return Err(refused("tls.key", "the key of tls.cert is needed")),
            (None, Some(_)) => return Err(refused("tls.cert", "the certificate of tls.key is needed")),
            _ => {}
        }
        self.limits.check()?;
        if self.tables.idle_close_seconds == 0 {
            return Err(refused("tables.idle_close_seconds", "at least 1 is needed"));
        }
        if self.keep_alive_seconds == 0 {
            return Err(refused("keep_alive_seconds", "at least 1 is needed"));
        }
        self.shard_settings().map(|_| ())
    }
}

impl Limits {
    /// How long a body may pause.
    pub fn body_pause(&self) -> Duration {
        Duration::from_secs(self.body_pause_seconds)
    }

    /// How long a body may take.
    pub fn body_time(&self) -> Duration {
        Duration::from_secs(self.body_seconds)
    }

    /// How long a client may take nothing of a reply.
    pub fn reply_stall(&self) -> Duration {
        Duration::from_secs(self.reply_stall_seconds)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let least = [
            ("connections", self.connections as u64),
            ("writes", self.writes as u64),
            ("reads", self.reads as u64),
            ("body_bytes_each", self.body_bytes_each),
            ("body_pause_seconds", self.body_pause_seconds),
            ("body_seconds", self.body_seconds),
            ("reply_stall_seconds", self.reply_stall_seconds),
        ];
        if let Some((name, _)) = least.into_iter().find(|(_, value)| *value == 0) {
            return Err(refused(&format!("limits.{name}"), "at least 1 is needed"));
        }
        if self.body_bytes < self.body_bytes_each {
            let reason = format!("one body alone may hold {} bytes (body_bytes_each)", self.body_bytes_each);
            return Err(refused("limits.body_bytes", &reason));
        }
        Ok(())
    }
}

/// Values of one source.
#[derive(Debug)]
struct Layer {
    name: String,
    values: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

impl Layer {
    fn check_names(&self, known: &BTreeSet<String>) -> Result<(), ConfigError> {
        let mut names = Vec::new();
        leaves("", &self.values, &mut names);
        let is_open =
            |name: &str| name.split_once('.').is_some_and(|(group, _)| OPEN_GROUPS.contains(&group));
        match names.into_iter().find(|name| !known.contains(name) && !is_open(name)) {
            None => Ok(()),
            Some(name) => {
                let near = near(&name, known.iter().cloned().collect());
                Err(ConfigError::Unknown { source_name: self.name.clone(), name, near })
            }
        }
    }
}

fn of_file(file: FileText<'_>) -> Result<Layer, ConfigError> {
    let name = file.name.display().to_string();
    let values = toml::from_str::<Dict>(file.text).map_err(|error| {
        let before = error.span().and_then(|span| file.text.get(..span.start));
        let line = before.map(|before| before.matches('\n').count() + 1);
        // Its whole text would show the line, which may hold a credential.
        ConfigError::Syntax { file: name.clone(), line, reason: error.message().to_owned() }
    })?;
    Ok(Layer { name, values })
}

fn of_environment(environment: impl IntoIterator<Item = (String, String)>) -> Layer {
    let mut figment = Figment::new();
    for (name, text) in environment {
        let Some(name) = name.strip_prefix(PREFIX) else { continue };
        let name = name.to_ascii_lowercase().replace("__", ".");
        // A credential stays the text it is; of anything else the form tells what it is.
        let is_secret = name.starts_with("storage.");
        let value = if is_secret { Value::from(text) } else { text.parse().unwrap_or(Value::from(text)) };
        if let Value::Dict(_, values) = figment::util::nest(&name, value) {
            figment = figment.merge(Layer { name: String::new(), values });
        }
    }
    let values = figment.data().map(default_profile).unwrap_or_default();
    Layer { name: format!("environment ({PREFIX}…)"), values }
}

fn default_profile(mut profiles: Map<Profile, Dict>) -> Dict {
    profiles.remove(&Profile::Default).unwrap_or_default()
}

/// Dotted names of everything that can be told, open groups without what is in them.
fn known_names() -> BTreeSet<String> {
    let mut names = Vec::new();
    if let Ok(data) = Serialized::defaults(Config::default()).data() {
        leaves("", &default_profile(data), &mut names);
    }
    names.into_iter().collect()
}

fn leaves(before: &str, values: &Dict, names: &mut Vec<String>) {
    for (name, value) in values {
        let name = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
        match value {
            Value::Dict(_, inner) if !inner.is_empty() => leaves(&name, inner, names),
            _ => names.push(name),
        }
    }
}

fn value(error: figment::Error) -> ConfigError {
    let source_name = error.metadata.as_ref().map_or("settings", |from| from.name.as_ref()).to_owned();
    ConfigError::Value { source_name, name: error.path.join("."), reason: error.kind.to_string() }
}

fn refused(name: &str, reason: &str) -> ConfigError {
    ConfigError::Refused { name: name.to_owned(), reason: reason.to_owned() }
}
