//! Each bound, at what is allowed and at one more.

use super::client::{Value, command};
use super::ground::Ground;

#[test]
fn arguments() {
    let (ground, mut client) = Ground::with_client();
    let words: Vec<String> = (0..64).map(|n| format!("w{n}")).collect();
    let Value::Error(text) = client.ask(&words) else { panic!("an error") };
    assert!(text.starts_with("ERR unknown command 'w0'"), "{text}");
    // Only `RL.CHECKS` may have more, so the name decides.
    for bytes in [&b"*65\r\n$3\r\nDEL\r\n"[..], b"*3081\r\n"] {
        let mut client = ground.client();
        client.send(bytes);
        assert_eq!(client.rest(), "-ERR Protocol error: invalid multibulk length\r\n");
    }

    let mut client = ground.client();
    client.send(format!("{}\r\n", words.join(" ")).as_bytes());
    assert!(matches!(client.read(), Value::Error(text) if text.contains("'w0'")));
    client.send(format!("{} more\r\n", words.join(" ")).as_bytes());
    assert_eq!(client.rest(), "-ERR Protocol error: invalid multibulk length\r\n");
}

#[test]
fn bytes_of_an_argument() {
    let (ground, mut client) = Ground::with_client();
    let longest = "x".repeat(64 * 1024);
    assert_eq!(client.ask(&["ECHO", &longest]), Value::bulk(&longest));
    client.send(b"*2\r\n$4\r\nECHO\r\n$65537\r\n");
    assert_eq!(client.rest(), "-ERR Protocol error: invalid bulk length\r\n");

    // A line counts as one argument, its line end not included.
    let mut client = ground.client();
    let line = format!("ECHO {}", "x".repeat(64 * 1024 - 5));
    client.send(format!("{line}\r\n").as_bytes());
    assert_eq!(client.read(), Value::bulk(&line[5..]));
    client.send(format!("{line}xx\n").as_bytes());
    assert_eq!(client.rest(), "-ERR Protocol error: too big request\r\n");
}

#[test]
fn bytes_of_a_command() {
    let (_ground, mut client) = Ground::with_client();
    let full = vec![b'x'; 64 * 1024];
    let mut words: Vec<&[u8]> = vec![b"NOSUCH"];
    words.extend([full.as_slice(); 15]);
    let left = 1024 * 1024 - command(&words).len();
    // `$12345` and two line ends.
    let last = vec![b'x'; left - 10];
    words.push(&last);
    assert_eq!(command(&words).len(), 1024 * 1024);
    assert!(matches!(client.ask(&words), Value::Error(text) if text.contains("NOSUCH")));
    let longer = vec![b'x'; left - 9];
    words[16] = &longer;
    client.send(&command(&words)[..1024 * 1024 - left + 8]);
    assert_eq!(client.rest(), "-ERR Protocol error: too big request\r\n");
}

#[test]
fn bytes_of_a_key() {
    let (_ground, mut client) = Ground::with_client();
    let (longest, longer) = ("k".repeat(1_024), "k".repeat(1_025));
    for (line, rest, many) in [("RL.CHECK login ", "", 6), ("CL.THROTTLE ", " 1 1 60", 5)] {
        assert_eq!(client.numbers(&format!("{line}{longest}{rest}")).len(), many);
        let text = client.error(&format!("{line}{longer}{rest}"));
        assert!(text.ends_with("a key must be at most 1024 bytes long; found 1025"), "{text}");
    }
    let text = client.error(&format!("DEL k {longer}"));
    assert!(text.ends_with("a key must be at most 1024 bytes long; found 1025"), "{text}");
}

#[test]
fn different_numbers_give_way_to_others() {
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(client.numbers("CL.THROTTLE spent 4 1 3600 5"), [0, 5, 0, -1, 18_000]);
    for n in 0..3_000 {
        assert_eq!(client.numbers(&format!("CL.THROTTLE k{n} {n} 1 60"))[1], n + 1);
        assert_eq!(client.numbers("CL.THROTTLE used 0 1 3600")[0], i64::from(n > 0), "{n}");
    }
    // The key kept its state, which is the instant at which it is full again.
    let found = client.numbers("CL.THROTTLE spent 4 1 3600");
    assert_eq!(found[..3], [1, 5, 0]);
    let found = client.numbers("CL.THROTTLE k7 7 1 60 0");
    assert_eq!(found[..3], [0, 8, 7]);
}

#[test]
fn numbers_that_give_way_decide_nothing_wrongly() {
    let ground = Ground::start();
    let (flood, many) = (&ground, 1_500);
    std::thread::scope(|scope| {
        for at in 0..2 {
            scope.spawn(move || {
                let mut client = flood.client();
                for n in 0..many {
                    let burst = 2 * n + at;
                    let found = client.numbers(&format!("CL.THROTTLE f{at} {burst} 1 1"));
                    assert_eq!(found[1], burst + 1);
                }
            });
        }
        for at in 0..2 {
            scope.spawn(move || {
                let mut client = flood.client();
                let admitted: i64 = (0..many)
                    .map(|_| 1 - client.numbers(&format!("CL.THROTTLE h{at} 99 1 3600"))[0])
                    .sum();
                assert_eq!(admitted, 100);
            });
        }
    });
}

#[test]
fn how_long_a_period_may_be() {
    let config = format!("[server]\nmax_throttle_period = \"1h\"\n{}", super::ground::POLICIES);
    let ground = Ground::with(&config, crate::at_work::hurried());
    let mut client = ground.client();
    assert_eq!(client.numbers("CL.THROTTLE k 0 1 3600")[..2], [0, 1]);
    assert_eq!(client.numbers("CL.THROTTLE k 999 1 3600")[1], 1_000);
    let text = client.error("CL.THROTTLE k 0 1 3601");
    let expected = "a period of 3601 s is too long; `max_throttle_period` in [server] allows 1h";
    assert!(text.contains(expected), "{text}");
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(client.numbers("CL.THROTTLE k 0 1 31622400")[1], 1);
    assert!(client.error("CL.THROTTLE k 0 1 31622401").contains("allows 366d"));
    // What filled places for a hundred years.
    assert!(client.error("CL.THROTTLE k 0 1 3153600000").contains("allows 366d"));
}
