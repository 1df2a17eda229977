//! Tests of certificates and keys.

use std::path::PathBuf;

use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

use super::*;
use crate::error::ErrorKind;

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    #[expect(clippy::disallowed_methods, reason = "files of the test's own")]
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn files(&self, certificate: &str, key: &str) -> TlsFiles {
        TlsFiles {
            certificate: self.write("cert.pem", certificate),
            key: self.write("key.pem", key),
            client_authorities: None,
        }
    }
}

/// A certificate and its key, as PEM.
fn pair(algorithm: &'static SignatureAlgorithm) -> (String, String) {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// Files of other tools may name another format than they have, as OpenSSL reads them.
#[test]
fn keys_of_every_kind_are_read_whatever_their_label() {
    let directory = Directory::new();
    for algorithm in [
        &rcgen::PKCS_RSA_SHA256,
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ECDSA_P521_SHA512,
        &rcgen::PKCS_ED25519,
    ] {
        let (certificate, key) = pair(algorithm);
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
            let key = key.replace("PRIVATE KEY", label);
            // A file may have other parts, in any order.
            let files = directory.files(&certificate, &format!("{certificate}{key}"));
            Tls::new(&files).unwrap_or_else(|error| panic!("{algorithm:?}, {label}: {error}"));
        }
    }
}

#[test]
fn files_that_cannot_be_used_are_refused() {
    let directory = Directory::new();
    let (certificate, key) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
    let (_, another) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
    for (certificate, key, part) in [
        (&*certificate, "", "key.pem contains no unencrypted private key"),
        ("", &*key, "cert.pem contains no certificate"),
        (&*certificate, &*another, "cert.pem and "),
        (&*certificate, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "key "),
    ] {
        let error = Tls::new(&directory.files(certificate, key)).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let files =
        TlsFiles { key: directory.0.path().join("none"), ..directory.files(&certificate, &key) };
    assert_eq!(Tls::new(&files).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn the_old_certificate_stays_if_the_new_one_cannot_be_used() {
    let directory = Directory::new();
    let (certificate, key) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
    let tls = Tls::new(&directory.files(&certificate, &key)).unwrap();
    let config = |tls: &Tls| Arc::clone(tls.acceptor.read().config());
    let first = config(&tls);
    directory.files("damaged", &key);
    tls.reload().unwrap_err();
    assert!(Arc::ptr_eq(&first, &config(&tls)));
    directory.files(&certificate, &key);
    tls.reload().unwrap();
    assert!(!Arc::ptr_eq(&first, &config(&tls)));
}
