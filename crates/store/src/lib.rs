//! Object storage as Headwater needs it, and [`env::Env`].
//!
//! Owns: put-once with lost-answer resolution, the versioned register, retry budgets, request metering, the
//! local backend with fsync, the conformance suite a backend must pass, and `Env`. Does not own: what is
//! stored (`headwater-format`), who may write it (the fence is the engine's; the register gives it what it
//! needs). Called by `engine`, `lance`, `sim` and `headwater`.

pub mod conformance;
mod durable_read;
pub mod env;
pub mod error;
pub mod local;
pub mod meter;
mod metered;
mod put_once;
pub mod register;
pub mod retry;
mod store;

pub use durable_read::DurableRead;
pub use error::StoreError;
pub use meter::{Counts, Kind, Meter, MeterSnapshot, Request};
pub use metered::metered;
pub use put_once::PutOnce;
pub use register::{Record, Register, RegisterWrite};
pub use retry::RetryPolicy;
pub use store::{ObjectInfo, Store};
