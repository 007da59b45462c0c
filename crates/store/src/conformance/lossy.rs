//! A backend whose answers get lost, whose reads come back damaged, but whose objects are right.
//!
//! Owns: [`Lossy`]. Faults are drawn from [`Env`]: errors before anything was done, **applied but the answer
//! lost**, applied after the caller was told of an error; reads that fail, come back short, or with one byte
//! changed. Used by the suite and by tests; the simulator has a richer one with power cuts and a log.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::env::EnvRef;

const NAME: &str = "Lossy";
/// A late write is applied after at most this.
const LATEST: u64 = 2_000;

/// Faults injected so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Writes that failed before anything was done.
    pub before: u64,
    /// Writes that were done although an error was reported.
    pub answer_lost: u64,
    /// Writes that were done some time after an error was reported.
    pub late: u64,
    /// Reads that failed, were short, or damaged.
    pub reads: u64,
}

impl Injected {
    /// All of them.
    pub fn total(self) -> u64 {
        self.before + self.answer_lost + self.late + self.reads
    }
}

#[derive(Debug, Default)]
struct Counters {
    before: AtomicU64,
    answer_lost: AtomicU64,
    late: AtomicU64,
    reads: AtomicU64,
}

/// The wrapper. Its faults are frequent: about half the writes and a third of the reads.
#[derive(Clone, Debug)]
pub struct Lossy {
    inner: Arc<dyn ObjectStore>,
    env: EnvRef,
    injected: Arc<Counters>,
}

/// What happens to one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteFault {
    None,
    Before,
    AnswerLost,
    Late,
}

/// What happens to one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadFault {
    None,
    Error,
    Short,
    Damaged,
}

fn write_fault(random: u64) -> WriteFault {
    match random % 8 {
        0 => WriteFault::Before,
        1 | 2 => WriteFault::AnswerLost,
        3 => WriteFault::Late,
        _ => WriteFault::None,
    }
}

fn read_fault(random: u64) -> ReadFault {
    match random % 32 {
        0..5 => ReadFault::Error,
        5..9 => ReadFault::Short,
        9 => ReadFault::Damaged,
        _ => ReadFault::None,
    }
}

/// Not an error of any kind that decides something.
#[derive(Debug, thiserror::Error)]
#[error("injected fault")]
struct Planned;

fn planned() -> Error {
    Error::Generic { store: NAME, source: Box::new(Planned) }
}

impl Lossy {
    /// A lossy view of `inner`, with chance and background tasks from `env`.
    pub fn new(inner: Arc<dyn ObjectStore>, env: EnvRef) -> Self {
        Self { inner, env, injected: Arc::default() }
    }

    /// Faults injected so far, by this view and its clones.
    pub fn injected(&self) -> Injected {
        let Counters { before, answer_lost, late, reads } = self.injected.as_ref();
        Injected {
            before: before.load(Ordering::Relaxed),
            answer_lost: answer_lost.load(Ordering::Relaxed),
            late: late.load(Ordering::Relaxed),
            reads: reads.load(Ordering::Relaxed),
        }
    }

    /// Applies a write later on, whatever the caller was told.
    fn apply_late(&self, location: Path, payload: PutPayload, options: PutOptions) {
        let (inner, env) = (Arc::clone(&self.inner), Arc::clone(&self.env));
        let delay = Duration::from_micros(self.env.random() % LATEST);
        let write = async move {
            env.sleep(delay).await;
            if let Err(error) = inner.put_opts(&location, payload, options).await {
                tracing::trace!(%error, "a late write was refused");
            }
        };
        self.env.spawn("late write", write.boxed()).detach();
    }

    /// A read whose body is short or has one byte changed, while its announced size stays.
    async fn damage(&self, answer: GetResult, fault: ReadFault) -> Result<GetResult> {
        let GetResult { meta, range, attributes, extensions, .. } = answer_parts(&answer);
        let mut body = answer.bytes().await?.to_vec();
        let random = self.env.random();
        if !body.is_empty() {
            let at = usize::try_from(random % body.len() as u64).unwrap_or(0);
            match fault {
                ReadFault::Short => body.truncate(at),
                _ => body.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= (random >> 56) as u8 | 1),
            }
        }
        let stream = futures::stream::iter([Ok(Bytes::from(body))]).boxed();
        Ok(GetResult { payload: GetResultPayload::Stream(stream), meta, range, attributes, extensions })
    }
}

/// Everything of an answer but its body.
fn answer_parts(answer: &GetResult) -> GetResult {
    GetResult {
        payload: GetResultPayload::Stream(futures::stream::empty().boxed()),
        meta: answer.meta.clone(),
        range: answer.range.clone(),
        attributes: answer.attributes.clone(),
        extensions: answer.extensions.clone(),
    }
}

impl fmt::Display for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME}({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Lossy {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        match write_fault(self.env.random()) {
            WriteFault::None => return self.inner.put_opts(location, payload, options).await,
            WriteFault::Before => {
                self.injected.before.fetch_add(1, Ordering::Relaxed);
            }
            WriteFault::AnswerLost => {
                self.injected.answer_lost.fetch_add(1, Ordering::Relaxed);
                // Whatever the answer was, nobody hears it.
                drop(self.inner.put_opts(location, payload, options).await);
            }
            WriteFault::Late => {
                self.injected.late.fetch_add(1, Ordering::Relaxed);
                self.apply_late(location.clone(), payload, options);
            }
        }
        Err(planned())
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = read_fault(self.env.random());
        if fault != ReadFault::None {
            self.injected.reads.fetch_add(1, Ordering::Relaxed);
        }
        if fault == ReadFault::Error {
            return Err(planned());
        }
        let head = options.head;
        let answer = self.inner.get_opts(location, options).await?;
        if head || fault == ReadFault::None { Ok(answer) } else { self.damage(answer, fault).await }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
