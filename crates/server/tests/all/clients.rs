//! LanceDB's own Python client, unmodified.

use std::process::Stdio;

use crate::support::Server;

async fn runs(script: &str) {
    let server = Server::start().await;
    let python = std::env::var_os("HEADWATER_PYTHON").unwrap_or_else(|| {
        format!("{}/.cache/headwater/venv/bin/python", std::env::var("HOME").unwrap()).into()
    });
    let path = format!("{}/tests/all/python/{script}.py", env!("CARGO_MANIFEST_DIR"));
    let ran = tokio::process::Command::new(python)
        .args([&path, &server.url])
        .env_remove("LANCEDB_API_KEY")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.trim_end().ends_with("ok"), "{said}");
}

#[tokio::test]
async fn python_works_with_plain_tables() {
    runs("plain").await;
}

#[tokio::test]
async fn python_works_with_plain_tables_asynchronously() {
    runs("plain_async").await;
}

#[tokio::test]
async fn python_works_with_write_tiers() {
    runs("tier").await;
}
