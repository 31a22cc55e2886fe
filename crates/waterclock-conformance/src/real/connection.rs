//! A simple Redis client for tests. It is deliberately not the client under test, so that tests do not prepare and verify
//! with the code they examine.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

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

/// A reply in the second version of Redis' protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing: a null string or a null array.
    Nil,
    /// A whole number.
    Int(i64),
    /// Bytes of any kind.
    Bulk(Vec<u8>),
    /// A short status such as `OK`.
    Simple(String),
    /// An error, starting with its kind: `WRONGTYPE …`, `MOVED …`.
    Error(String),
    /// Replies in a row.
    Array(Vec<Reply>),
}

impl Reply {
    /// The number, also where it came as text. Panics if it is none.
    #[track_caller]
    pub fn as_int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            Self::Bulk(_) | Self::Simple(_) => {
                self.as_text().parse().unwrap_or_else(|_| panic!("not a number: {self:?}"))
            }
            _ => panic!("not a number: {self:?}"),
        }
    }

    /// The text of a string, a status or a number. Panics if it is none of them.
    #[track_caller]
    pub fn as_text(&self) -> String {
        match self {
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Simple(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            _ => panic!("not a text: {self:?}"),
        }
    }

    /// The elements. Panics if it is no array.
    #[track_caller]
    pub fn as_array(&self) -> &[Reply] {
        match self {
            Self::Array(elements) => elements,
            _ => panic!("not an array: {self:?}"),
        }
    }

    /// The message, if this is an error.
    pub fn as_error(&self) -> Option<&str> {
        match self {
            Self::Error(message) => Some(message),
            _ => None,
        }
    }

    /// Whether there is nothing.
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// Whether this is the status `OK`.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Simple(status) if status == "OK")
    }

    /// The reply itself, unless it is an error: then it panics.
    #[track_caller]
    pub fn unwrap(self) -> Self {
        match self {
            Self::Error(message) => panic!("Redis error: {message}"),
            reply => reply,
        }
    }

    /// Reads one reply.
    fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").ok_or(ErrorKind::UnexpectedEof)?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(line))?;
        let number = || rest.parse::<i64>().map_err(|_| malformed(line));
        Ok(match kind {
            "+" => Self::Simple(rest.into()),
            "-" => Self::Error(rest.into()),
            ":" => Self::Int(number()?),
            "$" | "*" if number()? == -1 => Self::Nil,
            "$" => Self::Bulk(read_bulk(from, length(number()?)?)?),
            "*" => {
                let elements = (0..length(number()?)?).map(|_| Self::read(from));
                Self::Array(elements.collect::<io::Result<_>>()?)
            }
            _ => return Err(malformed(line)),
        })
    }
}

fn read_bulk(from: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(length + 2).read_to_end(&mut bytes)?;
    if !bytes.ends_with(b"\r\n") || bytes.len() as u64 != length + 2 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    bytes.truncate(bytes.len() - 2);
    Ok(bytes)
}

fn length(number: i64) -> io::Result<u64> {
    u64::try_from(number).map_err(|_| malformed("a negative length"))
}

fn malformed(line: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("not Redis' protocol: {line:?}"))
}
