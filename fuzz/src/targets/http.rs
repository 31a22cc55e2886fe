//! Requests over HTTP/1.1: the plain path answers as hyper and the router do.
//!
//! The first byte says what the rest is: a whole request, the body of a check, or what follows the path of one.

use libfuzzer_sys::Corpus;
use waterclock_server::observe::Face;

use crate::server::{Scene, without_numbers};

thread_local! {
    static SCENES: [Scene; 2] = [Scene::new(Face::Http), Scene::new(Face::Http)];
}

pub fn run(data: &[u8]) -> Corpus {
    let Some((kind, bytes)) = data.split_first() else { return Corpus::Reject };
    let request = match kind % 4 {
        0 => bytes.to_vec(),
        1 => post("/v1/check", bytes),
        2 => post("/v1/peek", bytes),
        _ => {
            let after = String::from_utf8_lossy(bytes);
            format!("GET /v1/authorize?policy={after}\r\n\r\n").into_bytes()
        }
    };
    SCENES.with(|[ours, hypers]| {
        let plain = ours.runtime.block_on(ours.faces.http_plain(&request));
        // What is not plain is hyper's, and costs ten times as much: some of it.
        if plain.is_none() && kind % 16 > 2 {
            return;
        }
        let general = hypers.runtime.block_on(hypers.faces.http(&request));
        if let Some(plain) = plain {
            ours.forget();
            assert!(plain.starts_with(b"HTTP/1.1 ") && !plain.starts_with(b"HTTP/1.1 5"));
            assert_eq!(shown(&plain), shown(&general), "{}", String::from_utf8_lossy(&request));
        } else {
            let is_error =
                general.starts_with(b"HTTP/1.1 5") && !general.starts_with(b"HTTP/1.1 503");
            assert!(!is_error, "{}", String::from_utf8_lossy(&general));
        }
        hypers.forget();
    });
    Corpus::Keep
}

fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut request =
        format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    request.extend_from_slice(body);
    request
}

/// Without the date, and without times, which are long: periods are a year.
fn shown(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer).into_owned();
    let lines = text
        .split("\r\n")
        .filter(|line| !line.starts_with("date: ") && !line.starts_with("content-length: "));
    let text = lines.collect::<Vec<&str>>().join("\n");
    String::from_utf8_lossy(&without_numbers(text.as_bytes(), 6)).into_owned()
}
