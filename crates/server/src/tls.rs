//! HTTPS: a certificate and its key from PEM files, and the versions of HTTP offered over it.
//!
//! Owns: [`acceptor`]. Over TLS clients choose HTTP/2 or HTTP/1.1 in the handshake; without it they speak
//! HTTP/1.1.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// HTTP/2, as the handshake calls it.
pub const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// Why there is no HTTPS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read, or holds no such thing.
    #[error("{file}: {source}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: rustls::pki_types::pem::Error,
    },
    /// No certificate in the file.
    #[error("{file}: it holds no certificate")]
    Empty {
        /// The file.
        file: String,
    },
    /// Certificate and key do not go together, or neither can be used.
    #[error("certificate {cert} with key {key}: {source}")]
    Pair {
        /// File of the certificate.
        cert: String,
        /// File of the key.
        key: String,
        /// What is wrong.
        source: rustls::Error,
    },
}

/// What answers TLS handshakes with the certificate in `cert`, whose private key is in `key`.
///
/// # Errors
/// [`TlsError`], naming the file.
pub fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let named = |path: &Path| path.display().to_string();
    let failed = |path: &Path| {
        let file = named(path);
        move |source| TlsError::File { file, source }
    };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(failed(cert))?;
    if chain.is_empty() {
        return Err(TlsError::Empty { file: named(cert) });
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(failed(key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config =
        config.map_err(|source| TlsError::Pair { cert: named(cert), key: named(key), source })?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
