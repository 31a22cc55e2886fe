//! As much of the Redis protocol as there is in replies to `RL.CHECK` and `AUTH`.

/// One reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// An array of numbers, of which the first is 1 for allowed.
    Decision {
        allowed: bool,
    },
    Okay,
    Error(String),
}

/// What the bytes are not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotRedis;

/// The longest line and the largest array that are believed.
const MOST_BYTES: usize = 4_096;
const MOST_NUMBERS: usize = 16;

/// The reply at the beginning of the bytes and its length; nothing if there is more to come.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Reply, usize)>, NotRedis> {
    let Some((line, after)) = line(bytes, 0)? else { return Ok(None) };
    let text = String::from_utf8_lossy(line.get(1..).unwrap_or_default());
    match line.first() {
        Some(b'+') => Ok(Some((Reply::Okay, after))),
        Some(b'-') => Ok(Some((Reply::Error(text.into_owned()), after))),
        Some(b'*') => {
            let many: usize = text.parse().map_err(|_| NotRedis)?;
            if !(1..=MOST_NUMBERS).contains(&many) {
                return Err(NotRedis);
            }
            numbers(bytes, after, many)
        }
        _ => Err(NotRedis),
    }
}

fn numbers(bytes: &[u8], mut at: usize, many: usize) -> Result<Option<(Reply, usize)>, NotRedis> {
    let mut allowed = false;
    for place in 0..many {
        let Some((line, after)) = line(bytes, at)? else { return Ok(None) };
        let number = line.strip_prefix(b":").ok_or(NotRedis)?;
        if place == 0 {
            allowed = number == b"1";
        }
        at = after;
    }
    Ok(Some((Reply::Decision { allowed }, at)))
}

/// The line that begins here, and where the next one does.
fn line(bytes: &[u8], from: usize) -> Result<Option<(&[u8], usize)>, NotRedis> {
    let rest = bytes.get(from..).unwrap_or_default();
    match rest.iter().take(MOST_BYTES).position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = rest[..end].strip_suffix(b"\r").ok_or(NotRedis)?;
            Ok(Some((line, from + end + 1)))
        }
        None if rest.len() >= MOST_BYTES => Err(NotRedis),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_in_pieces() {
        let whole = b"*5\r\n:1\r\n:5\r\n:4\r\n:0\r\n:-1\r\n*5\r\n";
        for length in 0..whole.len() - 4 {
            assert_eq!(read(&whole[..length]), Ok(None), "{length}");
        }
        assert_eq!(read(whole), Ok(Some((Reply::Decision { allowed: true }, whole.len() - 4))));
        assert_eq!(read(b"*1\r\n:0\r\n"), Ok(Some((Reply::Decision { allowed: false }, 8))));
        assert_eq!(read(b"+OK\r\n"), Ok(Some((Reply::Okay, 5))));
        let error = Reply::Error("ERR there is no policy 'x'".to_owned());
        assert_eq!(read(b"-ERR there is no policy 'x'\r\n"), Ok(Some((error, 29))));
    }

    #[test]
    fn what_is_none() {
        let long = vec![b'+'; 5_000];
        for bytes in
            [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"*99999\r\n", b"*1\r\n+OK\r\n", b"+OK\n", &long]
        {
            assert_eq!(read(bytes), Err(NotRedis));
        }
    }
}
