//! LanceDB's own clients, unmodified: scripts in Python and for Node, each with a server of its own.

use std::ffi::OsString;
use std::process::Stdio;

use crate::python::python;
use crate::support::Server;

/// Runs a script of this directory, which gets the url of a server of its own and says `ok` at its end.
async fn run(program: OsString, script: &str) {
    run_on(&Server::start().await, program, script).await;
}

pub async fn run_on(server: &Server, program: OsString, script: &str) {
    let path = format!("{}/tests/all/{script}", env!("CARGO_MANIFEST_DIR"));
    let ran = tokio::process::Command::new(&program)
        .args([&path, &server.url])
        .env_remove("LANCEDB_API_KEY")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap_or_else(|error| panic!("{program:?}: {error}; run `make venv node`"));
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.trim_end().ends_with("ok"), "{said}");
}

async fn run_python(script: &str) {
    run(python().into(), &format!("python/{script}.py")).await;
}

async fn node(script: &str) {
    run("node".into(), &format!("node/{script}.mjs")).await;
}

#[tokio::test]
async fn python_works_with_plain_tables() {
    run_python("plain").await;
}

#[tokio::test]
async fn python_works_with_plain_tables_asynchronously() {
    run_python("plain_async").await;
}

#[tokio::test]
async fn python_works_with_write_tiers() {
    run_python("tier").await;
}

#[tokio::test]
async fn python_works_with_write_tiers_asynchronously() {
    run_python("tier_async").await;
}

#[tokio::test]
async fn python_reads_all_tiers() {
    run_python("reads").await;
}

#[tokio::test]
async fn python_reads_all_tiers_asynchronously() {
    run_python("reads_async").await;
}

#[tokio::test]
async fn node_works_with_plain_tables() {
    node("plain").await;
}

#[tokio::test]
async fn node_works_with_write_tiers() {
    node("tier").await;
}
