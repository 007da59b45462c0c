//! An object store layer that writes down what is asked of it.

use std::sync::{Arc, Mutex};

use lance_io::object_store::WrappingObjectStore;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{ObjectStore, Result};

use crate::layer::{Ask, Watch, watched};

/// What was asked, in order: `put path`, `get path`, `list prefix`.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    requests: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    /// Takes what was recorded since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    /// The paths that were written since the last call.
    pub fn take_puts(&self) -> Vec<String> {
        let requests = self.take();
        requests.into_iter().filter_map(|request| request.strip_prefix("put ").map(str::to_owned)).collect()
    }
}

impl Watch for Recorder {
    fn asked(&self, what: Ask, path: &Path) -> Result<()> {
        let what = match what {
            Ask::Put => "put",
            Ask::Copy => "copy",
            Ask::Get => "get",
            Ask::Head => "head",
            Ask::List => "list",
        };
        self.requests.lock().unwrap().push(format!("{what} {path}"));
        Ok(())
    }
}

impl WrappingObjectStore for Recorder {
    fn wrap(&self, _store_prefix: &str, original: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        watched(original, self.clone())
    }

    /// Listings page by page would go around the layer.
    fn wrap_paginated(
        &self,
        _store_prefix: &str,
        _original: Arc<dyn PaginatedListStore>,
    ) -> Option<Arc<dyn PaginatedListStore>> {
        None
    }
}
