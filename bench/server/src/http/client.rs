//! Connections that ask one thing after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::contestants::Asks;
use super::response::{Admits, Response};
use crate::Error;
use crate::measured::Seen;

/// More than any answer.
const ROOM: usize = 64 * 1024;

pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(port: u16) -> Result<Self, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; ROOM] })
    }

    /// Asks, and waits for the whole answer.
    pub async fn ask(&mut self, request: &[u8], admits: &Admits) -> Result<bool, Error> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            filled += read;
            if read == 0 {
                return Err("the connection was closed before the answer was there".into());
            }
            if let Some(response) = Response::read(&self.buffer[..filled])? {
                if response.len != filled {
                    return Err("more than one answer came to one question".into());
                }
                return response.admits(admits);
            }
        }
    }
}

/// Asks over all connections for so long. Whatever is not admitted is an error.
pub async fn drive(
    connections: Vec<Connection>,
    asks: &Asks,
    time: Duration,
) -> Result<(Vec<Connection>, Vec<Seen>), Error> {
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for (n, connection) in connections.into_iter().enumerate() {
        // Each starts elsewhere in the same sequence.
        tasks.spawn(repeat(connection, Arc::clone(&asks.wide), Arc::clone(&asks.admits), n, end));
    }
    let (mut connections, mut all) = (vec![], vec![]);
    while let Some(done) = tasks.join_next().await {
        let (connection, seen) = done??;
        connections.push(connection);
        all.push(seen);
    }
    Ok((connections, all))
}

async fn repeat(
    mut connection: Connection,
    requests: Arc<[Vec<u8>]>,
    admits: Arc<Admits>,
    n: usize,
    end: Instant,
) -> Result<(Connection, Seen), Error> {
    let mut seen = Seen::default();
    let mut now = Instant::now();
    for request in requests.iter().cycle().skip(n * 127) {
        if now >= end {
            break;
        }
        if !connection.ask(request, &admits).await? {
            return Err("it refused what must pass".into());
        }
        now = seen.answered(now);
    }
    Ok((connection, seen))
}
