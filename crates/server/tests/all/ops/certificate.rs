//! A certificate for `localhost` that vouches for itself, made for one test.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

pub struct Certificate {
    home: TempDir,
}

impl Certificate {
    pub fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"])
            .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(home.path())
            .output()
            .expect("the command openssl: scripts/install-tools.sh installs it");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { home }
    }

    pub fn cert(&self) -> PathBuf {
        self.home.path().join("cert.pem")
    }

    pub fn key(&self) -> PathBuf {
        self.home.path().join("key.pem")
    }
}
