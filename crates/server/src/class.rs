//! Whether a request reads or writes, told from method and path.
//!
//! Owns: [`Class`]. Called before any route by `auth` (a key may be for reading only) and by `limits` (each
//! class has its own). What is not known to read counts as a write, so that a route added later is not open
//! to keys for reading before somebody says so here.

use axum::http::Method;

/// The last part of the paths that read.
const READS: [&str; 16] = [
    "query",
    "count_rows",
    "describe",
    "exists",
    "explain_plan",
    "analyze_plan",
    "stats",
    "list",
    "get_rte_spec",
    "get_lsm_write_spec",
    "get_rte_stats",
    "get_lsm_stats",
    "diff",
    "errors",
    "fetch_blobs",
    "prewarm",
];
/// The last two parts of a path that reads, where the last alone does not say so.
const TAG_VERSION: [&str; 2] = ["version", "tags"];

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Changes nothing.
    Read,
    /// May change something.
    Write,
}

impl Class {
    /// Of a request.
    pub fn of(method: &Method, path: &str) -> Self {
        if method == Method::GET || method == Method::HEAD {
            return Self::Read;
        }
        if method != Method::POST {
            return Self::Write;
        }
        let mut parts = path.rsplit('/').filter(|part| !part.is_empty());
        let last = parts.next().unwrap_or_default();
        let is_tag_version = [last, parts.next().unwrap_or_default()] == TAG_VERSION;
        if is_tag_version || READS.contains(&last) { Self::Read } else { Self::Write }
    }

    /// For people and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_read_counts_as_a_write() {
        let class = |path| Class::of(&Method::POST, path);
        for path in ["/v1/table/t/query/", "/v1/table/t/count_rows", "/v1/table/t/index/i/stats/"] {
            assert_eq!(class(path), Class::Read, "{path}");
        }
        for path in ["/v1/table/t/tags/version/", "/v1/table/t/tags/list/", "/v1/table/t/version/list"] {
            assert_eq!(class(path), Class::Read, "{path}");
        }
        // A table may be called `query`.
        for path in ["/v1/table/query/insert/", "/v1/table/t/tags/create/", "/v1/table/t/anything", "/"] {
            assert_eq!(class(path), Class::Write, "{path}");
        }
        assert_eq!(Class::of(&Method::GET, "/v1/table/"), Class::Read);
        assert_eq!(Class::of(&Method::DELETE, "/v1/table/t/query/"), Class::Write);
    }
}
