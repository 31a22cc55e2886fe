//! The parser, fed with anything, in any pieces.

use waterclock_server::resp::{Bounds, Fault, MANY_ARGUMENTS, Parser};

use super::client::command;

/// Every command in the bytes, and what ended it.
type Read = (Vec<Vec<Vec<u8>>>, Option<Fault>);

/// As a connection does it: bytes come in pieces, and what is consumed is forgotten.
fn read(bytes: &[u8], mut piece: impl FnMut() -> usize) -> Read {
    let (mut parser, mut commands, mut buffer) = (Parser::default(), Vec::new(), Vec::new());
    let mut rest = bytes;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(piece().clamp(1, rest.len()));
        buffer.extend_from_slice(now);
        rest = later;
        loop {
            match parser.read(&buffer, Bounds::KNOWN) {
                Ok(Some(length)) => {
                    assert!((1..=buffer.len()).contains(&length), "no progress, or too much");
                    let command = parser.command(&buffer);
                    let is_many = command.get(0).is_some_and(|name| name == b"RL.CHECKS");
                    assert!(command.len() <= if is_many { MANY_ARGUMENTS } else { 64 });
                    let arguments: Vec<_> = command.from(0).map(<[u8]>::to_vec).collect();
                    assert_eq!(arguments.len(), command.len());
                    assert!(arguments.iter().all(|argument| argument.len() <= 64 * 1024));
                    commands.push(arguments);
                    buffer.drain(..length);
                }
                Ok(None) => break,
                Err(fault) => return (commands, Some(fault)),
            }
        }
    }
    (commands, None)
}

fn valid(random: &mut fastrand::Rng) -> Vec<u8> {
    let words: Vec<Vec<u8>> = (0..random.usize(0..7))
        .map(|_| (0..random.usize(0..12)).map(|_| random.u8(..)).collect())
        .collect();
    match random.u8(..4) {
        0 => [&b"PING 'a b' \"c\" "[..], &[random.u8(b'a'..=b'z')], b"\r\n"].concat(),
        _ => command(&words),
    }
}

fn garbled(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..random.usize(1..5)).flat_map(|_| valid(random)).collect();
    for _ in 0..random.usize(0..4) {
        let at = random.usize(0..bytes.len());
        match random.u8(..5) {
            0 => bytes[at] = random.u8(..),
            1 => bytes[at] = *random.choice(b"*$\r\n-0123456789' \"").unwrap(),
            2 => bytes.truncate(at + 1),
            3 => bytes.insert(at, *random.choice(b"0123456789\r\n").unwrap()),
            _ => {
                let tail = bytes.split_off(at);
                bytes.extend_from_slice(&tail[random.usize(0..tail.len())..]);
                bytes.push(b'\n');
            }
        }
    }
    bytes
}

#[test]
fn in_pieces_or_whole_is_the_same() {
    let mut random = fastrand::Rng::with_seed(42);
    let (mut faults, mut commands) = (0, 0);
    for _ in 0..250_000 {
        let bytes = garbled(&mut random);
        let whole = read(&bytes, || usize::MAX);
        let pieces = read(&bytes, || random.usize(1..20));
        assert_eq!(whole, pieces, "{}", bytes.escape_ascii());
        faults += u32::from(whole.1.is_some());
        commands += whole.0.len();
    }
    // Neither is rare, or this would test nothing.
    assert!(faults > 20_000 && commands > 200_000, "{faults} faults, {commands} commands");
}

#[test]
fn what_is_sent_is_what_is_read() {
    let mut random = fastrand::Rng::with_seed(43);
    for _ in 0..20_000 {
        let words: Vec<Vec<u8>> = (0..random.usize(1..64))
            .map(|_| (0..random.usize(0..40)).map(|_| random.u8(..)).collect())
            .collect();
        let read = read(&command(&words), || random.usize(1..200));
        assert_eq!(read, (vec![words], None));
    }
}

/// One command may have more arguments than its parser keeps places for.
#[test]
fn many_arguments_of_one_command() {
    let mut random = fastrand::Rng::with_seed(5);
    let words = |count: usize, name: &str| -> Vec<Vec<u8>> {
        let rest = (1..count).map(|n| vec![b'x'; n % 9]);
        std::iter::once(name.as_bytes().to_vec()).chain(rest).collect()
    };
    for count in [64, 65, 66, 2_000, MANY_ARGUMENTS] {
        let (many, other) = (words(count, "RL.CHECKS"), words(9, "PING"));
        let bytes = [command(&many), command(&other), command(&many)].concat();
        for _ in 0..20 {
            let most = random.usize(1..5_000);
            let (commands, fault) = read(&bytes, || random.usize(1..=most));
            assert!(fault.is_none(), "{count}: {fault:?}");
            assert!(commands == [many.clone(), other.clone(), many.clone()], "{count}");
        }
    }
    for (count, name) in [(65, "RL.CHECK"), (65, "DEL"), (MANY_ARGUMENTS + 1, "RL.CHECKS")] {
        let (commands, fault) = read(&command(&words(count, name)), || 7);
        assert_eq!((commands.len(), fault), (0, Some(Fault::Arguments)), "{name}");
    }
    let mut parser = Parser::default();
    let many = command(&words(65, "RL.CHECKS"));
    assert_eq!(parser.read(&many, Bounds::STRANGER), Err(Fault::Arguments));
}
