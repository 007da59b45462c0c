//! How errors of the backend are sorted: by variant and by I/O kind, never by text.
#![allow(clippy::unwrap_used)]

use object_store::Error as Said;

use super::*;

/// An I/O error two levels down, as the local backend reports it.
#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer {
    source: io::Error,
}

fn generic(kind: io::ErrorKind) -> Said {
    Said::Generic { store: "test", source: Box::new(Outer { source: io::Error::from(kind) }) }
}

fn other() -> Box<dyn Error + Send + Sync> {
    // Text that would mislead whoever looked at it.
    "AlreadyExists: No space left on device (os error 28), permission denied, 404 not found".into()
}

#[test]
fn io_errors_deep_in_the_chain_become_typed() {
    let of = |kind| Failure::of("some/path", 3, generic(kind));
    assert!(matches!(of(io::ErrorKind::StorageFull), Failure::Refused(StoreError::Full { .. })));
    assert!(matches!(of(io::ErrorKind::QuotaExceeded), Failure::Refused(StoreError::Full { .. })));
    assert!(matches!(of(io::ErrorKind::ReadOnlyFilesystem), Failure::Refused(StoreError::ReadOnly { .. })));
    assert!(matches!(
        of(io::ErrorKind::PermissionDenied),
        Failure::Refused(StoreError::PermissionDenied { .. })
    ));
    assert!(matches!(of(io::ErrorKind::NotADirectory), Failure::Missing(_)));
    let reset = of(io::ErrorKind::ConnectionReset);
    assert!(matches!(&reset, Failure::Ambiguous(StoreError::Unavailable { attempts: 3, .. })), "{reset:?}");
}

#[test]
fn the_operating_systems_own_numbers_are_found_too() {
    for (number, full) in [(28, true), (122, true), (30, false)] {
        let source = Outer { source: io::Error::from_raw_os_error(number) };
        let said = Said::Generic { store: "test", source: Box::new(source) };
        let error = Failure::of("p", 1, said).into_error();
        assert_eq!(matches!(error, StoreError::Full { .. }), full, "{error:?}");
        assert_eq!(matches!(error, StoreError::ReadOnly { .. }), !full, "{error:?}");
    }
}

#[test]
fn text_decides_nothing() {
    let said = Said::Generic { store: "test", source: other() };
    assert!(matches!(Failure::of("p", 1, said), Failure::Ambiguous(StoreError::Unavailable { .. })));
}

#[test]
fn variants_decide() {
    let path = || "p".to_owned();
    assert!(matches!(
        Failure::of("p", 1, Said::NotFound { path: path(), source: other() }),
        Failure::Missing(_)
    ));
    for said in [
        Said::AlreadyExists { path: path(), source: other() },
        Said::Precondition { path: path(), source: other() },
        Said::NotModified { path: path(), source: other() },
    ] {
        assert!(matches!(Failure::of("p", 1, said), Failure::Exists(_)));
    }
    for said in [
        Said::PermissionDenied { path: path(), source: other() },
        Said::Unauthenticated { path: path(), source: other() },
    ] {
        let failure = Failure::of("p", 1, said);
        assert!(matches!(failure, Failure::Refused(StoreError::PermissionDenied { .. })));
    }
    let not_supported = Said::NotImplemented { operation: path(), implementer: path() };
    assert!(matches!(Failure::of("p", 1, not_supported), Failure::Refused(StoreError::NotSupported { .. })));
}

#[test]
fn a_write_that_is_not_synced_is_no_refusal_and_no_proof() {
    for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull, io::ErrorKind::ReadOnlyFilesystem] {
        let source = NotSynced { path: "/d".to_owned(), source: io::Error::from(kind) };
        let said = Said::Generic { store: "test", source: Box::new(source) };
        assert!(matches!(Failure::of("p", 1, said), Failure::NotSynced(_)));
    }
}

#[test]
fn an_error_says_where_and_what_to_do() {
    let full = Failure::of("_mem_wal/s/wal/1.arrow", 1, generic(io::ErrorKind::StorageFull)).into_error();
    let text = full.to_string();
    assert!(text.contains("_mem_wal/s/wal/1.arrow") && text.contains("free space"), "{text}");
    assert_eq!(full.path(), "_mem_wal/s/wal/1.arrow");
    assert!(full.is_retryable());
    assert!(!StoreError::corrupt("p", "r").is_retryable() && !StoreError::invalid("p", "r").is_retryable());
}
