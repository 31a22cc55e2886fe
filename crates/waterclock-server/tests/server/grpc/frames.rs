//! Frames of HTTP/2 that no decent client would send.

const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const END_HEADERS: u8 = 4;

/// The code of a server that suspects an attack.
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

const PATH: &[u8] = b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The beginning of a connection on which every request is taken back in the same breath.
pub(super) fn taken_back(requests: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut bytes, SETTINGS, 0, 0, &[]);
    // POST over http, then the path and the authority, without an index.
    let mut head = vec![0x83, 0x86, 0x04, u8::try_from(PATH.len()).unwrap()];
    head.extend_from_slice(PATH);
    head.extend_from_slice(b"\x01\x01x");
    for request in 0..requests {
        let stream = 2 * request + 1;
        frame(&mut bytes, HEADERS, END_HEADERS, stream, &head);
        frame(&mut bytes, RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
    bytes
}

/// The error with which the server ended the connection, if it said so.
pub(super) fn goodbye(mut bytes: &[u8]) -> Option<u32> {
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let (payload, next) = rest.split_at_checked(usize::try_from(length).unwrap())?;
        if head[3] == GOAWAY {
            return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        bytes = next;
    }
    None
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    bytes.extend_from_slice(&length[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
}
