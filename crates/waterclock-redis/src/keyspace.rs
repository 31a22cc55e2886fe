//! Where records lie: `prefix{hash of the key}mark`.
//!
//! The hash is 128 bits, keyed by a secret that all nodes share, so that Redis holds no client's key
//! and no client can choose keys that collide. It alone is the hash tag: all policies of one key share a
//! slot of a cluster, and a check over them is atomic there, too. The mark stands for the policy with
//! the algorithms and numbers by which its records are written.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// 24 bits: among 100 policies two share a mark once in 3 000 configurations, and that is noticed.
/// One more letter would cost 16 bytes per key, which then would no longer fit into 32.
const MARK_LETTERS: usize = 4;
pub(crate) const KEY_LETTERS: usize = 22;
/// What a reservation's key ends with; no mark has a colon.
const HELD: &[u8] = b":held";
pub(crate) const SLOTS: u16 = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark([u8; MARK_LETTERS]);

impl Mark {
    pub(crate) fn letters(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub(crate) fn read(letters: &str) -> Option<Self> {
        Self::of_letters(letters.as_bytes().try_into().ok()?)
    }

    pub(crate) fn of_letters(letters: [u8; MARK_LETTERS]) -> Option<Self> {
        letters.iter().all(|letter| ALPHABET.contains(letter)).then_some(Self(letters))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordKey {
    pub(crate) bytes: Vec<u8>,
    pub(crate) slot: u16,
}

pub(crate) struct Keyspace {
    pub(crate) prefix: String,
    secret: [u8; 32],
}

impl Keyspace {
    pub(crate) fn new(prefix: String, secret: &str) -> Self {
        Self {
            prefix,
            secret: blake3::derive_key("waterclock 2026 keys in a shared store", secret.as_bytes()),
        }
    }

    /// The same on every node, for the same name and the same numbers.
    pub(crate) fn mark(policy: &str, fingerprint: &[u8]) -> Mark {
        let mut hasher = blake3::Hasher::new();
        hasher.update(policy.as_bytes()).update(b"\0").update(fingerprint);
        let mut mark = [0; MARK_LETTERS];
        spell(&hasher.finalize().as_bytes()[..16], &mut mark);
        Mark(mark)
    }

    /// The key of a policy's definitions, which operators can read.
    pub(crate) fn definitions(&self, policy: &str) -> RecordKey {
        let bytes = format!("{}:policy:{policy}", self.prefix).into_bytes();
        let slot = crc16(&bytes) % SLOTS;
        RecordKey { bytes, slot }
    }

    pub(crate) fn record(&self, mark: Mark, key: &[u8]) -> RecordKey {
        self.tagged(&self.tag(key), &mark.0)
    }

    /// The record of a key of which only the tag is known.
    pub(crate) fn record_of(&self, mark: Mark, tag: &[u8; KEY_LETTERS]) -> RecordKey {
        self.tagged(tag, &mark.0)
    }

    /// Where a reservation is kept: found by its id alone.
    pub(crate) fn reservation(&self, id: &str) -> RecordKey {
        self.tagged(&self.tag(id.as_bytes()), HELD)
    }

    fn tag(&self, key: &[u8]) -> [u8; KEY_LETTERS] {
        let hash = blake3::keyed_hash(&self.secret, key);
        let mut tag = [0; KEY_LETTERS];
        spell(&hash.as_bytes()[..16], &mut tag);
        tag
    }

    fn tagged(&self, tag: &[u8; KEY_LETTERS], end: &[u8]) -> RecordKey {
        let mut bytes = Vec::with_capacity(self.prefix.len() + KEY_LETTERS + end.len() + 2);
        bytes.extend_from_slice(self.prefix.as_bytes());
        bytes.push(b'{');
        bytes.extend_from_slice(tag);
        bytes.push(b'}');
        bytes.extend_from_slice(end);
        RecordKey { bytes, slot: crc16(tag) % SLOTS }
    }
}

impl RecordKey {
    /// What stands for the key in the record of a policy.
    pub(crate) fn tag(&self) -> [u8; KEY_LETTERS] {
        let mut tag = [0; KEY_LETTERS];
        let end = self.bytes.len() - MARK_LETTERS - 1;
        tag.copy_from_slice(&self.bytes[end - KEY_LETTERS..end]);
        tag
    }

    /// The record of the same key under another mark.
    pub(crate) fn under(&self, mark: Mark) -> Self {
        let mut other = self.clone();
        let at = other.bytes.len() - MARK_LETTERS;
        other.bytes[at..].copy_from_slice(&mark.0);
        other
    }
}

/// Six bits a letter, as many letters as there is room for.
fn spell(bytes: &[u8], letters: &mut [u8]) {
    let mut number = bytes.iter().fold(0_u128, |n, byte| n << 8 | u128::from(*byte));
    for letter in letters {
        *letter = ALPHABET[(number % 64) as usize];
        number /= 64;
    }
}

/// The CRC by which a cluster finds a key's slot (XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // As in the cluster specification.
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }

    #[test]
    fn keys_hide_what_they_are_for_and_share_a_slot_per_key() {
        let space = Keyspace::new("wc".into(), "secret");
        let (a, b) = (Keyspace::mark("a", b"1"), Keyspace::mark("b", b"1"));
        let (alice, other) = (space.record(a, b"alice"), space.record(b, b"alice"));
        assert_eq!(alice.bytes.len(), 30);
        assert_eq!((alice.slot, alice.under(b)), (other.slot, other.clone()));
        assert_ne!(alice, other);
        assert_ne!(alice, space.record(Keyspace::mark("a", b"2"), b"alice"));
        assert_ne!(alice, Keyspace::new("wc".into(), "another").record(a, b"alice"));
        assert_ne!(alice.slot, space.record(a, b"bob").slot);
    }
}
