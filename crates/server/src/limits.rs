//! How much at once: requests, memory of their bodies, time of their bodies.
//!
//! Owns: [`Limiter`], which lets a request in or refuses it early, with statuses upon which clients try
//! again: 429 for writes, 503 for reads and while the server goes down. Does not own: memory of memtables
//! (the engine's budget), the size of what a route reads whole.
//!
//! A body is counted with the bytes that came, up to what a route keeps of one at most; the count is given
//! back when the request is over. A body that grows waits for memory; a request that comes while there is
//! none is refused.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{StatusCode, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::future::{Either, select};
use futures::{StreamExt, stream};
use headwater::EnvRef;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::class::Class;
use crate::config::Limits;
use crate::error::{Again, ApiError};
use crate::held::Held;

/// Memory is counted in pieces of this many bytes.
const PIECE: u64 = 1024;

/// Lets requests in.
#[derive(Debug)]
pub struct Limiter {
    limits: Limits,
    env: EnvRef,
    writes: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    draining: AtomicBool,
}

/// What a limiter counts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Writes under way.
    pub writes: u64,
    /// Reads under way.
    pub reads: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
}

impl Limiter {
    /// Nothing let in yet.
    pub fn new(limits: Limits, env: EnvRef) -> Arc<Self> {
        Arc::new(Self {
            writes: Arc::new(Semaphore::new(limits.writes.min(Semaphore::MAX_PERMITS))),
            reads: Arc::new(Semaphore::new(limits.reads.min(Semaphore::MAX_PERMITS))),
            memory: Arc::new(Semaphore::new(pieces(limits.body_bytes) as usize)),
            draining: AtomicBool::new(false),
            limits,
            env,
        })
    }

    /// From here on everything is refused; what was let in goes on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Whether everything is refused.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// What is under way.
    pub fn usage(&self) -> Usage {
        let taken =
            |semaphore: &Semaphore, all: usize| all.saturating_sub(semaphore.available_permits()) as u64;
        let all_memory = pieces(self.limits.body_bytes) as usize;
        Usage {
            writes: taken(&self.writes, self.limits.writes),
            reads: taken(&self.reads, self.limits.reads),
            body_bytes: taken(&self.memory, all_memory) * PIECE,
        }
    }

    fn admit(&self, class: Class) -> Result<OwnedSemaphorePermit, ApiError> {
        if self.is_draining() {
            return Err(ApiError::unavailable(
                "the server is going down: send the request again",
                Again::Harmless,
            ));
        }
        let places = match class {
            Class::Write => &self.writes,
            Class::Read => &self.reads,
        };
        let place = Arc::clone(places).try_acquire_owned().map_err(|_| too_many(class))?;
        if self.memory.available_permits() == 0 {
            return Err(no_memory(class));
        }
        Ok(place)
    }
}

/// Lets a request in, or refuses it. A body that fails on the way is answered for here, whatever its route
/// made of the failure; but for a route that says that the request must not be sent again, for part of it was
/// done.
pub async fn admit(State(limiter): State<Arc<Limiter>>, request: Request, next: Next) -> Response {
    let class = Class::of(request.method(), request.uri().path());
    let place = match limiter.admit(class) {
        Ok(place) => place,
        Err(refusal) => return refusal.into_response(),
    };
    let is_h2 = request.version() == Version::HTTP_2;
    let (parts, body) = request.into_parts();
    let watched = Watched::new(body, Arc::clone(&limiter), class);
    let account = Arc::clone(&watched.account);
    let response = next.run(Request::from_parts(parts, watched.into_body())).await;
    let failed = account.lock().failed.take();
    match failed {
        Some(refusal) if response.status() != StatusCode::UNPROCESSABLE_ENTITY => {
            return refusal.into_response();
        }
        _ => {}
    }
    // A reply that is still being sent is under way too.
    response.map(|body| {
        let is_stream = body.size_hint().exact().is_none();
        let held = Held::new(body, place, Arc::clone(&limiter.env));
        Body::new(if is_h2 && is_stream { held.at_most(limiter.limits.reply_stall()) } else { held })
    })
}

/// A request body, watched.
struct Watched {
    pieces: BodyDataStream,
    limiter: Arc<Limiter>,
    class: Class,
    began: Duration,
    received: u64,
    account: Arc<Mutex<Account>>,
}

/// What came of a body; kept until its request is over, for a route may hold what it has read.
#[derive(Debug, Default)]
struct Account {
    memory: Option<OwnedSemaphorePermit>,
    failed: Option<ApiError>,
}

/// Why a body ended early, as its route sees it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BodyFailed(String);

impl Watched {
    fn new(body: Body, limiter: Arc<Limiter>, class: Class) -> Self {
        let began = limiter.env.now();
        let pieces = body.into_data_stream();
        Self { pieces, limiter, class, began, received: 0, account: Arc::default() }
    }

    fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(Some(self), |state| async {
            let mut watched = state?;
            match watched.next().await {
                Some(Ok(piece)) => Some((Ok(piece), Some(watched))),
                Some(Err(failed)) => Some((Err(failed), None)),
                None => None,
            }
        }))
    }

    async fn next(&mut self) -> Option<Result<Bytes, axum::BoxError>> {
        let limits = &self.limiter.limits;
        let env = Arc::clone(&self.limiter.env);
        let spent = env.now().saturating_sub(self.began);
        let left = limits.body_time().saturating_sub(spent);
        let wait = limits.body_pause().min(left);
        let is_over = left.is_zero();
        let too_slow = if left < limits.body_pause() {
            format!("the request body took longer than {} s", limits.body_seconds)
        } else {
            format!("the request body paused for {} s", limits.body_pause_seconds)
        };
        // The time may be over although pieces keep coming.
        let came = match select(self.pieces.next(), env.sleep(wait)).await {
            Either::Left((came, _)) if !is_over => Some(came),
            _ => None,
        };
        let piece = match came {
            Some(None) => return None,
            Some(Some(Err(error))) => return Some(Err(error.into())),
            Some(Some(Ok(piece))) => piece,
            None => return Some(Err(self.fail(ApiError::unavailable(too_slow, Again::Harmless)))),
        };
        match self.count(piece.len() as u64).await {
            Ok(()) => Some(Ok(piece)),
            Err(refusal) => Some(Err(self.fail(refusal))),
        }
    }

    /// Counts more bytes; waits for memory, not for long.
    async fn count(&mut self, more: u64) -> Result<(), ApiError> {
        let most = self.limiter.limits.body_bytes_each;
        let before = pieces(self.received.min(most));
        self.received = self.received.saturating_add(more);
        let needed = pieces(self.received.min(most)) - before;
        if needed == 0 {
            return Ok(());
        }
        let pause = self.limiter.env.sleep(self.limiter.limits.body_pause());
        let acquired = Box::pin(Arc::clone(&self.limiter.memory).acquire_many_owned(needed));
        match select(acquired, pause).await {
            Either::Left((Ok(more), _)) => {
                let mut account = self.account.lock();
                match &mut account.memory {
                    Some(memory) => memory.merge(more),
                    None => account.memory = Some(more),
                }
                Ok(())
            }
            _ => Err(no_memory(self.class)),
        }
    }

    fn fail(&self, refusal: ApiError) -> axum::BoxError {
        let failed = BodyFailed(refusal.text.clone());
        self.account.lock().failed = Some(refusal);
        failed.into()
    }
}

fn too_many(class: Class) -> ApiError {
    match class {
        // As LanceDB's own servers say it.
        Class::Write => ApiError::throttled("Too many concurrent writes"),
        Class::Read => ApiError::unavailable("Too many concurrent reads", Again::Harmless),
    }
}

fn no_memory(class: Class) -> ApiError {
    let text = "the memory for request bodies is used up: send the request again";
    match class {
        Class::Write => ApiError::throttled(text),
        Class::Read => ApiError::unavailable(text, Again::Harmless),
    }
}

/// Pieces that hold so many bytes; as many as a semaphore can count at most.
fn pieces(bytes: u64) -> u32 {
    let most = (Semaphore::MAX_PERMITS as u64).min(u64::from(u32::MAX));
    u32::try_from(bytes.div_ceil(PIECE).min(most)).unwrap_or(u32::MAX)
}
