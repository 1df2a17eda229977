//! TLS for TCP addresses, by rustls: 1.2 and 1.3, certificates from PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::address::TlsFiles;
use crate::error::{Error, Result};

/// Reads the files and creates the acceptor that wraps TCP connections in TLS.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let certificates = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| Error::unavailable(format!("key {}", files.key.display()), error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let unusable = |error| Error::unavailable("these TLS files cannot be used", error);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in self::certificates(path)? {
                roots.add(authority).map_err(unusable)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                .build()
                .map_err(|error| Error::unavailable(path.display(), error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(certificates, key).map_err(unusable)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unavailable = |error| Error::unavailable(format!("certificate {}", path.display()), error);
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(unavailable)?;
    if certificates.is_empty() {
        return Err(Error::invalid(format!("{} contains no certificate", path.display())));
    }
    Ok(certificates)
}
