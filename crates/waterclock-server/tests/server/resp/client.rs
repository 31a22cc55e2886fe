//! A client that sends exact bytes, and reads either version of the protocol.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What a server may answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Text(String),
    Null,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    pub(crate) fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    pub(crate) fn ok() -> Value {
        Value::Simple("OK".to_owned())
    }
}

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends what may not arrive any more.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    pub(crate) fn ask<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Value {
        self.send(&command(arguments));
        self.read()
    }

    /// The numbers that a decision is made of.
    pub(crate) fn numbers(&mut self, line: &str) -> Vec<i64> {
        let words: Vec<&str> = line.split(' ').collect();
        let values = match self.ask(&words) {
            Value::Array(values) => values,
            other => panic!("{line}: {other:?} are no numbers"),
        };
        let number = |value| {
            let Value::Integer(number) = value else { panic!("{line}: {value:?}") };
            number
        };
        values.into_iter().map(number).collect()
    }

    pub(crate) fn error(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        match self.ask(&words) {
            Value::Error(text) => text,
            other => panic!("{line}: {other:?} is no error"),
        }
    }

    pub(crate) fn read(&mut self) -> Value {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let len = || rest.parse::<usize>().unwrap();
        match kind {
            "+" => Value::Simple(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Integer(rest.parse().unwrap()),
            "_" => Value::Null,
            "$" if rest == "-1" => Value::Null,
            "$" => Value::Bulk(self.bytes(len())),
            "=" => Value::Text(String::from_utf8(self.bytes(len())).unwrap()),
            "*" => Value::Array((0..len()).map(|_| self.read()).collect()),
            "%" => Value::Map((0..len()).map(|_| (self.read(), self.read())).collect()),
            _ => panic!("{line:?}"),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(line.ends_with("\r\n"), "{line:?} does not end in a line end");
        line.truncate(line.len() - 2);
        line
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes.split_off(len), b"\r\n");
        bytes
    }

    /// Whatever comes until the server closes, in whatever state.
    pub(crate) fn rest_ignored(&mut self) {
        let mut bytes = [0; 65_536];
        let end = loop {
            match self.stream.read(&mut bytes) {
                Ok(1..) => {}
                end => break end,
            }
        };
        let kind = end.err().map(|error| error.kind());
        assert!(
            matches!(kind, None | Some(ErrorKind::ConnectionReset)),
            "the server did not close"
        );
    }

    /// Everything until the server closes. A reset is as good as an end.
    pub(crate) fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut bytes) {
            let kind = error.kind();
            assert_eq!(kind, ErrorKind::ConnectionReset, "the server did not close");
        }
        String::from_utf8(bytes).unwrap()
    }
}

/// As clients send it.
pub(crate) fn command<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
