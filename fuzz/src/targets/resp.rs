//! The parser of the Redis protocol: any bytes, in any pieces. It must not panic, must make progress,
//! and must find the same commands and the same fault however the bytes are cut.

use libfuzzer_sys::Corpus;
use waterclock_server::resp::{Bounds, Fault, Parser};

use crate::planted::planted;

pub fn run(data: &[u8]) -> Corpus {
    let Some((cut, bytes)) = data.split_first() else { return Corpus::Reject };
    let whole = read(bytes, bytes.len());
    assert_eq!(whole, read(bytes, usize::from(*cut % 16) + 1));
    Corpus::Keep
}

fn read(bytes: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, Option<Fault>) {
    let is_cut = piece < bytes.len() && planted("an_empty_word_is_lost_in_pieces");
    let (mut parser, mut commands, mut buffer) = (Parser::default(), Vec::new(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            match parser.read(&buffer, Bounds::KNOWN) {
                Ok(Some(length)) => {
                    assert!((1..=buffer.len()).contains(&length));
                    let command = parser.command(&buffer);
                    let is_lost = |word: &&[u8]| is_cut && word.is_empty();
                    let words = command.from(0).filter(|word| !is_lost(word));
                    commands.push(words.map(<[u8]>::to_vec).collect());
                    buffer.drain(..length);
                }
                Ok(None) => break,
                Err(fault) => return (commands, Some(fault)),
            }
        }
    }
    (commands, None)
}
