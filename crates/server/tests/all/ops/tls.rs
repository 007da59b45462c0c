//! HTTPS from files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headwater_server::auth::Auth;
use headwater_server::serve::Server;
use headwater_server::tls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::client::Connection;
use super::toy::{Running, Toy, ToyApp, config, env};

/// A certificate for `localhost` that vouches for itself, good for a hundred years.
fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/ops/certificate").join(name)
}

async fn handshake(running: &Running, offered: &[&[u8]]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate("cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut client = builder.with_root_certificates(roots).with_no_client_auth();
    client.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn requests_are_answered_over_tls_and_the_client_chooses_the_version() {
    let secure = config(|config| {
        config.tls.cert = Some(certificate("cert.pem"));
        config.tls.key = Some(certificate("key.pem"));
    });
    let running = Running::start(secure, Auth::Open).await;
    for offered in [vec![], vec![b"http/1.1".as_slice()]] {
        let stream = handshake(&running, &offered).await;
        let reply = Connection::over(stream).send("GET", "/v1/table/", &[], b"").await;
        assert_eq!((reply.status, reply.text()), (200, "tables"));
    }
    let stream = handshake(&running, &[b"h2", b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(tls::H2));
    // Without TLS nothing is said.
    let plain = running.connect().await.try_send("GET", "/v1/table/", &[], b"").await;
    assert!(plain.is_none_or(|reply| reply.status != 200));
}

#[tokio::test]
async fn files_that_are_no_certificate_or_no_key_stop_the_start_by_name() {
    let home = tempfile::tempdir().unwrap();
    let empty = home.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    let missing = home.path().join("missing.pem");
    let (cert, key) = (certificate("cert.pem"), certificate("key.pem"));
    for (cert, key, named) in [
        (&missing, &key, &missing),
        (&cert, &missing, &missing),
        (&empty, &key, &empty),
        (&cert, &empty, &empty),
        (&cert, &cert, &cert),
    ] {
        let broken = config(|config| {
            config.tls.cert = Some(cert.clone());
            config.tls.key = Some(key.clone());
        });
        let app = Arc::new(ToyApp(Arc::new(Toy::default())));
        let error = Server::bind(&broken, Auth::Open, app, env()).await.unwrap_err().to_string();
        assert!(error.contains(&named.display().to_string()), "{error}");
    }
}
