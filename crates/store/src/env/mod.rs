//! All chance comes from here: clock, timers, spawn, blocking work, ids, randomness.
//!
//! Owns: the [`Env`] trait (`api`), the production environment (`tokio_env`) and the seeded single-thread
//! executor that draws the next ready task (`seeded`). Engine code never names `tokio::{spawn, time, task}`.

mod api;
mod seeded;
mod tokio_env;

pub use api::{Env, EnvExt, EnvRef, Task, TaskFailed};
pub use seeded::*;
pub use tokio_env::TokioEnv;
pub(crate) use tokio_env::blocking_here;
