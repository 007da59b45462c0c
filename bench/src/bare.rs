//! The ceilings: writing the same bytes with nothing in front.
//!
//! Owns: bare PUTs to the local disk, by hand and through `object_store`. Does not own: the bare Lance write
//! (W4 has it).

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, PutMode, PutOptions};

use crate::clients::ms;

/// Milliseconds of each of `count` writes of `bytes`: a temporary file, then renamed; with `fsync` the file
/// is synced before and the directory after. On one blocking thread, as cheap as it gets.
pub async fn puts(directory: &Path, bytes: &[u8], count: usize, fsync: bool) -> Result<Vec<f64>> {
    let (directory, bytes) = (directory.to_path_buf(), bytes.to_vec());
    let timed = tokio::task::spawn_blocking(move || {
        let mut latencies_ms = Vec::with_capacity(count);
        for number in 0..count {
            let started = Instant::now();
            put(&directory, number, &bytes, fsync)?;
            latencies_ms.push(ms(started.elapsed()));
        }
        Ok::<_, io::Error>(latencies_ms)
    });
    Ok(timed.await??)
}

fn put(directory: &Path, number: usize, bytes: &[u8], fsync: bool) -> io::Result<()> {
    let staged = directory.join(format!("{number}.tmp"));
    let mut file = File::create(&staged)?;
    file.write_all(bytes)?;
    if fsync {
        file.sync_all()?;
    }
    drop(file);
    fs::rename(&staged, directory.join(format!("{number}.arrow")))?;
    if fsync {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// The same through `object_store`'s local backend, put if absent: what an engine can hope for that does not
/// go around it.
pub async fn store_puts(directory: &Path, bytes: &[u8], count: usize, fsync: bool) -> Result<Vec<f64>> {
    let store = LocalFileSystem::new_with_prefix(directory)?.with_fsync(fsync);
    let bytes = Bytes::copy_from_slice(bytes);
    let timed = tokio::spawn(async move { timed_puts(&store, bytes, count).await });
    timed.await?
}

/// Milliseconds of each of `count` puts of `bytes` to `store`, one after the other.
pub async fn timed_puts(store: &dyn ObjectStore, bytes: Bytes, count: usize) -> Result<Vec<f64>> {
    let mut latencies_ms = Vec::with_capacity(count);
    for number in 0..count {
        let path = ObjectPath::from(format!("bare/{number}"));
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let started = Instant::now();
        store.put_opts(&path, bytes.clone().into(), options).await?;
        latencies_ms.push(ms(started.elapsed()));
    }
    Ok(latencies_ms)
}
