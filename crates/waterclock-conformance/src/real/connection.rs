//! A connection to a Redis. It is deliberately not the client under test: what tests prepare and
//! look at must not depend on what they examine.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::Reply;

/// How long a command may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A blocking connection to a Redis on the loopback; each wait for it takes 5 seconds at most.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to a port of the loopback.
    pub fn open(port: u16) -> io::Result<Self> {
        Self::open_within(port, TIMEOUT)
    }

    /// Connects to a port of the loopback; `timeout` bounds this and every later wait.
    pub fn open_within(port: u16, timeout: Duration) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a command and reads its reply.
    pub fn command<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<Reply> {
        self.send(command)?;
        self.receive()
    }

    /// Sends a command.
    pub fn send<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for argument in command.iter().map(AsRef::as_ref) {
            bytes.extend(format!("${}\r\n", argument.len()).as_bytes());
            bytes.extend(argument);
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)
    }

    /// Reads the next reply.
    pub fn receive(&mut self) -> io::Result<Reply> {
        Reply::read(&mut self.stream)
    }
}
