//! Shard settings as text: files, `name=value` pairs, and errors that name the setting at fault.
//!
//! Owns: [`SettingsText`], and [`near`], the names close to a mistyped one. Does not own: the settings and
//! their limits ([`ShardSettings`]), nor any file format: a caller parses its file into a tree and merges it.
//! Called by the `headwater` command and by servers.

use std::collections::BTreeSet;

use headwater_engine::settings::{InvalidSetting, ShardSettings};
use serde_json::Value;

use crate::error::Error;
use crate::nearest::nearest;

/// Shard settings under construction, from the defaults on. A later value of a setting replaces an earlier
/// one.
#[derive(Clone, Debug)]
pub struct SettingsText {
    tree: Value,
    given: BTreeSet<String>,
}

impl SettingsText {
    /// The defaults.
    ///
    /// # Errors
    /// [`Error::Setting`] if the defaults could not be written as a tree, which would be a fault of
    /// this library.
    pub fn defaults() -> Result<Self, Error> {
        Self::of(&ShardSettings::default())
    }

    /// From `settings` on, none of them taken for given.
    ///
    /// # Errors
    /// As [`SettingsText::defaults`].
    pub(crate) fn of(settings: &ShardSettings) -> Result<Self, Error> {
        let tree = serde_json::to_value(settings).map_err(|error| unreadable("", &error))?;
        Ok(Self { tree, given: BTreeSet::new() })
    }

    /// Dotted names of the settings that were given, for [`OpenOptions::given`](crate::OpenOptions::given).
    pub fn given(&self) -> &BTreeSet<String> {
        &self.given
    }

    /// Dotted names of all settings, in the order of the alphabet.
    pub fn names(&self) -> Vec<String> {
        leaves(&self.tree).into_iter().map(|(name, _)| name).collect()
    }

    /// Takes over every setting in `tree`, a nested map such as a parsed TOML file.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first unknown name or impossible value.
    pub fn merge(&mut self, tree: &Value) -> Result<(), Error> {
        if !tree.is_object() {
            return Err(setting("", "a table of settings is needed, as `[freeze]` and `max_rows = 1000`"));
        }
        for (name, value) in leaves(tree) {
            self.put(&name, value.clone())?;
        }
        Ok(())
    }

    /// Sets one setting by its dotted name. `value` is a number, `true`, `false`, `null` (for "none") or
    /// plain text.
    ///
    /// # Errors
    /// [`Error::Setting`] when there is no such setting or it cannot have that value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        self.put(name, value)
    }

    /// Sets one setting from a pair such as `freeze.max_rows=1000`.
    ///
    /// # Errors
    /// As [`SettingsText::set`]; also when there is no `=`.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), Error> {
        match pair.split_once('=') {
            Some((name, value)) => self.set(name.trim(), value.trim()),
            None => Err(setting(pair, "a value is missing; write name=value")),
        }
    }

    fn put(&mut self, name: &str, value: Value) -> Result<(), Error> {
        let Some(place) = self.tree.pointer_mut(&format!("/{}", name.replace('.', "/"))) else {
            return Err(self.unknown(name));
        };
        if place.is_object() && !value.is_object() {
            let inside: Vec<String> =
                leaves(place).into_iter().map(|(leaf, _)| format!("{name}.{leaf}")).collect();
            return Err(setting(name, &format!("it is a group; its settings are {}", inside.join(", "))));
        }
        let before = std::mem::replace(place, value);
        if let Err(error) = serde_json::from_value::<ShardSettings>(self.tree.clone()) {
            if let Some(place) = self.tree.pointer_mut(&format!("/{}", name.replace('.', "/"))) {
                *place = before;
            }
            return Err(unreadable(name, &error));
        }
        self.given.insert(name.to_owned());
        Ok(())
    }

    fn unknown(&self, name: &str) -> Error {
        setting(name, &format!("there is no such setting; near it are {}", near(name, self.names())))
    }

    /// The settings, checked as a whole.
    ///
    /// # Errors
    /// [`Error::Setting`] naming the setting out of its limits.
    pub fn build(&self) -> Result<ShardSettings, Error> {
        let settings = self.unchecked()?;
        settings.validate().map_err(refused)?;
        Ok(settings)
    }
}

impl SettingsText {
    /// One setting.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.tree.pointer(&format!("/{}", name.replace('.', "/")))
    }

    /// The settings as they are, their relations unchecked.
    pub(crate) fn unchecked(&self) -> Result<ShardSettings, Error> {
        serde_json::from_value(self.tree.clone()).map_err(|error| unreadable("", &error))
    }
}

/// The leaves of a tree of maps with their dotted names, sorted.
fn leaves(tree: &Value) -> Vec<(String, &Value)> {
    let Value::Object(map) = tree else { return Vec::new() };
    let mut found = Vec::new();
    for (name, value) in map {
        match value {
            Value::Object(_) => {
                found
                    .extend(leaves(value).into_iter().map(|(leaf, value)| (format!("{name}.{leaf}"), value)));
            }
            _ => found.push((name.clone(), value)),
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

/// Those of the dotted names in `known` nearest to the one typed, as a list for people.
pub fn near(typed: &str, known: Vec<String>) -> String {
    nearest(known, |known| distance(typed, known))
}

/// How far a known name is from what was typed: with its group or without, whichever is nearer.
fn distance(typed: &str, known: &str) -> usize {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let whole = strsim::damerau_levenshtein(typed, known);
    whole.min(strsim::damerau_levenshtein(&last(typed), &last(known)))
}

fn setting(name: &str, reason: &str) -> Error {
    Error::Setting { name: name.to_owned(), reason: reason.to_owned() }
}

fn unreadable(name: &str, error: &serde_json::Error) -> Error {
    setting(name, &format!("it cannot have that value: {error}"))
}

pub(crate) fn refused(error: InvalidSetting) -> Error {
    Error::Setting { name: error.setting.to_owned(), reason: error.reason }
}
