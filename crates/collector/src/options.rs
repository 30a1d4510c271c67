//! How a collector is started.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use iotrail_format::wire::{HTTP_PORT, PORT};
use iotrail_trail::seal::plain::read_secret;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

use crate::error::{Error, IoContext as _};

/// The options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The trail; appended to if it exists.
    pub trail: PathBuf,
    /// Where to listen.
    pub listen: Vec<SocketAddr>,
    /// A file with the token that peers must know; none needs none.
    pub token_file: Option<PathBuf>,
    /// Certificate chain and key, PEM; none speaks plainly.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// How often rows are sealed.
    pub seal: Duration,
    /// How long samples wait to be shown in order.
    pub window: Duration,
    /// Folder of the log; none is beside the trail.
    pub log: Option<PathBuf>,
    /// Threads that serve connections.
    pub cores: usize,
    /// Bytes of a message at most.
    pub largest: usize,
    /// Bytes of rows in memory that are not sealed, of messages that are being received, and of what OpenTelemetry's decode
    /// to, at most each.
    pub memory: usize,
}

impl Options {
    /// For a trail, on loopback.
    #[must_use]
    pub fn new(trail: impl Into<PathBuf>) -> Self {
        Self {
            trail: trail.into(),
            listen: [PORT, HTTP_PORT].map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec(),
            token_file: None,
            tls: None,
            seal: Duration::from_secs(5),
            window: Duration::from_millis(100),
            log: None,
            cores: 1,
            largest: 16 << 20,
            memory: 256 << 20,
        }
    }

    /// Bytes that a message may decode to. Rows of agents take two to three times the bytes of their message.
    #[must_use]
    pub fn most_decoded(&self) -> u64 {
        4 * self.largest as u64
    }

    /// Folder of the log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.log.clone().unwrap_or_else(|| {
            let mut name = self.trail.as_os_str().to_owned();
            name.push(".log");
            name.into()
        })
    }

    /// Refuses to let strangers in.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.trail.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(Error::Options {
                what: format!("{}: the name of a trail doesn't end in /", self.trail.display()),
                hint: "leave it out".to_owned(),
            });
        }
        let open = self.listen.iter().find(|address| !address.ip().is_loopback());
        let Some(open) = open.filter(|_| self.token_file.is_none() || self.tls.is_none()) else {
            return Ok(());
        };
        let missing = match (&self.token_file, &self.tls) {
            (None, None) => "neither a token nor TLS",
            (None, Some(_)) => "TLS but no token",
            _ => "a token but no TLS",
        };
        Err(Error::Options {
            what: format!("{open} can be reached from other machines, and there is {missing}"),
            hint: "give --token-file, --tls-cert and --tls-key, or listen on 127.0.0.1".to_owned(),
        })
    }

    /// The token; none if none is needed.
    pub(crate) fn token(&self) -> Result<Option<Arc<str>>, Error> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let token = read_secret(path).at("read", path)?;
        let fits = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.len() < 16 || !fits {
            return Err(Error::Options {
                what: format!(
                    "{}: expected a token of at least 16 letters without spaces, found {}",
                    path.display(),
                    token.len()
                ),
                hint: format!("(umask 077; openssl rand -hex 32 > {})", path.display()),
            });
        }
        Ok(Some(token.into()))
    }

    /// TLS as configured; none if it isn't.
    pub(crate) fn acceptor(&self) -> Result<Option<TlsAcceptor>, Error> {
        let Some((cert, key)) = &self.tls else { return Ok(None) };
        let bad = |path: &PathBuf, expected: &str, why: &dyn std::fmt::Display| Error::Options {
            what: format!("{}: {why}", path.display()),
            hint: format!("expected {expected} as PEM"),
        };
        let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect)
            .map_err(|e| bad(cert, "a certificate chain", &e))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|e| bad(key, "a private key", &e))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private))
            .map_err(|e| bad(cert, "a certificate chain and its key", &e))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Some(TlsAcceptor::from(Arc::new(config))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_need_a_token_and_tls() {
        let files = || Some((PathBuf::from("c"), PathBuf::from("k")));
        let check = |listen: &str, token: bool, tls: bool| {
            let options = Options {
                listen: vec![listen.parse().expect("an address")],
                token_file: token.then(|| "t".into()),
                tls: if tls { files() } else { None },
                ..Options::new("x.trail")
            };
            options.check().is_ok()
        };
        assert!(check("127.0.0.1:0", false, false) && check("[::1]:0", false, false));
        assert!(!check("0.0.0.0:0", false, false));
        assert!(!check("0.0.0.0:0", true, false) && !check("10.0.0.1:0", false, true));
        assert!(check("0.0.0.0:0", true, true));
    }
}
