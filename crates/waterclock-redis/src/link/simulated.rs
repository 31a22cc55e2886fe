//! Connections over the network of a simulation instead of the system's.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, PushInfo, RedisResult};
use tokio::io::DuplexStream;

/// The client's end of a connection.
pub type Dialled = Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>>;

/// A network that a simulation provides to the stores of its thread.
pub trait SimulatedNetwork {
    /// Connects to a server.
    fn dial(&self, host: &str, port: u16) -> Dialled;
}

thread_local! {
    static NETWORK: RefCell<Option<Arc<dyn SimulatedNetwork>>> = const { RefCell::new(None) };
}

impl dyn SimulatedNetwork {
    /// Stores of this thread connect over this network from now on, or over the system's.
    pub fn of_this_thread(network: Option<Arc<Self>>) {
        NETWORK.set(network);
    }
}

/// A connection over the network of this thread, if it has one.
pub(super) async fn connect<F>(
    client: &Client,
    config: &AsyncConnectionConfig,
    heard: &F,
) -> Option<RedisResult<MultiplexedConnection>>
where
    F: Fn(&PushInfo) + Clone + Send + Sync + 'static,
{
    let info = client.get_connection_info();
    let dialled = NETWORK.with_borrow(|network| match (network, info.addr()) {
        (Some(network), ConnectionAddr::Tcp(host, port)) => Some(network.dial(host, *port)),
        _ => None,
    })?;
    let heard = heard.clone();
    let config = config.clone().set_push_sender(move |push| {
        heard(&push);
        Ok::<(), ()>(())
    });
    let connected = async {
        let stream = dialled.await?;
        MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await
    };
    Some(connected.await.map(|(connection, driver)| {
        tokio::spawn(driver);
        connection
    }))
}
