//! TLS for TCP addresses, by rustls: 1.2 and 1.3, certificates and keys from PEM files.
//!
//! The files can be read again while the server runs ([`Tls::reload`]): connections that begin
//! afterwards get the new certificate, those that are open keep theirs. If the new files cannot be
//! used, the old certificate stays.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{Accept, TlsAcceptor};

use crate::address::TlsFiles;
use crate::error::{Error, Result};

/// The certificate of a server, and what it needs to check those of clients.
pub struct Tls {
    files: TlsFiles,
    acceptor: RwLock<TlsAcceptor>,
}

impl Tls {
    /// Reads the files.
    pub fn new(files: &TlsFiles) -> Result<Arc<Self>> {
        let acceptor = RwLock::new(acceptor(files)?);
        Ok(Arc::new(Self { files: files.clone(), acceptor }))
    }

    /// Reads the files again.
    pub fn reload(&self) -> Result<()> {
        let renewed = acceptor(&self.files)?;
        *self.acceptor.write() = renewed;
        Ok(())
    }

    /// The handshake with a client.
    pub(crate) fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Accept<S> {
        self.acceptor.read().accept(stream)
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let unusable = |error| Error::unavailable("these TLS files cannot be used", error);
    let pair = certified_key(files, &provider)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(unusable)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                .build()
                .map_err(|error| Error::unavailable(path.display(), error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The certificate with its key, which belong together.
fn certified_key(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let of_key = |error| Error::unavailable(format!("key {}", files.key.display()), error);
    let der = key(&files.key)?;
    // The label of a PEM file may be another than that of the format within, as OpenSSL allows.
    let formats = [
        PrivateKeyDer::Pkcs8(der.clone().into()),
        PrivateKeyDer::Pkcs1(der.clone().into()),
        PrivateKeyDer::Sec1(der.into()),
    ];
    let [first, others @ ..] = formats.map(|key| provider.key_provider.load_private_key(key));
    let found = others.into_iter().flatten().next();
    let key = first.or_else(|error| found.ok_or(error)).map_err(of_key)?;
    let pair = CertifiedKey::new(certificates(&files.certificate)?, key);
    match pair.keys_match() {
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) | Ok(()) => {
            Ok(pair)
        }
        Err(error) => {
            let both = format!("{} and {}", files.certificate.display(), files.key.display());
            Err(Error::unavailable(both, error))
        }
    }
}

/// The first private key of a file.
fn key(path: &Path) -> Result<Vec<u8>> {
    let unavailable = |error| Error::unavailable(format!("key {}", path.display()), error);
    for section in <(SectionKind, Vec<u8>)>::pem_file_iter(path).map_err(unavailable)? {
        if let (
            SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey,
            der,
        ) = section.map_err(unavailable)?
        {
            return Ok(der);
        }
    }
    Err(Error::invalid(format!("{} contains no unencrypted private key", path.display())))
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

#[cfg(test)]
mod tests;
