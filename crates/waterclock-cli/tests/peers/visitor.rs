//! A client with an address of its own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

/// Longer than any answer takes, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client with an address of its own. All of 127.0.0.0/8 is the loopback.
#[derive(Clone, Copy)]
pub(crate) struct Visitor {
    address: Ipv4Addr,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    headers: Vec<(String, String)>,
}

impl Visitor {
    /// The client at 127.0.0.`last`.
    pub(crate) fn at(last: u8) -> Self {
        Self { address: Ipv4Addr::new(127, 0, 0, last) }
    }

    #[track_caller]
    pub(crate) fn get(self, port: u16, path: &str) -> Answer {
        self.get_with(port, path, &[])
    }

    /// Asks with more headers.
    #[track_caller]
    pub(crate) fn get_with(self, port: u16, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let question = format!(
            "GET {path} HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n{headers}\r\n"
        );
        let mut stream = self.connect(port);
        stream.write_all(question.as_bytes()).expect("the connection takes a request");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer arrives, and the connection ends");
        Answer::parse(&String::from_utf8_lossy(&bytes))
    }

    fn connect(self, port: u16) -> TcpStream {
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .expect("a socket can be made");
        bind(&socket, &SocketAddrV4::new(self.address, 0)).expect("127.0.0.0/8 is the loopback");
        connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
            .unwrap_or_else(|error| panic!("cannot connect to port {port}: {error}"));
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout above zero");
        stream
    }
}

impl Answer {
    #[track_caller]
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let status = status.unwrap_or_else(|| panic!("that is no HTTP: {text:?}"));
        Self { status, body: body.to_owned(), headers }
    }

    /// The value of a header; the name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a header that must be there, as a number.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        let number = self.header(name).and_then(|value| value.parse().ok());
        number.unwrap_or_else(|| panic!("no number in {name}: {self:?}"))
    }
}
