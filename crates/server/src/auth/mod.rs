//! Who sends a request, and what of a server that reaches.
//!
//! - [`ApiKey`] (`key`): a key as its owner has it; exists once, in the moment it is made.
//! - [`Keyring`] (`keyring`): the keys a server knows, as hashes; finds whose a key is in constant time.
//! - `keys_file`: the keyring on disk. [`Keys`] (`watched`): the keys of a server that runs, as the file has
//!   them now. [`Identity`] (`identity`): what a key may do.
//! - [`Auth`] (`check`): looks at each request.
//!
//! Not owned: what is called a database of a request beyond the header that names it, and what a route needs.

mod check;
mod identity;
mod key;
mod keyring;
mod keys_file;
mod watched;

pub(crate) use check::METRICS_PATH;
pub use check::{Auth, DATABASE_HEADER, check};
pub use identity::{Databases, Identity};
pub use key::{ApiKey, KeyHash};
pub use keyring::{Keyring, StoredKey};
pub use keys_file::{KeysError, Opened, add, list, open, remove};
pub use watched::Keys;
