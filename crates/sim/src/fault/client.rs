//! One process's view of the service: an [`ObjectStore`] whose every request is numbered and may fail.

use std::task::Poll;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use headwater_store::DurableRead;
use headwater_store::env::{Env, SeededProcess};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use super::kind::FaultKind;
use super::objects::{Object, Objects};
use super::request::{ObjectKind, Op, Request};
use super::service::FaultStore;

/// Objects a page of a paged listing holds.
const PAGE: usize = 3;
/// A stale listing may miss objects younger than this.
const STALE_AGE: Duration = Duration::from_secs(5);

type Result<T> = object_store::Result<T>;

#[derive(Clone, Debug)]
pub(super) struct Client {
    store: FaultStore,
    process: SeededProcess,
    faulty: bool,
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FaultStore({})", self.process.name())
    }
}

/// What storage said, as an error source.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the request failed")]
    Failed,
    #[error("the connection was lost before the answer arrived")]
    AnswerLost,
    #[error("slow down; retry after {after_ms} ms")]
    Throttled { after_ms: u64 },
    #[error("an object is in the way")]
    Exists,
    #[error("two conditional requests collided")]
    Collided,
    #[error("no such object")]
    Missing,
    #[error("the range is outside the object")]
    Range,
}

fn generic(refusal: Refusal) -> object_store::Error {
    object_store::Error::Generic { store: "FaultStore", source: Box::new(refusal) }
}

fn full() -> object_store::Error {
    let source = Box::new(std::io::Error::from(std::io::ErrorKind::StorageFull));
    object_store::Error::Generic { store: "FaultStore", source }
}

fn exists(path: &str, refusal: Refusal) -> object_store::Error {
    object_store::Error::AlreadyExists { path: path.to_owned(), source: Box::new(refusal) }
}

fn missing(path: &str) -> object_store::Error {
    object_store::Error::NotFound { path: path.to_owned(), source: Box::new(Refusal::Missing) }
}

/// Ready at the second poll.
async fn yield_now() {
    let mut polled = false;
    futures::future::poll_fn(|cx| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Client {
    pub(super) fn new(store: FaultStore, process: SeededProcess, faulty: bool) -> Self {
        Self { store, process, faulty }
    }

    fn chance(&self, below: u64) -> u64 {
        self.store.shared.machine.random() % below.max(1)
    }

    /// A dead process never learns anything.
    async fn alive(&self) {
        if !self.process.is_alive() {
            futures::future::pending::<()>().await;
        }
    }

    /// A way of the network: about a millisecond, now and then much longer.
    async fn travel(&self) {
        let micros = match self.chance(50) {
            0 => 20_000 + self.chance(80_000),
            _ => 100 + self.chance(2_000),
        };
        self.process.sleep(Duration::from_micros(micros)).await;
        self.alive().await;
    }

    async fn sleep_millis(&self, from: u64, spread: u64) {
        let millis = from + self.chance(spread);
        self.process.sleep(Duration::from_millis(millis)).await;
        self.alive().await;
    }

    /// Numbers a request, lets it travel, and applies the faults that come before it is applied.
    async fn send(&self, op: Op, path: &str) -> (Request, Option<FaultKind>, Result<()>) {
        self.alive().await;
        let (request, fault) = self.store.arrive(self.process.name(), op, path, self.faulty);
        self.travel().await;
        self.store.pass_gates(&request).await;
        self.alive().await;
        let refused = self.before(fault).await;
        let refused =
            if op.is_write() && refused.is_ok() && self.store.is_full() { Err(full()) } else { refused };
        (request, fault, refused)
    }

    async fn before(&self, fault: Option<FaultKind>) -> Result<()> {
        let Some(kind) = fault else { return Ok(()) };
        match kind {
            FaultKind::ErrorBefore => {
                self.store.count(kind);
                self.travel().await;
                Err(generic(Refusal::Failed))
            }
            FaultKind::Throttled => {
                self.store.count(kind);
                let after_ms = 20 + self.chance(200);
                self.travel().await;
                Err(generic(Refusal::Throttled { after_ms }))
            }
            FaultKind::Slow => {
                self.store.count(kind);
                self.sleep_millis(500, 8_000).await;
                Ok(())
            }
            FaultKind::PausedBefore => {
                self.stall(kind).await;
                Ok(())
            }
            FaultKind::CrashBefore => {
                self.crash(kind).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The faults that come after the request was applied.
    async fn after(&self, fault: Option<FaultKind>) -> Result<()> {
        match fault {
            Some(kind @ FaultKind::AnswerLost) => {
                self.store.count(kind);
                self.sleep_millis(10, 2_000).await;
                return Err(generic(Refusal::AnswerLost));
            }
            Some(kind @ FaultKind::PausedAfter) => self.stall(kind).await,
            Some(kind @ FaultKind::CrashAfter) => self.crash(kind).await,
            _ => {}
        }
        self.travel().await;
        Ok(())
    }

    async fn stall(&self, kind: FaultKind) {
        self.store.count(kind);
        // From a moment to far beyond any grace time.
        let millis = 1_u64 << (3 + self.chance(14));
        self.store.stall(&self.process, Duration::from_millis(millis));
        yield_now().await;
        self.alive().await;
    }

    async fn crash(&self, kind: FaultKind) {
        self.store.count(kind);
        self.process.crash();
        futures::future::pending::<()>().await;
    }

    async fn put(&self, path: &str, bytes: Bytes, create: bool) -> Result<PutResult> {
        let (request, fault, refused) = self.send(Op::Put { create }, path).await;
        refused?;
        match fault {
            Some(FaultKind::LateApply) => {
                let delay = Duration::from_millis(1 << self.chance(15));
                self.store.apply_late(&request, bytes, create, delay);
                self.sleep_millis(10, 2_000).await;
                return Err(generic(Refusal::AnswerLost));
            }
            Some(kind @ FaultKind::SpuriousPrecondition) => {
                self.store.count(kind);
                self.travel().await;
                return Err(exists(path, Refusal::Collided));
            }
            _ => {}
        }
        let written = self.store.apply_put(&self.process, path, bytes, create, self.store.era());
        let answer = if !written {
            self.travel().await;
            Err(exists(path, Refusal::Exists))
        } else if let Some(kind @ FaultKind::OwnPrecondition) = fault {
            self.store.count(kind);
            self.travel().await;
            Err(exists(path, Refusal::Exists))
        } else {
            self.after(fault).await
        };
        // Whatever is answered about an object that is there, it is there for good.
        self.store.sync(path);
        answer?;
        Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
    }

    async fn get(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let path = location.as_ref();
        let op = if options.head { Op::Head } else { Op::Get };
        let (_, fault, refused) = self.send(op, path).await;
        refused?;
        let found = self.store.read(|objects| {
            objects.get(path).map(|object| (object.clone(), self.damage(objects, path, object, fault)))
        });
        self.after(fault).await?;
        let (object, body) = found.ok_or_else(|| missing(path))?;
        if DurableRead::is_asked(&options) {
            self.store.sync(path);
        }
        let mut meta = self.meta(location.clone(), &object);
        options.check_preconditions(&meta)?;
        let body = match body {
            Body::Whole(bytes) => bytes,
            // The answer is of the damaged object, so it says the damaged size.
            Body::Damaged(bytes, kind) => {
                self.store.count(kind);
                meta.size = bytes.len() as u64;
                bytes
            }
            Body::Short(bytes) => {
                self.store.count(FaultKind::ShortBody);
                return Ok(result(meta.size, meta, bytes));
            }
        };
        match options.range {
            None => Ok(result(meta.size, meta, body)),
            Some(range) => {
                let range = range.as_range(body.len() as u64).map_err(|_| generic(Refusal::Range))?;
                let (start, end) = (range.start as usize, range.end as usize);
                let slice = body.slice(start..end);
                Ok(GetResult { range, ..result(meta.size, meta, slice) })
            }
        }
    }

    /// What a read of `object` returns under `fault`.
    fn damage(&self, objects: &Objects, path: &str, object: &Object, fault: Option<FaultKind>) -> Body {
        let whole = object.bytes.clone();
        match fault {
            Some(FaultKind::ShortBody) if !whole.is_empty() => {
                let keep = self.chance(whole.len() as u64) as usize;
                Body::Short(whole.slice(..keep))
            }
            Some(kind @ FaultKind::EmptyObject) if !whole.is_empty() => Body::Damaged(Bytes::new(), kind),
            Some(kind @ FaultKind::BitFlip) if !whole.is_empty() => {
                Body::Damaged(self.flip(ObjectKind::of(path), &whole), kind)
            }
            Some(kind @ FaultKind::WrongObject) => {
                let own = ObjectKind::of(path);
                let others: Vec<&Object> = objects
                    .under("")
                    .filter(|(path, _)| ObjectKind::of(path) != own)
                    .map(|(_, object)| object)
                    .collect();
                match others.get(self.chance(others.len() as u64) as usize) {
                    Some(other) => Body::Damaged(other.bytes.clone(), kind),
                    None => Body::Whole(whole),
                }
            }
            _ => Body::Whole(whole),
        }
    }

    /// One bit off. The open format has no checksums in WAL entries and manifests, so there the flipped bit
    /// is one of the framing, which decoding must notice; model files are checked whole.
    fn flip(&self, kind: ObjectKind, whole: &Bytes) -> Bytes {
        let mut bytes = whole.to_vec();
        let reach = match kind {
            ObjectKind::Wal => 4,
            ObjectKind::Manifest => 1,
            _ => bytes.len() as u64,
        };
        let (at, bit) = (self.chance(reach) as usize, self.chance(8));
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << bit;
        }
        bytes.into()
    }

    fn meta(&self, location: Path, object: &Object) -> ObjectMeta {
        let age = self.process.now().saturating_sub(object.modified);
        let modified = self.process.wall_clock().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
        ObjectMeta {
            location,
            last_modified: modified.into(),
            size: object.bytes.len() as u64,
            e_tag: Some(object.etag.to_string()),
            version: None,
        }
    }

    /// The objects below `prefix`, as one page after the other.
    async fn list_all(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        let (_, fault, refused) = self.send(Op::List, prefix).await;
        refused?;
        let below = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let mut found: Vec<ObjectMeta> = Vec::new();
        let mut last = below.clone();
        loop {
            let page = self.page(&below, &last, fault)?;
            let Some(end) = page.last() else { break };
            end.location.as_ref().clone_into(&mut last);
            found.extend(page);
            if fault == Some(FaultKind::PagedListing) {
                self.travel().await;
            }
        }
        if fault == Some(FaultKind::PagedListing) && found.len() > PAGE {
            self.store.count(FaultKind::PagedListing);
        }
        if fault == Some(FaultKind::StaleListing) {
            self.make_stale(&mut found);
        }
        self.after(fault).await?;
        Ok(found)
    }

    fn page(&self, below: &str, last: &str, fault: Option<FaultKind>) -> Result<Vec<ObjectMeta>> {
        let size = if fault == Some(FaultKind::PagedListing) { PAGE } else { usize::MAX };
        self.store.read(|objects| {
            objects
                .after(below, last)
                .take(size)
                .map(|(path, object)| Ok(self.meta(Path::parse(path)?, object)))
                .collect()
        })
    }

    /// Leaves out the newest objects, from a random one on, if they are young.
    fn make_stale(&self, found: &mut Vec<ObjectMeta>) {
        let young = |path: &str| {
            self.store.read(|objects| {
                objects.get(path).is_some_and(|object| object.modified + STALE_AGE > self.process.now())
            })
        };
        let etag = |meta: &ObjectMeta| meta.e_tag.as_deref().and_then(|tag| tag.parse::<u64>().ok());
        let mut tags: Vec<u64> =
            found.iter().filter(|meta| young(meta.location.as_ref())).filter_map(etag).collect();
        tags.sort_unstable();
        let Some(from) = tags.get(self.chance(tags.len() as u64) as usize).copied() else { return };
        found.retain(|meta| etag(meta).is_none_or(|tag| tag < from));
        self.store.count(FaultKind::StaleListing);
    }

    async fn list_level(&self, prefix: &str) -> Result<ListResult> {
        let below = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let mut objects = Vec::new();
        let mut common_prefixes: Vec<Path> = Vec::new();
        for meta in self.list_all(prefix).await? {
            let rest = meta.location.as_ref().strip_prefix(&below).unwrap_or_default().to_owned();
            match rest.split_once('/') {
                None => objects.push(meta),
                Some((child, _)) => {
                    let child = Path::parse(format!("{below}{child}"))?;
                    if common_prefixes.last() != Some(&child) {
                        common_prefixes.push(child);
                    }
                }
            }
        }
        Ok(ListResult { common_prefixes, objects, extensions: Default::default() })
    }

    async fn delete_one(&self, location: Path) -> Result<Path> {
        let (_, fault, refused) = self.send(Op::Delete, location.as_ref()).await;
        refused?;
        self.store.apply_delete(location.as_ref());
        self.after(fault).await?;
        Ok(location)
    }
}

enum Body {
    Whole(Bytes),
    /// Fewer bytes than the answer promises.
    Short(Bytes),
    Damaged(Bytes, FaultKind),
}

fn result(size: u64, meta: ObjectMeta, body: Bytes) -> GetResult {
    // Two chunks, as bodies come.
    let half = body.len() / 2;
    let chunks = [body.slice(..half), body.slice(half..)];
    GetResult {
        payload: GetResultPayload::Stream(stream::iter(chunks.map(Ok)).boxed()),
        meta,
        range: 0..size,
        attributes: Default::default(),
        extensions: Default::default(),
    }
}

#[async_trait]
impl ObjectStore for Client {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let create = match options.mode {
            PutMode::Create => true,
            PutMode::Overwrite => false,
            PutMode::Update(_) => return Err(not_implemented("put with a version")),
        };
        self.put(location.as_ref(), payload.into(), create).await
    }

    async fn put_multipart_opts(
        &self,
        _location: &Path,
        _options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(not_implemented("multipart upload"))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.get(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let client = self.clone();
        locations
            .then(move |location| {
                let client = client.clone();
                async move { client.delete_one(location?).await }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (client, prefix) =
            (self.clone(), prefix.map_or_else(String::new, |path| path.as_ref().to_owned()));
        stream::once(async move {
            match client.list_all(&prefix).await {
                Ok(found) => found.into_iter().map(Ok).collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            }
        })
        .flat_map(stream::iter)
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.list_level(prefix.map_or("", AsRef::as_ref)).await
    }

    async fn copy_opts(&self, _from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        Err(not_implemented("copy"))
    }
}

/// Nothing in the engine asks for it.
fn not_implemented(operation: &str) -> object_store::Error {
    object_store::Error::NotImplemented {
        operation: operation.to_owned(),
        implementer: "FaultStore".to_owned(),
    }
}
