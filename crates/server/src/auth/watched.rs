//! The keys of a server that runs.
//!
//! Owns: [`Keys`]: a keyring, and reading its file again when that has changed, so that a key that was added
//! or removed counts within [`PAUSE`]. A file that is gone or is no keyring changes nothing: the keys stay as
//! they were, and the log says so, once. Does not own: what is in the file (`keys_file`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use headwater::EnvRef;
use headwater_store::env::EnvExt;
use parking_lot::RwLock;

use crate::auth::keyring::Keyring;
use crate::auth::keys_file::{self, KeysError};

/// How often the file is looked at.
pub const PAUSE: Duration = Duration::from_secs(1);

/// The keys of a server that runs.
#[derive(Debug)]
pub struct Keys(RwLock<Arc<Keyring>>);

/// What tells a file from what it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Keys {
    /// These, for good.
    pub fn fixed(keyring: Keyring) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Arc::new(keyring))))
    }

    /// These, which were read from `file`, and what is in it later.
    pub fn watched(file: PathBuf, keyring: Keyring, env: &EnvRef) -> Arc<Self> {
        let keys = Self::fixed(keyring);
        let watch = watch(Arc::downgrade(&keys), file, Arc::clone(env));
        env.spawn("keys file", watch.boxed()).detach();
        keys
    }

    /// Them now.
    pub fn now(&self) -> Arc<Keyring> {
        Arc::clone(&self.0.read())
    }
}

/// Looks at the file until nobody has the keys any more. The first look always reads it, for it may have
/// changed since the server did.
async fn watch(keys: Weak<Keys>, file: PathBuf, env: EnvRef) {
    let mut seen: Option<Option<Stamp>> = None;
    loop {
        env.sleep(PAUSE).await;
        if keys.strong_count() == 0 {
            return;
        }
        let (path, before) = (file.clone(), seen);
        let Ok(Some((stamp, read))) = env.blocking(move || read_if_changed(&path, before)).await else {
            continue;
        };
        let (Some(keys), is_first) = (keys.upgrade(), seen.is_none()) else { return };
        seen = Some(stamp);
        match read {
            Ok(keyring) => {
                let count = keyring.keys.len();
                *keys.0.write() = Arc::new(keyring);
                if !is_first {
                    tracing::info!(target: "headwater::server", keys = count, "the keys file has changed");
                }
            }
            Err(error) => {
                tracing::error!(target: "headwater::server", %error, "the keys stay as they were");
            }
        }
    }
}

/// What is in the file, unless it is as it was; none is no file.
fn read_if_changed(
    file: &Path,
    before: Option<Option<Stamp>>,
) -> Option<(Option<Stamp>, Result<Keyring, KeysError>)> {
    // Before the file is read: what changes in between is another change.
    let stamp = fs::metadata(file).ok().map(|file| Stamp {
        file: file.ino(),
        bytes: file.size(),
        changed: (file.ctime(), file.ctime_nsec()),
    });
    if before == Some(stamp) {
        return None;
    }
    Some((stamp, keys_file::list(file)))
}
