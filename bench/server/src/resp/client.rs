//! Connections that send some commands at once and wait for all replies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::command::Exchange;
use super::reply::{self, Admits};
use crate::Error;
use crate::measured::Seen;

/// More than the replies to one exchange.
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

    /// How many of the commands pass.
    pub async fn exchange(&mut self, exchange: &Exchange, admits: Admits) -> Result<usize, Error> {
        self.stream.write_all(&exchange.bytes).await?;
        let (mut filled, mut taken) = (0, 0);
        let (mut replies, mut passed) = (0, 0);
        while replies < exchange.commands {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            if read == 0 {
                return Err("the connection was closed before all replies were there".into());
            }
            filled += read;
            while taken < filled
                && let Some((len, admitted)) = reply::read(&self.buffer[taken..filled], admits)?
            {
                taken += len;
                replies += 1;
                passed += usize::from(admitted);
            }
        }
        if taken != filled || replies > exchange.commands {
            return Err("more replies came than commands were sent".into());
        }
        Ok(passed)
    }
}

/// Asks over all connections for so long. Whatever is not admitted is an error.
pub async fn drive(
    connections: Vec<Connection>,
    exchanges: &Arc<[Exchange]>,
    admits: Admits,
    time: Duration,
) -> Result<(Vec<Connection>, Vec<Seen>), Error> {
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for (n, connection) in connections.into_iter().enumerate() {
        // Each starts elsewhere in the same sequence.
        tasks.spawn(repeat(connection, Arc::clone(exchanges), admits, n, end));
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
    exchanges: Arc<[Exchange]>,
    admits: Admits,
    n: usize,
    end: Instant,
) -> Result<(Connection, Seen), Error> {
    let mut seen = Seen::default();
    let mut now = Instant::now();
    for exchange in exchanges.iter().cycle().skip(n * exchanges.len() / 4) {
        if now >= end {
            break;
        }
        if connection.exchange(exchange, admits).await? != exchange.commands {
            return Err("it refused what must pass".into());
        }
        now = seen.answered(now);
    }
    Ok((connection, seen))
}
