//! HTTPS from files.

use std::fs;
use std::sync::Arc;

use axum::http::{Request, Response};
use bytes::Bytes;
use headwater_server::auth::{Auth, Keyring, Keys};
use headwater_server::config::Config;
use headwater_server::serve::Server;
use headwater_server::tls;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificate::Certificate;
use super::client::Connection;
use super::toy::{Running, Toy, ToyApp, config, env};

/// A connection whose handshake offers these versions of HTTP.
pub async fn handshake(
    running: &Running,
    certificate: &Certificate,
    offered: &[&[u8]],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate.cert()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut client = builder.with_root_certificates(roots).with_no_client_auth();
    client.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap()
}

async fn secure(change: impl FnOnce(&mut Config), auth: Auth) -> (Running, Certificate) {
    let certificate = Certificate::new();
    let config = config(|config| {
        config.tls.cert = Some(certificate.cert());
        config.tls.key = Some(certificate.key());
        change(config);
    });
    (Running::start(config, auth).await, certificate)
}

/// A client that speaks HTTP/2 over one connection.
pub async fn h2(running: &Running, certificate: &Certificate) -> SendRequest<Full<Bytes>> {
    let stream = handshake(running, certificate, &[b"h2"]).await;
    let (client, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Posts a body of so many bytes.
pub async fn post(
    client: &mut SendRequest<Full<Bytes>>,
    path: &str,
    bytes: usize,
) -> hyper::Result<Response<Incoming>> {
    client.ready().await?;
    let request = Request::post(format!("https://localhost{path}"));
    client.send_request(request.body(Full::new(vec![0; bytes].into())).unwrap()).await
}

#[tokio::test]
async fn requests_are_answered_over_tls_and_the_client_chooses_the_version() {
    let (running, certificate) = secure(|_| {}, Auth::Open).await;
    for offered in [vec![], vec![b"http/1.1".as_slice()]] {
        let stream = handshake(&running, &certificate, &offered).await;
        let reply = Connection::over(stream).send("GET", "/v1/table/", &[], b"").await;
        assert_eq!((reply.status, reply.text()), (200, "tables"));
    }
    let stream = handshake(&running, &certificate, &[b"h2", b"http/1.1"]).await;
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
    let certificate = Certificate::new();
    let (cert, key) = (certificate.cert(), certificate.key());
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

/// More than any window or buffer on the way holds.
const BODY: usize = 32 << 20;

async fn answered(client: &mut SendRequest<Full<Bytes>>, path: &str) -> (u16, String) {
    let reply = post(client, path, BODY).await.unwrap();
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn over_http_2_a_client_that_still_sends_is_told_why_it_is_refused() {
    let nobody = Auth::Keys(Keys::fixed(Keyring::default()));
    let (running, certificate) = secure(|_| {}, nobody).await;
    let mut client = h2(&running, &certificate).await;
    let (status, text) = answered(&mut client, "/v1/table/t/insert/").await;
    assert!(status == 401 && text.contains("an API key is needed"), "{status} {text}");

    let (running, certificate) = secure(|config| config.limits.writes = 1, Auth::Open).await;
    let mut client = h2(&running, &certificate).await;
    assert_eq!(answered(&mut client, "/v1/table/t/update/").await.0, 413);
    let mut holder = running_slow(&running, &certificate).await;
    let (status, text) = answered(&mut client, "/v1/table/t/insert/").await;
    assert!(status == 429 && text.contains("Too many concurrent writes"), "{status} {text}");
    running.toy.gate.add_permits(1);
    assert_eq!(holder.reply().await.unwrap().status, 200);
    // The connection goes on.
    assert_eq!(answered(&mut client, "/v1/table/t/insert/").await, (200, BODY.to_string()));
}

/// A request that takes the one place for writes.
async fn running_slow(running: &Running, certificate: &Certificate) -> Connection<TlsStream<TcpStream>> {
    let mut connection = Connection::over(handshake(running, certificate, &[b"http/1.1"]).await);
    connection.begin("POST", "/v1/table/t/slow/", &[], 0).await.unwrap();
    running.active(1).await;
    connection
}
