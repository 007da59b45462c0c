//! The conformance suite against a real S3 server.

use std::sync::Arc;

use headwater_store::conformance::{Options, run_with};
use headwater_store::env::TokioEnv;
use headwater_store::{RetryPolicy, Store};
use object_store::path::Path;

use crate::conforming::assert_thorough;
use crate::s3_server::S3Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_s3_server_conforms() {
    let server = S3Server::start().await;
    let env = Arc::new(TokioEnv::new());
    let store = Store::new(server.store(), Path::from("tables/t.lance"), env, RetryPolicy::default());
    let options = Options { rounds: 20, records: 3, ..Options::default() };
    let report = run_with(store, options).await.unwrap();
    assert_thorough(&report, options);
}
