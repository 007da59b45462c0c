//! Whether the bucket of a table is there at all.
//!
//! Owns: telling a missing bucket from a missing table and from a store that does not answer: listings of all
//! three fail alike. Asked only after such a failure.

use lance_io::object_store::ObjectStore;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::location::{normalize, scheme};
use crate::table::{Connection, TableOptions};

/// Whether `uri` is in a bucket that is not there. False when the store does not say.
pub async fn bucket_is_missing(connection: &Connection, uri: &str, options: &TableOptions) -> bool {
    let Ok(uri) = normalize(uri) else { return false };
    if scheme(&uri).is_none_or(|scheme| scheme != "s3") {
        return false;
    }
    let (registry, params) = (connection.session().store_registry(), connection.store_params(options));
    let Ok((store, _)) = ObjectStore::from_uri_and_params(registry, &uri, &params).await else {
        return false;
    };
    // The head of no object is that of the bucket. One that is there is no object, which is another error.
    matches!(store.inner.head(&Path::default()).await, Err(object_store::Error::NotFound { .. }))
}
