//! Requests as bytes, written before anything is measured.

pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n").into_bytes()
}

pub fn post(path: &str, body: &str) -> Vec<u8> {
    post_with("", path, body)
}

/// A prepared request.
pub fn post_as(user: &str, path: &str, body: &str) -> Vec<u8> {
    post_with(&format!("X-User: {user}\r\n"), path, body)
}

fn post_with(header: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: bench\r\n{header}Content-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
