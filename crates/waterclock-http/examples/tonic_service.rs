//! A gRPC service with a limit for each caller: `cargo run -p waterclock-http --example tonic_service`.
//!
//! A caller over its limit gets `RESOURCE_EXHAUSTED` with the retry time in the details.

use std::error::Error;

use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use waterclock::{Limit, MemoryStore, Policy};
use waterclock_http::{ClientIp, HeaderStyle, RateLimitLayer, Rule};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let policy = Policy::new("health", [Limit::per_minute(3)])?;
    let layer = RateLimitLayer::builder(MemoryStore::default())
        .rule(Rule::new(policy).headers(HeaderStyle::Ietf))
        .key(ClientIp::default())
        // Tonic adds it to every request that arrives over TCP.
        .peer(|parts| {
            let info = parts.extensions.get::<TcpConnectInfo>();
            let peer = info.and_then(TcpConnectInfo::remote_addr);
            peer.map_or([0; 4].into(), |peer| peer.ip())
        })
        .build()
        .await?;
    // Your service; this one comes with tonic.
    let (_reporter, service) = tonic_health::server::health_reporter();
    let at = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:50051".into());
    let listener = TcpListener::bind(at).await?;
    println!("grpc.health.v1 is served at http://{}", listener.local_addr()?);
    let server = Server::builder().layer(layer).add_service(service);
    Ok(server.serve_with_incoming(TcpIncoming::from(listener)).await?)
}
