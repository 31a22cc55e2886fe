//! Rows of words: summed while they are written, taken apart while they are read.

use std::io::{self, Write};

use waterclock_core::Policy;
use waterclock_core::store::{Decide as _, Logs, Persist as _, State};

use crate::table::Saved;

/// Adds a word. Each step can be undone, so no single changed word goes unnoticed.
fn add(sum: u64, word: u64) -> u64 {
    let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// The sum over all words but the last, which is that.
pub(super) fn sum_holds(bytes: &[u8]) -> bool {
    let mut words = Words(bytes);
    let mut sum = 0;
    while let Some(word) = words.next() {
        if words.0.is_empty() {
            return word == sum;
        }
        sum = add(sum, word);
    }
    false
}

/// Words on their way out.
pub(super) struct Summed<'a, W> {
    out: &'a mut W,
    sum: u64,
    pub(super) written: u64,
    bytes: Vec<u8>,
}

impl<'a, W: Write> Summed<'a, W> {
    pub(super) fn new(out: &'a mut W) -> Self {
        Self { out, sum: 0, written: 0, bytes: Vec::new() }
    }

    pub(super) fn write(&mut self, words: &[u64]) -> io::Result<()> {
        self.bytes.clear();
        for word in words {
            self.sum = add(self.sum, *word);
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.written += self.bytes.len() as u64;
        self.out.write_all(&self.bytes)
    }

    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.write(&[self.sum])?;
        self.out.flush()?;
        Ok(self.written)
    }
}

/// Adds a text.
pub(crate) fn push_text(text: &str, to: &mut Vec<u64>) {
    push_bytes(text.as_bytes(), to);
}

/// Adds bytes as a text is added.
pub(crate) fn push_bytes(bytes: &[u8], to: &mut Vec<u64>) {
    to.push(bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        to.push(u64::from_le_bytes(word));
    }
}

/// Words on their way in. Nothing is ever allocated for more than there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl<'a> Words<'a> {
    pub(super) fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.next()?).ok()?;
        let padded = len.checked_next_multiple_of(8)?;
        let (bytes, rest) = self.0.split_at_checked(padded)?;
        self.0 = rest;
        Some(&bytes[..len])
    }

    /// The state of one key under a policy, in place of what was in `saved`, if it is one.
    pub(super) fn state(&mut self, policy: &Policy, saved: &mut Saved) -> Option<()> {
        saved.words.resize(policy.words(), 0);
        for word in &mut saved.words {
            *word = self.next()?;
        }
        if policy.keeps_logs() {
            self.logs(policy, saved)?;
        }
        let state = State::new(&mut saved.words, &mut saved.logs);
        policy.is_sound(state.view()).then_some(())
    }

    fn logs(&mut self, policy: &Policy, saved: &mut Saved) -> Option<()> {
        saved.logs = Logs::new();
        for at in policy.log_words() {
            let entries = self.next()?;
            let (mut log, mut total) = (Vec::new(), 0_u64);
            for _ in 0..entries {
                let entry = (self.next()?, self.next()?);
                total = total.checked_add(entry.1)?;
                log.push(entry);
            }
            saved.words[at] = saved.logs.put(log);
        }
        Some(())
    }
}
