//! The conformance suite against a real S3 server.

use std::sync::Arc;

use headwater_store::conformance::{Options, run_with};
use headwater_store::env::TokioEnv;
use headwater_store::{RetryPolicy, Store};
use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::path::Path;

use crate::conforming::assert_thorough;
use crate::s3_server::{BUCKET, KEY, REGION, S3Server};

fn bucket(server: &S3Server) -> Arc<dyn ObjectStore> {
    let store = AmazonS3Builder::new()
        .with_endpoint(server.endpoint())
        .with_allow_http(true)
        .with_region(REGION)
        .with_bucket_name(BUCKET)
        .with_access_key_id(KEY)
        .with_secret_access_key(KEY)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .build()
        .unwrap();
    Arc::new(store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_s3_server_conforms() {
    let server = S3Server::start();
    let env = Arc::new(TokioEnv::new());
    let store = Store::new(bucket(&server), Path::from("tables/t.lance"), env, RetryPolicy::default());
    let options = Options { rounds: 20, records: 3, ..Options::default() };
    let report = run_with(store, options).await.unwrap();
    assert_thorough(&report, options);
}
