//! Bytes that came and are not understood yet.

use super::parse::LONGEST_COMMAND;

/// What is read at once, as a rule.
const USUAL: usize = 16 * 1024;

/// A buffer that grows with what is there, never with what is announced.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        Inbox { bytes: vec![0; USUAL], from: 0, to: 0 }
    }

    /// What came and was not consumed.
    #[inline]
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.from == self.to
    }

    #[inline]
    pub(super) fn consume(&mut self, len: usize) {
        self.from = (self.from + len).min(self.to);
    }

    /// Room for more, at its end. There always is some: a command that fills the largest buffer is
    /// whole or a fault.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.is_empty() {
            (self.from, self.to) = (0, 0);
            if self.bytes.len() > USUAL {
                self.bytes = vec![0; USUAL];
            }
        } else if self.from > 0 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        if self.to == self.bytes.len() {
            let larger = (self.bytes.len() * 2).min(LONGEST_COMMAND + 1);
            self.bytes.resize(larger, 0);
        }
        &mut self.bytes[self.to..]
    }

    /// So many bytes came into the room.
    pub(super) fn came(&mut self, len: usize) {
        self.to = (self.to + len).min(self.bytes.len());
    }
}
