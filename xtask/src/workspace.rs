//! Where the workspace lies and which of its files a check looks at.
//!
//! Owns: walking the tree. Does not own: what is in a file. Called by the checks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::CheckError;

/// What holds nothing of ours: what is built, fetched or remembered by tools.
const FOREIGN: [&str; 5] = ["target", ".git", ".venv", "__pycache__", "node_modules"];

/// The root of the workspace this crate is part of.
pub fn root() -> PathBuf {
    // Cargo tells at run time where the package lies, which is right for a binary built in another checkout
    // too.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = PathBuf::from(package);
    package.parent().map(Path::to_path_buf).unwrap_or(package)
}

/// A text file of the workspace.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Path below the root, with `/`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// Every file of ours that is text, sorted by path.
///
/// # Errors
///
/// [`CheckError::Read`] when a folder or file cannot be read.
pub fn text_files(root: &Path) -> Result<Vec<TextFile>, CheckError> {
    let mut files = Vec::new();
    walk(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(folder: &Path, below: &str, files: &mut Vec<TextFile>) -> Result<(), CheckError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| CheckError::Read { path, source }
    };
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let entry = entry.map_err(failed(folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type().map_err(failed(&entry.path()))?;
        if FOREIGN.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            walk(&entry.path(), &path, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).map_err(failed(&entry.path()))?;
            // What is no UTF-8 is data.
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(TextFile { path, text });
            }
        }
    }
    Ok(())
}
