//! Whether a server can do its work now.
//!
//! Owns: [`Ready`]: no while it goes down, and no while storage does not answer a small question in time. An
//! answer is kept for a moment, and probes that come together wait for one question, so that however often
//! somebody asks, storage is asked seldom. Does not own: the question (`storage`), whether the process lives.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use headwater::EnvRef;
use tokio::sync::Mutex;

use crate::app::App;
use crate::error::{Again, ApiError};
use crate::limits::Limiter;

/// How long storage has for its answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(5);

/// Whether a server can do its work now.
pub struct Ready {
    app: Arc<dyn App>,
    limiter: Arc<Limiter>,
    env: EnvRef,
    last: Mutex<Option<Answer>>,
}

struct Answer {
    at: Duration,
    told: Result<(), ApiError>,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").finish_non_exhaustive()
    }
}

impl Ready {
    /// Of a server with this app, whose requests this limiter lets in.
    pub fn new(app: Arc<dyn App>, limiter: Arc<Limiter>, env: EnvRef) -> Arc<Self> {
        Arc::new(Self { app, limiter, env, last: Mutex::default() })
    }

    /// Whether it can.
    ///
    /// # Errors
    /// 503 that says why not: the server goes down, or of what kind the error of storage is.
    pub async fn check(&self) -> Result<(), ApiError> {
        if self.limiter.is_draining() {
            return Err(ApiError::unavailable("the server is going down", Again::Harmless));
        }
        let mut last = self.last.lock().await;
        let now = self.env.now();
        if let Some(answer) = last.as_ref().filter(|answer| now.saturating_sub(answer.at) < KEPT) {
            return answer.told.clone();
        }
        let told = self.ask().await;
        *last = Some(Answer { at: self.env.now(), told: told.clone() });
        told
    }

    async fn ask(&self) -> Result<(), ApiError> {
        match select(self.app.ready(), self.env.sleep(PATIENCE)).await {
            Either::Left((told, _)) => told,
            Either::Right(_) => {
                let text = format!("storage: no answer within {} s", PATIENCE.as_secs());
                tracing::warn!(target: "headwater::server", "{text}");
                Err(ApiError::unavailable(text, Again::Harmless))
            }
        }
    }
}
