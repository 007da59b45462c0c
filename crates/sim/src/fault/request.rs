//! One request, as it is numbered, recorded and matched by gates.

use std::fmt;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// A write; `create` is put-if-absent.
    Put {
        /// Whether an existing object refuses it.
        create: bool,
    },
    /// A read of a whole object or a range.
    Get,
    /// A read of the metadata only.
    Head,
    /// A listing, recursive or of one level.
    List,
    /// A delete.
    Delete,
}

impl Op {
    /// Whether it changes the objects.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Put { .. } | Self::Delete)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Put { create: true } => "create",
            Self::Put { create: false } => "put",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

/// What kind of object a path names, by its place in the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A WAL entry.
    Wal,
    /// A version of a shard manifest.
    Manifest,
    /// The version hint.
    Hint,
    /// A file of an SSTable.
    SsTable,
    /// Anything else below the table.
    Base,
}

impl ObjectKind {
    /// The kind of the object at `path`, wherever the table's root is.
    pub fn of(path: &str) -> Self {
        let Some((_, below)) = path.split_once("_mem_wal/") else { return Self::Base };
        let mut parts = below.split('/').skip(1);
        match (parts.next(), parts.next()) {
            (Some("wal"), _) => Self::Wal,
            (Some("manifest"), Some("version_hint.json")) => Self::Hint,
            (Some("manifest"), _) => Self::Manifest,
            (Some(name), _) if name.contains("_gen_") => Self::SsTable,
            _ => Self::Base,
        }
    }
}

/// One request to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// 1, 2, 3, … over all clients, in order of arrival.
    pub number: u64,
    /// Name of the process that sent it.
    pub process: String,
    /// What it asks for.
    pub op: Op,
    /// The path, or the prefix of a listing.
    pub path: String,
    /// Kind of object at the path.
    pub kind: ObjectKind,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} {} {}", self.number, self.process, self.op.word(), short(&self.path))
    }
}

/// A path for people: bit-reversed numbers as numbers, ids by their first letters.
fn short(path: &str) -> String {
    let parts = path.split('/').map(|part| {
        let (stem, extension) = part.split_once('.').unwrap_or((part, ""));
        let dot = if extension.is_empty() { "" } else { "." };
        match headwater_format::path::parse_rev64(stem) {
            Some(number) => format!("{number}{dot}{extension}"),
            None if part.len() == 36 => part.chars().take(4).collect(),
            None => part.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join("/")
}
