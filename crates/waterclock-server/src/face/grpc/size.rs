//! How large a request becomes when it is decoded, known before it is.
//!
//! An empty descriptor has two bytes in a message and fifty in memory. So descriptors and entries are counted in the
//! message itself, without allocating anything.

use super::proto::{Entry, RateLimitDescriptor};

/// Groups within groups; protobuf decoders allow so many.
const MAX_DEPTH: usize = 100;

/// What a message holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) descriptors: usize,
    /// Of all descriptors together.
    pub(super) entries: usize,
}

impl Size {
    /// Reads the tags of a message. `None` if it cannot be decoded.
    pub(super) fn of(message: &[u8]) -> Option<Size> {
        const DESCRIPTORS: u32 = 2;
        const ENTRIES: u32 = 1;
        let mut size = Size::default();
        each_field(message, |number, descriptor| {
            if number != DESCRIPTORS {
                return Some(());
            }
            size.descriptors += 1;
            each_field(descriptor?, |number, entry| {
                if number == ENTRIES {
                    entry?;
                    size.entries += 1;
                }
                Some(())
            })
        })?;
        Some(size)
    }

    /// Bytes of the decoded request beside its texts. Lists may have room for twice as many as they hold.
    pub(super) fn decoded(self) -> usize {
        2 * (self.descriptors * size_of::<RateLimitDescriptor>()
            + self.entries * size_of::<Entry>())
    }
}

/// Visits the fields of a message by number, with the bytes of those that have a length.
pub(crate) fn each_field<'m>(
    mut message: &'m [u8],
    mut visit: impl FnMut(u32, Option<&'m [u8]>) -> Option<()>,
) -> Option<()> {
    while !message.is_empty() {
        let (number, kind) = tag(&mut message)?;
        let bytes = skip(&mut message, number, kind)?;
        visit(number, bytes)?;
    }
    Some(())
}

/// The number of a field and its wire type.
fn tag(message: &mut &[u8]) -> Option<(u32, u8)> {
    let key = u32::try_from(varint(message)?).ok()?;
    let (number, kind) = (key >> 3, u8::try_from(key & 7).ok()?);
    (number > 0 && kind < 6).then_some((number, kind))
}

/// Reads over a value. The bytes of one that has a length.
fn skip<'m>(message: &mut &'m [u8], number: u32, kind: u8) -> Option<Option<&'m [u8]>> {
    match kind {
        0 => varint(message).map(|_| None),
        1 => take(message, 8).map(|_| None),
        2 => {
            let length = usize::try_from(varint(message)?).ok()?;
            take(message, length).map(Some)
        }
        3 => skip_group(message, number).map(|()| None),
        5 => take(message, 4).map(|_| None),
        // The end of a group that has not begun.
        _ => None,
    }
}

fn skip_group(message: &mut &[u8], number: u32) -> Option<()> {
    let mut open = vec![number];
    while let Some(group) = open.last().copied() {
        match tag(message)? {
            (_, 3) if open.len() >= MAX_DEPTH => return None,
            (inner, 3) => open.push(inner),
            (ended, 4) => {
                if ended != group {
                    return None;
                }
                open.pop();
            }
            (inner, kind) => {
                skip(message, inner, kind)?;
            }
        }
    }
    Some(())
}

fn take<'m>(message: &mut &'m [u8], length: usize) -> Option<&'m [u8]> {
    let (taken, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(taken)
}

/// At most ten bytes, of which the last may only be 1.
fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..10 {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        if at == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::super::proto::RateLimitRequest;
    use super::*;

    fn decoded(message: &[u8]) -> Option<Size> {
        let request = RateLimitRequest::decode(message).ok()?;
        let entries = request.descriptors.iter().map(|descriptor| descriptor.entries.len()).sum();
        Some(Size { descriptors: request.descriptors.len(), entries })
    }

    fn request(random: &mut fastrand::Rng) -> RateLimitRequest {
        let entry = |random: &mut fastrand::Rng| Entry {
            key: "k".repeat(random.usize(..3)),
            value: vec![0xff; random.usize(..200)],
        };
        let descriptor = |random: &mut fastrand::Rng| RateLimitDescriptor {
            entries: (0..random.usize(..5)).map(|_| entry(random)).collect(),
            hits_addend: random.bool().then(|| random.u64(..)),
            is_negative_hits: random.bool(),
            ..Default::default()
        };
        RateLimitRequest {
            domain: "d".repeat(random.usize(..3)),
            descriptors: (0..random.usize(..9)).map(|_| descriptor(random)).collect(),
            hits_addend: random.u32(..),
        }
    }

    #[test]
    fn counts_what_a_decoder_finds() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut broken = 0;
        for round in 0..200_000 {
            let mut message = if round % 2 == 0 {
                request(&mut random).encode_to_vec()
            } else {
                // Mostly small numbers: tags and short lengths.
                let byte = |random: &mut fastrand::Rng| match random.u8(..8) {
                    0 => random.u8(..),
                    1 => [0x0a, 0x12, 0x13, 0x14, 0x80][random.usize(..5)],
                    _ => random.u8(..24),
                };
                (0..random.usize(..24)).map(|_| byte(&mut random)).collect()
            };
            for _ in 0..random.usize(..3) {
                if let Some(byte) = random.choice(&mut message) {
                    *byte = random.u8(..);
                }
            }
            match (Size::of(&message), decoded(&message)) {
                (size, Some(decoded)) => assert_eq!(size, Some(decoded), "{message:02x?}"),
                (_, None) => broken += 1,
            }
        }
        assert!((1_000..190_000).contains(&broken), "{broken}");
    }

    #[test]
    fn groups_are_read_over() {
        let nested = |depth: usize| [vec![0x2b; depth], vec![0x2c; depth]].concat();
        for (message, is_fine) in
            [(nested(1), true), (nested(50), true), (nested(200), false), (vec![0x2b, 0x34], false)]
        {
            assert_eq!(Size::of(&message).is_some(), is_fine, "{message:02x?}");
            assert_eq!(decoded(&message).is_some(), is_fine, "{message:02x?}");
        }
    }
}
