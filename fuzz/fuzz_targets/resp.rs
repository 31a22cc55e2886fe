//! The parser of the Redis protocol: any bytes, in any pieces. It must not panic, must make progress,
//! and must find the same commands and the same fault however the bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waterclock_server::resp::{Bounds, Fault, Parser};

fuzz_target!(|data: &[u8]| {
    let Some((cut, bytes)) = data.split_first() else { return };
    let whole = read(bytes, bytes.len());
    assert_eq!(whole, read(bytes, usize::from(*cut % 16) + 1));
});

fn read(bytes: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, Option<Fault>) {
    let (mut parser, mut commands, mut buffer) = (Parser::default(), Vec::new(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            match parser.read(&buffer, Bounds::KNOWN) {
                Ok(Some(length)) => {
                    assert!((1..=buffer.len()).contains(&length));
                    let command = parser.command(&buffer);
                    commands.push(command.from(0).map(<[u8]>::to_vec).collect());
                    buffer.drain(..length);
                }
                Ok(None) => break,
                Err(fault) => return (commands, Some(fault)),
            }
        }
    }
    (commands, None)
}
