//! The server, as this program runs it in a process of its own: a hidden command.
//!
//! Owns: which storage and limits it has, one key, and that it ends with its input. It logs each request, as
//! a server does by default, to where nothing is kept. Does not own: the server (`headwater-server`), who
//! starts it (`process`).

use std::fs::OpenOptions as FileOptions;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use anyhow::{Result, anyhow};
use clap::Args;
use futures::{StreamExt, stream};
use headwater::{EnvRef, TokioEnv, WalCompression};
use headwater_server::auth::{ApiKey, Auth, Databases, Keyring, Keys, StoredKey};
use headwater_server::config::Config;
use headwater_server::serve::Server;
use headwater_server::{Service, app, logs};
use tokio::sync::oneshot;

use crate::console;
use crate::engine::{self, Limits};
use crate::place::Place;

/// Rows of a memtable, and puts into it, that no run reaches.
const PLENTY: usize = 100_000_000;

/// Storage and limits of a server.
#[derive(Clone, Debug, Args)]
pub struct Child {
    /// Where its directory is made, on local disk.
    #[arg(long)]
    pub dir: PathBuf,
    /// Whether it syncs what it acknowledges.
    #[arg(long)]
    pub fsync: bool,
    /// Keep everything in memory instead, where each request takes so many milliseconds.
    #[arg(long)]
    pub slow_ms: Option<u64>,
    /// Whether memtables grow without being frozen.
    #[arg(long)]
    pub raised: bool,
}

/// Tells address and key in a line of stdout, and serves until stdin ends.
pub async fn serve(child: Child) -> Result<()> {
    let config = Config { port: 0, ..Config::default() };
    // A file, so that writing a line is the system call it is for any server.
    let nowhere = Arc::new(FileOptions::new().write(true).open("/dev/null")?);
    tracing::subscriber::set_global_default(logs::subscriber(&config.log, None, false, nowhere)?)?;
    let place = match child.slow_ms {
        Some(ms) => Place::bucket(ms),
        None => Place::disk(&child.dir, child.fsync)?,
    };
    place.slow(true);
    let limits = if child.raised { Limits::raised(PLENTY, PLENTY) } else { Limits::Defaults };
    let options = engine::our_options(&place, limits, 0, WalCompression::Auto);
    let env: EnvRef = Arc::new(TokioEnv::new());
    let service = Service::new(&place.root(), options, Arc::clone(&env)).await?;
    let key = ApiKey::generate().map_err(|error| anyhow!("no key could be made: {error}"))?;
    let stored =
        StoredKey { name: "bench".to_owned(), sha256: key.hash(), databases: Databases::All, write: true };
    let auth = Auth::Keys(Keys::fixed(Keyring { keys: vec![stored] }));
    let server = Server::bind(&config, auth, app::of(service), env).await?;
    console::say(&format!("{} {}", server.url(), key.reveal()));
    server.run(stream::once(input_ended()).boxed()).await?;
    Ok(())
}

/// Whoever started this is gone, or wants it to end.
async fn input_ended() {
    let (sender, ended) = oneshot::channel();
    thread::spawn(move || {
        // What is read means nothing, and an input that cannot be read has ended.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = sender.send(());
    });
    // The sender is never dropped unsent.
    let _ = ended.await;
}
