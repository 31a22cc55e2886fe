//! A server that takes TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use waterclock_conformance::real::RedisServer;

/// The answer to a PING over TLS, for a client that trusts one authority.
fn ping(server: &RedisServer, name: &str, ca_pem: &str) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(("127.0.0.1", server.tls_port()))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut stream = StreamOwned::new(client, socket);
    stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply)?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

#[test]
fn is_trusted_by_clients_that_know_its_authority() {
    let (server, stranger) = (RedisServer::start_with_tls(), RedisServer::start_with_tls());
    assert_eq!(server.tls_url(), format!("rediss://127.0.0.1:{}", server.tls_port()));
    assert_ne!(server.tls_port(), server.port());
    for name in ["127.0.0.1", "localhost"] {
        assert_eq!(ping(&server, name, server.ca_pem()).unwrap(), "+PONG\r\n");
    }
    assert!(ping(&server, "example.org", server.ca_pem()).is_err());
    assert!(ping(&server, "127.0.0.1", stranger.ca_pem()).is_err());
    assert_eq!(server.command(&["PING"]).as_text(), "PONG");
}
