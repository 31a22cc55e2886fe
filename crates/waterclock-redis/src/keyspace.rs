//! Where records lie: `prefix{hash of the key}mark`.
//!
//! The hash is 128 bits, keyed by a secret that all nodes share, so that Redis holds no client's key
//! and no client can choose keys that collide. It alone is the hash tag: all policies of one key share a
//! slot of a cluster, and a check over them is atomic there, too. The mark stands for the policy, whatever its
//! numbers are; those by which a record was written are named by the tag inside it.

use std::sync::LazyLock;

use waterclock::Timestamp;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// 24 bits: among 100 policies two share a mark once in 3 000 configurations, and that is noticed.
/// One more letter would cost 16 bytes per key, which then would no longer fit into 32.
const MARK_LETTERS: usize = 4;
pub(crate) const TAG_DIGITS: usize = 3;
pub(crate) const KEY_LETTERS: usize = 22;
/// What a reservation's key ends with; no mark has a colon.
const HELD: &[u8] = b":held";
/// What the key ends with that lists overrides.
const LISTED: &[u8] = b":over";
/// What the key ends with that has what is due of a record.
const DUE: &[u8] = b":due";
/// The hash tag of policies that are kept; that of a record is longer.
const KEPT: &str = "policies";
pub(crate) const SLOTS: u16 = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark([u8; MARK_LETTERS]);

/// Which of a policy's definitions a record was written by: three digits. `000` is for records that do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tag([u8; TAG_DIGITS]);

impl Tag {
    /// Of records that policies of any numbers can read.
    pub(crate) const ANY: Self = Self(*b"000");

    pub(crate) fn read(digits: &[u8]) -> Option<Self> {
        let digits: [u8; TAG_DIGITS] = digits.try_into().ok()?;
        digits.iter().all(u8::is_ascii_digit).then_some(Self(digits))
    }

    /// The tag that a definition gets unless another one has it: 1 to 999.
    pub(crate) fn preferred(definition: &str) -> Self {
        let hash = blake3::hash(definition.as_bytes());
        let [a, b, c, d, ..] = *hash.as_bytes();
        let number = u32::from_be_bytes([a, b, c, d]) % 999 + 1;
        let digit = |of: u32| b'0' + u8::try_from(number / of % 10).unwrap_or(0);
        Self([digit(100), digit(10), digit(1)])
    }

    /// The tag of a record.
    pub(crate) fn of_record(record: &[u8]) -> Option<Self> {
        match record {
            [1 | 2, rest @ ..] => Self::read(rest.get(..TAG_DIGITS)?),
            _ => {
                let number = record.split(|byte| matches!(byte, b' ' | b'+')).next()?;
                Self::read(number.get(number.len().checked_sub(TAG_DIGITS)?..)?)
            }
        }
    }

    pub(crate) fn digits(&self) -> &[u8; TAG_DIGITS] {
        &self.0
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
    /// Of the texts of keys that have an override.
    sealing: [u8; 32],
}

impl Keyspace {
    pub(crate) fn new(prefix: String, secret: &str) -> Self {
        Self {
            prefix,
            secret: blake3::derive_key("waterclock 2026 keys in a shared store", secret.as_bytes()),
            sealing: blake3::derive_key("waterclock 2026 texts of keys", secret.as_bytes()),
        }
    }

    /// The same on every node, for the same name.
    pub(crate) fn mark(policy: &str) -> Mark {
        let mut mark = [0; MARK_LETTERS];
        spell(&blake3::hash(policy.as_bytes()).as_bytes()[..16], &mut mark);
        Mark(mark)
    }

    /// The key of a policy's definitions, which operators can read.
    pub(crate) fn definitions(&self, policy: &str) -> RecordKey {
        self.named(&format!(":policy:{policy}"))
    }

    /// Where nodes are counted.
    pub(crate) fn nodes(&self) -> RecordKey {
        self.named(":nodes")
    }

    /// Where policies are kept as text, and in which order they changed: in one slot.
    pub(crate) fn kept(&self) -> [RecordKey; 2] {
        let slot = crc16(KEPT.as_bytes()) % SLOTS;
        ["", ":order"].map(|end| RecordKey {
            bytes: format!("{}{{{KEPT}}}{end}", self.prefix).into_bytes(),
            slot,
        })
    }

    fn named(&self, name: &str) -> RecordKey {
        let bytes = format!("{}{name}", self.prefix).into_bytes();
        let slot = crc16(&bytes) % SLOTS;
        RecordKey { bytes, slot }
    }

    pub(crate) fn record(&self, mark: Mark, key: &[u8]) -> RecordKey {
        self.hashed(&letters(&self.hash(key)), &mark.0)
    }

    /// The record of a key by its hash.
    pub(crate) fn record_by(&self, mark: Mark, hash: &[u8; 16]) -> RecordKey {
        self.hashed(&letters(hash), &mark.0)
    }

    /// Where it is listed which keys of a slot have an override, in the same slot.
    pub(crate) fn listed(&self, mark: Mark, slot: u16) -> RecordKey {
        let tag = &SLOT_TAGS[usize::from(slot)];
        let bytes = [self.prefix.as_bytes(), b"{", tag, b"}", &mark.0, LISTED].concat();
        RecordKey { bytes, slot }
    }

    /// The text of a key, for those who have the secret only. The hash of the key, which is a keyed one itself, makes
    /// each text's stream another, and tells whether it was opened as it was.
    pub(crate) fn seal(&self, key: &[u8]) -> Vec<u8> {
        self.stream(&self.hash(key), key)
    }

    pub(crate) fn unseal(&self, hash: &[u8; 16], sealed: &[u8]) -> Option<Vec<u8>> {
        let key = self.stream(hash, sealed);
        (self.hash(&key) == *hash).then_some(key)
    }

    fn stream(&self, hash: &[u8; 16], text: &[u8]) -> Vec<u8> {
        let mut stream = vec![0; text.len()];
        blake3::Hasher::new_keyed(&self.sealing).update(hash).finalize_xof().fill(&mut stream);
        stream.iter().zip(text).map(|(a, b)| a ^ b).collect()
    }

    /// The record of a key of which only the hash is known.
    pub(crate) fn record_of(&self, mark: Mark, hash: &[u8; KEY_LETTERS]) -> RecordKey {
        self.hashed(hash, &mark.0)
    }

    /// In place of the record of a key that nothing limits.
    pub(crate) fn unlimited(&self, record: &RecordKey) -> RecordKey {
        self.hashed(&record.hash(), &Self::mark("@unlimited").0)
    }

    /// Where a reservation is kept: found by its id alone.
    pub(crate) fn reservation(&self, id: &str) -> RecordKey {
        self.hashed(&letters(&self.hash(id.as_bytes())), HELD)
    }

    /// What stands for a key: a hash that only those with the secret can make.
    pub(crate) fn hash(&self, key: &[u8]) -> [u8; 16] {
        let hash = blake3::keyed_hash(&self.secret, key);
        hash.as_bytes()[..16].try_into().unwrap_or_default()
    }

    fn hashed(&self, hash: &[u8; KEY_LETTERS], end: &[u8]) -> RecordKey {
        let mut bytes = Vec::with_capacity(self.prefix.len() + KEY_LETTERS + end.len() + 2);
        bytes.extend_from_slice(self.prefix.as_bytes());
        bytes.push(b'{');
        bytes.extend_from_slice(hash);
        bytes.push(b'}');
        bytes.extend_from_slice(end);
        RecordKey { bytes, slot: crc16(hash) % SLOTS }
    }
}

fn letters(hash: &[u8; 16]) -> [u8; KEY_LETTERS] {
    let mut letters = [0; KEY_LETTERS];
    spell(hash, &mut letters);
    letters
}

/// A hash tag of every slot.
static SLOT_TAGS: LazyLock<Vec<[u8; 4]>> = LazyLock::new(|| {
    let (mut tags, mut left) = (vec![[0; 4]; SLOTS.into()], SLOTS);
    // Every slot is found long before four letters are used up.
    for number in 0..u32::MAX {
        let mut tag = [0; 4];
        spell(&number.to_be_bytes(), &mut tag);
        let slot = usize::from(crc16(&tag) % SLOTS);
        if tags[slot] == [0; 4] {
            (tags[slot], left) = (tag, left - 1);
            if left == 0 {
                break;
            }
        }
    }
    tags
});

/// By what it is found what is due of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueId(pub(crate) [u8; 8]);

impl DueId {
    /// Of a reservation; an id that is used again later is another one.
    pub(crate) fn new(id: &str, expires_at: Timestamp) -> Self {
        let hash = hash_of(id, expires_at);
        let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
        Self([a, b, c, d, e, f, g, h])
    }
}

fn hash_of(id: &str, expires_at: Timestamp) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&expires_at.as_nanos().to_be_bytes()).update(id.as_bytes());
    hasher.finalize()
}

impl RecordKey {
    /// Where it is noted what is due of this key.
    pub(crate) fn due(&self) -> Self {
        Self { bytes: [&*self.bytes, DUE].concat(), slot: self.slot }
    }

    /// Where it is noted what a reservation holds of this key and others of its slot. An id that is used again later
    /// is another reservation.
    pub(crate) fn note(&self, id: &str, expires_at: Timestamp) -> Self {
        let mut letters = [0; KEY_LETTERS];
        spell(&hash_of(id, expires_at).as_bytes()[..16], &mut letters);
        let mut bytes = self.bytes.clone();
        bytes.push(b':');
        bytes.extend_from_slice(&letters);
        Self { bytes, slot: self.slot }
    }

    /// What stands for the key.
    pub(crate) fn hash(&self) -> [u8; KEY_LETTERS] {
        let mut hash = [0; KEY_LETTERS];
        let end = self.bytes.len() - MARK_LETTERS - 1;
        hash.copy_from_slice(&self.bytes[end - KEY_LETTERS..end]);
        hash
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
    fn every_slot_has_a_list_of_its_own() {
        let space = Keyspace::new("wc".into(), "secret");
        for slot in (0..SLOTS).step_by(77).chain([SLOTS - 1]) {
            let key = space.listed(Keyspace::mark("p"), slot);
            let tag = &key.bytes[3..7];
            assert_eq!((crc16(tag) % SLOTS, key.slot), (slot, slot));
        }
    }

    #[test]
    fn keys_hide_what_they_are_for_and_share_a_slot_per_key() {
        let space = Keyspace::new("wc".into(), "secret");
        let (a, b) = (Keyspace::mark("a"), Keyspace::mark("b"));
        let (alice, other) = (space.record(a, b"alice"), space.record(b, b"alice"));
        assert_eq!(alice.bytes.len(), 30);
        assert_eq!(alice.slot, other.slot);
        assert_ne!(alice, other);
        assert_ne!(alice, Keyspace::new("wc".into(), "another").record(a, b"alice"));
        assert_ne!(alice.slot, space.record(a, b"bob").slot);
    }

    #[test]
    fn a_record_names_the_definition_it_was_written_by() {
        let tag = Tag::read(b"042").unwrap();
        for record in [
            &b"1791000000000000042"[..],
            b"0042",
            b"1791000000000000042 17",
            b"\x01042...",
            b"0042+5+9",
            b"0042 3+5+9",
            b"\x02042...",
        ] {
            assert_eq!(Tag::of_record(record), Some(tag), "{record:?}");
        }
        for record in [&b""[..], b"42", b"hello", b"\x0104", b"\x01xyz"] {
            assert_eq!(Tag::of_record(record), None, "{record:?}");
        }
    }
}
