//! One request to a running server, for the commands that administer it.

use http::Method;
use hyper::body::Bytes;
use serde::Deserialize;

use super::block_on;
use crate::output::Failure;
use crate::server::{Connection, NoAnswer, Response, Server};

/// The body of a successful answer.
pub(super) fn ask(
    server: &Server,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<String, Failure> {
    let asked = async {
        let question = format!("{method} {path}");
        let answer: Result<Response, NoAnswer> = async {
            let mut connection = Connection::open(server).await?;
            let response = connection.ask(method, path, body).await?;
            match response.status.is_success() {
                true => Ok(response),
                false => Err(NoAnswer::of(&response, &question)),
            }
        }
        .await;
        match answer {
            Ok(response) => Ok(String::from_utf8_lossy(&response.body).into_owned()),
            Err(no_answer) => Err(server.explain(&no_answer).await),
        }
    };
    Ok(block_on(asked)??)
}

/// A body as JSON.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T, Failure> {
    serde_json::from_str(body)
        .map_err(|error| format!("the server's answer cannot be read: {error}").into())
}
