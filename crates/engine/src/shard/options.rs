//! What may go with a write besides its rows.

use headwater_format::token::ClientToken;

use crate::snapshot::Unchanged;

/// See each field. By default: neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The client's name for this write: while the token window lasts, a write of the same name is answered
    /// with the first one's acknowledgement and not written again (P12), over restarts and flushes too.
    pub token: Option<ClientToken>,
    /// Write only if no key of it was written since.
    pub unchanged: Option<Unchanged>,
}
