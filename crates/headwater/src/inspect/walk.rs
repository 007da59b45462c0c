//! The files of a local table, staging left-overs included.
//!
//! Owns: finding a table's directory and listing what is in `_mem_wal/`. A listing through the object store
//! leaves out names such as `{name}#1`, which only a local disk has; people looking for lost space want to
//! see them.

use std::io;
use std::path::{Path, PathBuf};

use headwater_format::path::MEM_WAL_DIR;

/// The directory of the table at `uri`, when it is on a local disk.
pub(super) fn local_root(uri: &str) -> Option<PathBuf> {
    match uri.split_once("://") {
        None => Some(PathBuf::from(uri)),
        Some(("file" | "file-object-store", path)) => {
            url::Url::parse(&format!("file://{path}")).ok()?.to_file_path().ok()
        }
        Some(_) => None,
    }
}

/// All files under `{root}/_mem_wal` with their sizes, by path relative to `root`; none when there is no such
/// directory. Files that vanish meanwhile are left out.
pub(super) fn files(root: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    visit(&root.join(MEM_WAL_DIR), MEM_WAL_DIR, &mut found)?;
    found.sort();
    Ok(found)
}

fn visit(directory: &Path, name: &str, found: &mut Vec<(String, u64)>) -> io::Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = format!("{name}/{}", entry.file_name().to_string_lossy());
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => visit(&entry.path(), &path, found)?,
            Ok(metadata) => found.push((path, metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
