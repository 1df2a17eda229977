//! A self-signed certificate for a server, and the matching configuration of a client.

use std::path::Path;
use std::sync::Arc;

use tidekv_net::TlsFiles;

/// Creates a self-signed certificate and its files.
pub fn certificate(directory: &Path) -> (TlsFiles, rustls::ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let files = TlsFiles {
        certificate: directory.join("cert.pem"),
        key: directory.join("key.pem"),
        client_authorities: None,
    };
    write(&files.certificate, &made.cert.pem());
    write(&files.key, &made.signing_key.serialize_pem());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (files, config)
}

#[expect(clippy::disallowed_methods, reason = "files of the test's own")]
pub fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}
