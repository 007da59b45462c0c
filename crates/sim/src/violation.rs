//! A broken promise, as checkers report it.

use std::fmt;

/// Something that must never be, with the id of the invariant it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `P1` … `P18`, `L1` … `L6`, `B1` … `B4`.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
}

impl Violation {
    /// A violation of `invariant`.
    pub fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Self { invariant, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}
