//! The server's process, from outside.
//!
//! Owns: [`Process`]: starting it, its address and key, the memory it has resident, ending it. Does not own:
//! what it serves (`child`), who talks to it (`client`).

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child as Started, ChildStdin, Command};
use tokio::time::timeout;

use crate::machine::{self, Resident};

/// The hidden command of this program that is the server.
pub const COMMAND: &str = "serve-child";
/// Milliseconds a request of the slow store takes.
pub const SLOW_MS: u64 = 20;
/// How long it may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a server keeps its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Local disk, nothing synced.
    Disk,
    /// Local disk, synced before anything is acknowledged.
    Synced,
    /// In memory, with [`SLOW_MS`] for each request.
    Slow,
}

impl Store {
    /// How tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "local disk, no fsync",
            Self::Synced => "local disk, fsync",
            Self::Slow => "20 ms store",
        }
    }
}

/// See the module. It ends with this value, in order with [`Process::stop`].
pub struct Process {
    started: Started,
    stdin: ChildStdin,
    url: String,
    key: String,
}

impl Process {
    /// Starts a server with its tables below `directory`; `raised` as in `child`.
    pub async fn start(directory: &Path, store: Store, raised: bool) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(COMMAND).arg("--dir").arg(directory);
        match store {
            Store::Disk => {}
            Store::Synced => {
                command.arg("--fsync");
            }
            Store::Slow => {
                command.arg("--slow-ms").arg(SLOW_MS.to_string());
            }
        }
        if raised {
            command.arg("--raised");
        }
        // Not killed when this fails: it ends with its input, and takes its files away.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut started = command.spawn().context("the server could not be started")?;
        let (stdin, stdout) = (started.stdin.take(), started.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { bail!("the server has no pipes") };
        let mut lines = BufReader::new(stdout).lines();
        let line =
            timeout(PATIENCE, lines.next_line()).await.context("the server took too long to start")??;
        let line = line.context("the server ended before it told its address")?;
        let (url, key) = line.split_once(' ').context("the server told no key")?;
        Ok(Self { started, stdin, url: url.to_owned(), key: key.to_owned() })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A key for everything.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The memory it has resident.
    pub fn resident(&self) -> Result<Resident> {
        machine::resident_of(self.id()?).context("the memory of another process is read from /proc")
    }

    /// Lets [`Resident::peak_kib`] begin anew.
    pub fn forget_peak(&self) -> Result<()> {
        machine::forget_peak_of(self.id()?).context("the peak of another process is reset in /proc")
    }

    fn id(&self) -> Result<u32> {
        self.started.id().context("the server has ended")
    }

    /// Ends it in order.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.stdin);
        let ended = timeout(PATIENCE, self.started.wait()).await.context("the server does not end")??;
        ensure!(ended.success(), "the server ended with {ended}");
        Ok(())
    }
}
