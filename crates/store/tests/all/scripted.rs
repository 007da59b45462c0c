//! A backend that answers by a script: the n-th write or read of a path gets the n-th planned fault.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use headwater_store::env::SeededEnv;
use headwater_store::error::NotSynced;
use headwater_store::{DurableRead, RetryPolicy, Store};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

/// What happens to one write. Once the script is used up, writes go through.
#[derive(Clone, Copy, Debug)]
pub enum OnPut {
    Through,
    /// An ambiguous error; nothing was done.
    ErrorBefore,
    /// Done, and an ambiguous error.
    AnswerLost,
    /// Done by the backend's first attempt, whose own retry then meets the object.
    AnswerLostThenExists,
    /// "Already exists" although there is nothing.
    FalselyExists,
    /// Never answered; nothing was done.
    Hangs,
    /// Done and visible, but not on stable storage yet; never answered.
    AppliedAndHangs,
    /// Done and visible, but not on stable storage.
    NotSynced,
    Denied,
    /// Done, then the backend's retry was denied.
    AppliedThenDenied,
    DiskFull,
    ReadOnly,
    NotSupported,
    NoBucket,
}

/// What happens to one read.
#[derive(Clone, Copy, Debug)]
pub enum OnGet {
    Through,
    Error,
    Denied,
    Short,
    Empty,
    /// One bit of the body changed, at this byte.
    Flipped(usize),
    Hangs,
    /// The object cannot be synced.
    NotSynced,
}

#[derive(Debug, Default)]
struct Scripts {
    puts: BTreeMap<Path, VecDeque<OnPut>>,
    gets: BTreeMap<Path, VecDeque<OnGet>>,
    lists: VecDeque<Vec<&'static str>>,
    /// Objects a power cut would take away.
    unsynced: BTreeSet<Path>,
}

/// The backend. Clones share script and objects.
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    pub memory: Arc<InMemory>,
    scripts: Arc<Mutex<Scripts>>,
}

/// The retry policy of scripted stores: four attempts within 10 s.
pub const FOUR: RetryPolicy = RetryPolicy {
    max_attempts: 4,
    base: std::time::Duration::from_millis(10),
    cap: std::time::Duration::from_millis(100),
    budget: std::time::Duration::from_secs(10),
};

impl Scripted {
    /// A store over it, with root `t`, on `env`.
    pub fn store(&self, env: &SeededEnv) -> Store {
        Store::new(Arc::new(self.clone()), Path::from("t"), Arc::new(env.clone()), FOUR)
    }

    pub fn on_put(&self, path: &str, faults: impl IntoIterator<Item = OnPut>) {
        self.scripts.lock().puts.entry(at(path)).or_default().extend(faults);
    }

    pub fn on_get(&self, path: &str, faults: impl IntoIterator<Item = OnGet>) {
        self.scripts.lock().gets.entry(at(path)).or_default().extend(faults);
    }

    /// The next listing leaves out objects whose path ends in one of `suffixes`.
    pub fn stale_list(&self, suffixes: Vec<&'static str>) {
        self.scripts.lock().lists.push_back(suffixes);
    }

    /// What is really there.
    pub fn there(&self, path: &str) -> Option<Bytes> {
        futures::executor::block_on(async { self.memory.get(&at(path)).await.ok()?.bytes().await.ok() })
    }

    /// Whether what is there would survive a power cut.
    pub fn is_synced(&self, path: &str) -> bool {
        !self.scripts.lock().unsynced.contains(&at(path))
    }

    /// Puts an object behind the script's back.
    pub fn place(&self, path: &str, bytes: impl Into<Bytes>) {
        let bytes: Bytes = bytes.into();
        futures::executor::block_on(self.memory.put(&at(path), bytes.into())).unwrap();
    }

    pub fn remove(&self, path: &str) {
        futures::executor::block_on(self.memory.delete(&at(path))).unwrap();
    }
}

fn at(path: &str) -> Path {
    Path::from(format!("t/{path}"))
}

fn ambiguous() -> Error {
    Error::Generic { store: "scripted", source: "connection reset, already exists, permission denied".into() }
}

fn exists() -> Error {
    Error::AlreadyExists { path: "somewhere".to_owned(), source: "said the script".into() }
}

fn denied() -> Error {
    Error::PermissionDenied { path: "somewhere".to_owned(), source: "said the script".into() }
}

fn not_synced() -> Error {
    let source = io::Error::other("said the script");
    Error::Generic { store: "scripted", source: Box::new(NotSynced { path: "/d".to_owned(), source }) }
}

fn io_error(kind: io::ErrorKind) -> Error {
    Error::Generic { store: "scripted", source: Box::new(io::Error::from(kind)) }
}

impl fmt::Display for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

#[async_trait]
impl ObjectStore for Scripted {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let planned = self.scripts.lock().puts.get_mut(location).and_then(VecDeque::pop_front);
        let apply = || async { drop(self.memory.put_opts(location, payload.clone(), options.clone()).await) };
        match planned.unwrap_or(OnPut::Through) {
            OnPut::Through => self.memory.put_opts(location, payload, options).await,
            OnPut::ErrorBefore => Err(ambiguous()),
            OnPut::AnswerLost => {
                apply().await;
                Err(ambiguous())
            }
            OnPut::AnswerLostThenExists => {
                apply().await;
                Err(exists())
            }
            OnPut::FalselyExists => Err(exists()),
            OnPut::Hangs => futures::future::pending().await,
            OnPut::AppliedAndHangs => {
                apply().await;
                self.scripts.lock().unsynced.insert(location.clone());
                futures::future::pending().await
            }
            OnPut::NotSynced => {
                apply().await;
                Err(not_synced())
            }
            OnPut::Denied => Err(denied()),
            OnPut::AppliedThenDenied => {
                apply().await;
                Err(denied())
            }
            OnPut::DiskFull => Err(io_error(io::ErrorKind::StorageFull)),
            OnPut::ReadOnly => Err(io_error(io::ErrorKind::ReadOnlyFilesystem)),
            OnPut::NotSupported => Err(Error::NotSupported { source: "said the script".into() }),
            OnPut::NoBucket => {
                Err(Error::NotFound { path: "bucket".to_owned(), source: "said the script".into() })
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.memory.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let planned = self.scripts.lock().gets.get_mut(location).and_then(VecDeque::pop_front);
        let planned = planned.unwrap_or(OnGet::Through);
        match planned {
            OnGet::Error => return Err(ambiguous()),
            OnGet::Denied => return Err(denied()),
            OnGet::Hangs => return futures::future::pending().await,
            OnGet::NotSynced => return Err(not_synced()),
            _ => {}
        }
        if DurableRead::is_asked(&options) {
            self.scripts.lock().unsynced.remove(location);
        }
        let answer = self.memory.get_opts(location, options).await?;
        let (meta, range) = (answer.meta.clone(), answer.range.clone());
        let mut body = answer.bytes().await?.to_vec();
        let mut meta = meta;
        match planned {
            OnGet::Short => body.truncate(body.len() / 2),
            OnGet::Empty => {
                body.clear();
                meta.size = 0;
            }
            OnGet::Flipped(byte) => body[byte] ^= 1,
            _ => {}
        }
        let payload = GetResultPayload::Stream(futures::stream::iter([Ok(Bytes::from(body))]).boxed());
        Ok(GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.memory.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let hidden = self.scripts.lock().lists.pop_front().unwrap_or_default();
        let shown = self.memory.list(prefix).filter(move |entry| {
            let hide = entry
                .as_ref()
                .is_ok_and(|meta| hidden.iter().any(|end| meta.location.as_ref().ends_with(end)));
            futures::future::ready(!hide)
        });
        shown.boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.memory.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.memory.copy_opts(from, to, options).await
    }
}
