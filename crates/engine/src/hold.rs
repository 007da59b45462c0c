//! Invariants that are checked in release builds too.
//!
//! Owns: the `hold!` macro and [`Violation`]. Does not own: what happens then; the
//! conductor poisons the shard with a typed internal error (P14: no panic reaches a caller).

/// An invariant did not hold. Converts into `ShardError::Internal`, which poisons the shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invariant {invariant} does not hold: {context}")]
pub struct Violation {
    /// Id of the invariant, as in `docs/invariants`.
    pub invariant: &'static str,
    /// The values seen.
    pub context: String,
}

impl Violation {
    /// A violation of `invariant`.
    pub fn new(invariant: &'static str, context: impl Into<String>) -> Self {
        Self { invariant, context: context.into() }
    }
}

/// `hold!(P4, condition, "context {}", values)`: returns `Err(Violation)`, converted by `From`, unless the
/// condition is true. The context is formatted only then.
macro_rules! hold {
    ($invariant:ident, $condition:expr, $($context:tt)+) => {
        if !$condition {
            return Err($crate::hold::Violation::new(stringify!($invariant), format!($($context)+)).into());
        }
    };
}

pub(crate) use hold;

#[cfg(test)]
mod tests {
    use super::Violation;

    fn checked(got: u32) -> Result<u32, Violation> {
        hold!(P8, got < 3, "cursor at {got}");
        Ok(got)
    }

    #[test]
    fn a_broken_invariant_is_a_typed_error_with_its_id_and_context() {
        assert_eq!(checked(2), Ok(2));
        let violation = Violation { invariant: "P8", context: "cursor at 3".into() };
        assert_eq!(violation.to_string(), "invariant P8 does not hold: cursor at 3");
        assert_eq!(checked(3), Err(violation));
    }
}
