//! The keyring on disk: hashes only, readable by the owner only.
//!
//! Owns: making it with a first key, adding to it, taking from it, reading it. Written whole under another
//! name, synced, and then put in place, so that a crash leaves the old file or the new one. Whoever changes
//! it holds a lock on its directory meanwhile, so that no change undoes another. Two processes that start at
//! once make one first key: the second finds the file of the first.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use headwater::EnvRef;

use crate::auth::identity::Databases;
use crate::auth::key::ApiKey;
use crate::auth::keyring::{Keyring, StoredKey};

/// Read and write for the owner, nothing for anybody else.
const OWNER_ONLY: u32 = 0o600;
/// Bits that let others in.
const OTHERS: u32 = 0o077;
/// Name of the key that is made on first start.
const FIRST: &str = "first";

/// Why the keys are not there.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The operating system refused.
    #[error("keys file {file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What it said.
        source: io::Error,
    },
    /// What is in it is no keyring.
    #[error("keys file {file}: {reason}")]
    Content {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A key of that name is there.
    #[error("keys file {file} holds a key {name} already: choose another name")]
    Taken {
        /// The file.
        file: String,
        /// The name.
        name: String,
    },
    /// There is no key of that name.
    #[error("keys file {file} holds no key {name}: `headwater key list` tells which it holds")]
    Missing {
        /// The file.
        file: String,
        /// The name.
        name: String,
    },
    /// No key could be drawn.
    #[error("the operating system gave no random bytes for a key: {source}")]
    Chance {
        /// What it said.
        source: rand::rand_core::OsError,
    },
}

/// The keys of a server that starts.
#[derive(Debug)]
pub struct Opened {
    /// Them.
    pub keyring: Keyring,
    /// The key that was made because there was none: to be shown to whoever started the server, once.
    pub first: Option<ApiKey>,
}

/// Reads the keys file, or makes one with a first key, for all databases.
///
/// # Errors
/// [`KeysError`].
pub fn open(file: &Path, env: &EnvRef) -> Result<Opened, KeysError> {
    match list(file) {
        Ok(keyring) => return Ok(Opened { keyring, first: None }),
        Err(KeysError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let _locked = lock(file)?;
    let (key, stored) = new_key(FIRST, Databases::All, true)?;
    let keyring = Keyring { keys: vec![stored] };
    match write(file, &keyring, Replacing::Nothing, env) {
        Ok(()) => Ok(Opened { keyring, first: Some(key) }),
        Err(KeysError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            Ok(Opened { keyring: list(file)?, first: None })
        }
        Err(error) => Err(error),
    }
}

/// Makes a key and adds it to the file. A server that runs knows it a moment later.
///
/// # Errors
/// [`KeysError`]; among others when a key of that name is there.
pub fn add(
    file: &Path,
    name: &str,
    databases: Databases,
    write_too: bool,
    env: &EnvRef,
) -> Result<ApiKey, KeysError> {
    let _locked = lock(file)?;
    let mut keyring = match list(file) {
        Err(KeysError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Keyring::default(),
        read => read?,
    };
    if keyring.keys.iter().any(|key| key.name == name) {
        return Err(KeysError::Taken { file: shown(file), name: name.to_owned() });
    }
    let (key, stored) = new_key(name, databases, write_too)?;
    keyring.keys.push(stored);
    write(file, &keyring, Replacing::WhatIsThere, env)?;
    Ok(key)
}

/// Takes a key from the file. A server that runs refuses it a moment later.
///
/// # Errors
/// [`KeysError`]; among others when there is no key of that name.
pub fn remove(file: &Path, name: &str, env: &EnvRef) -> Result<(), KeysError> {
    let _locked = lock(file)?;
    let mut keyring = list(file)?;
    let before = keyring.keys.len();
    keyring.keys.retain(|key| key.name != name);
    if keyring.keys.len() == before {
        return Err(KeysError::Missing { file: shown(file), name: name.to_owned() });
    }
    write(file, &keyring, Replacing::WhatIsThere, env)
}

/// The keys in the file.
///
/// # Errors
/// [`KeysError`].
pub fn list(file: &Path) -> Result<Keyring, KeysError> {
    let failed = |source| KeysError::Io { file: shown(file), source };
    let text = fs::read_to_string(file).map_err(failed)?;
    let mode = fs::metadata(file).map_err(failed)?.permissions().mode();
    if mode & OTHERS != 0 {
        let mode = format!("{:o}", mode & 0o777);
        tracing::warn!(file = %file.display(), mode, "others may read the keys file");
    }
    toml::from_str(&text).map_err(|error| {
        let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.lines().count());
        let reason = match line {
            Some(line) => format!("{} (near line {})", error.message(), line.max(1)),
            None => error.message().to_owned(),
        };
        KeysError::Content { file: shown(file), reason }
    })
}

fn new_key(name: &str, databases: Databases, write: bool) -> Result<(ApiKey, StoredKey), KeysError> {
    let key = ApiKey::generate().map_err(|source| KeysError::Chance { source })?;
    let stored = StoredKey { name: name.to_owned(), sha256: key.hash(), databases, write };
    Ok((key, stored))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Replacing {
    Nothing,
    WhatIsThere,
}

fn write(file: &Path, keyring: &Keyring, replacing: Replacing, env: &EnvRef) -> Result<(), KeysError> {
    let text = toml::to_string(keyring)
        .map_err(|error| KeysError::Content { file: shown(file), reason: error.to_string() })?;
    let staged = staging(file, env);
    let put = || -> io::Result<()> {
        let mut new = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(&staged)?;
        new.write_all(HEAD.as_bytes())?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        match replacing {
            // Unlike a rename, a link replaces nothing.
            Replacing::Nothing => fs::hard_link(&staged, file)?,
            Replacing::WhatIsThere => fs::rename(&staged, file)?,
        }
        File::open(directory(file))?.sync_all()
    };
    let end = put();
    if replacing == Replacing::Nothing || end.is_err() {
        // What stays behind holds no key, and is in nobody's way.
        let _ = fs::remove_file(&staged);
    }
    end.map_err(|source| KeysError::Io { file: shown(file), source })
}

/// What a file of keys says about itself.
const HEAD: &str = "# Keys of a Headwater server, as SHA-256. `headwater key add` makes another one.\n\n";

/// Waits until nobody else changes the file, and keeps others from it until it is dropped.
fn lock(file: &Path) -> Result<File, KeysError> {
    let locked = || {
        fs::create_dir_all(directory(file))?;
        let directory = File::open(directory(file))?;
        directory.lock()?;
        Ok(directory)
    };
    locked().map_err(|source| KeysError::Io { file: shown(file), source })
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn staging(file: &Path, env: &EnvRef) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", env.uuid()));
    file.with_file_name(name)
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}
