//! The bytes of a key, without an allocation where that is possible.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Deref;

use crate::address::AddressKey;

/// Room for every address: the longest is an IPv6 address of 39 characters with a prefix of 4.
const INLINE: usize = 46;

/// The bytes of a key: a part of the request, a short text, or any other.
pub(crate) enum KeyBytes<'a> {
    Borrowed(&'a [u8]),
    Inline(Inline),
    Owned(Vec<u8>),
}

pub(crate) struct Inline {
    len: u8,
    bytes: [u8; INLINE],
}

impl Default for KeyBytes<'_> {
    fn default() -> Self {
        Self::Borrowed(&[])
    }
}

impl Deref for KeyBytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Inline(inline) => inline.as_bytes(),
            Self::Owned(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for KeyBytes<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(bytes)
    }
}

/// The text of an address or a network, as [`AddressKey`] displays it.
impl From<AddressKey> for KeyBytes<'_> {
    fn from(key: AddressKey) -> Self {
        let mut text = Inline { len: 0, bytes: [0; INLINE] };
        let (first, prefix) = key.parts();
        match first {
            IpAddr::V4(address) => text.push_all(address.octets(), b'.', Inline::push_decimal),
            IpAddr::V6(address) => text.push_ipv6(address),
        }
        if let Some(prefix) = prefix {
            text.push(b'/');
            text.push_decimal(prefix);
        }
        Self::Inline(text)
    }
}

impl Inline {
    #[inline]
    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// There is room for every address.
    fn push(&mut self, byte: u8) {
        if let Some(free) = self.bytes.get_mut(usize::from(self.len)) {
            *free = byte;
            self.len += 1;
        }
    }

    fn push_all<T>(
        &mut self,
        numbers: impl IntoIterator<Item = T>,
        separator: u8,
        push: impl Fn(&mut Self, T),
    ) {
        for (i, number) in numbers.into_iter().enumerate() {
            if i > 0 {
                self.push(separator);
            }
            push(self, number);
        }
    }

    fn push_decimal(&mut self, number: u8) {
        if number >= 100 {
            self.push(b'0' + number / 100);
        }
        if number >= 10 {
            self.push(b'0' + number / 10 % 10);
        }
        self.push(b'0' + number % 10);
    }

    fn push_hexadecimal(&mut self, number: u16) {
        let digits = (4 - number.leading_zeros() / 4).max(1);
        for at in (0..digits).rev() {
            let digit = usize::from(number >> (4 * at) & 0xf);
            self.push(b"0123456789abcdef"[digit]);
        }
    }

    /// As RFC 5952 has it: two colons stand for the first of the longest runs of zeros.
    fn push_ipv6(&mut self, address: Ipv6Addr) {
        let segments = address.segments();
        let (mut run, mut longest) = (0..0, 0..0);
        for (i, segment) in segments.into_iter().enumerate() {
            let start = if run.end == i { run.start } else { i };
            run = start..if segment == 0 { i + 1 } else { start };
            if run.len() > longest.len() {
                longest = run.clone();
            }
        }
        let [before, after] = match longest.len() {
            ..2 => [&segments[..], &[]],
            _ => [&segments[..longest.start], &segments[longest.end..]],
        };
        self.push_all(before.iter().copied(), b':', Self::push_hexadecimal);
        if longest.len() > 1 {
            self.push(b':');
            self.push(b':');
        }
        self.push_all(after.iter().copied(), b':', Self::push_hexadecimal);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::KeyBytes;
    use crate::ClientIp;

    #[test]
    fn an_address_is_its_text() {
        let mut addresses = vec![
            IpAddr::from([0, 0, 0, 0]),
            IpAddr::from([255, 255, 255, 255]),
            IpAddr::from([1, 10, 100, 209]),
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::LOCALHOST.into(),
            Ipv6Addr::from_bits(u128::MAX).into(),
            "2001:db8:1:2:3::4".parse().unwrap(),
        ];
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            addresses.push(Ipv4Addr::from_bits(random.u32(..)).into());
            // With short segments, and runs of zeros of every length.
            let segments = [(); 8].map(|()| match random.u8(..4) {
                0 | 1 => 0,
                _ => random.u16(..) >> random.u8(..16),
            });
            addresses.push(segments.into());
        }
        for address in addresses {
            for bits in [1, 48, 64, 128] {
                let key = ClientIp::default().ipv6_prefix(bits).unwrap().group(address);
                let bytes = KeyBytes::from(key);
                assert_eq!(&*bytes, key.to_string().as_bytes());
            }
        }
    }
}
