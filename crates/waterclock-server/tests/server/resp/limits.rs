//! Each bound, at what is allowed and at one more.

use super::client::{Value, command};
use super::ground::Ground;

#[test]
fn arguments() {
    let (ground, mut client) = Ground::with_client();
    let words: Vec<String> = (0..64).map(|n| format!("w{n}")).collect();
    let Value::Error(text) = client.ask(&words) else { panic!("an error") };
    assert!(text.starts_with("ERR unknown command 'w0'"), "{text}");
    client.send(b"*65\r\n");
    assert_eq!(client.rest(), "-ERR Protocol error: invalid multibulk length\r\n");

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
    for (line, at) in [("RL.CHECK login ", 1), ("CL.THROTTLE ", 0)] {
        let rest = if at == 0 { " 1 1 60" } else { "" };
        assert_eq!(client.numbers(&format!("{line}{longest}{rest}")).len(), 5);
        let text = client.error(&format!("{line}{longer}{rest}"));
        assert!(text.ends_with("a key must be at most 1024 bytes long; found 1025"), "{text}");
    }
    let text = client.error(&format!("DEL k {longer}"));
    assert!(text.ends_with("a key must be at most 1024 bytes long; found 1025"), "{text}");
}

#[test]
fn different_numbers_at_a_time() {
    let (_ground, mut client) = Ground::with_client();
    for n in 0..1_000 {
        assert_eq!(client.numbers(&format!("CL.THROTTLE k{n} {n} 1 60"))[1], n + 1);
    }
    let text = client.error("CL.THROTTLE k 1000 1 60");
    assert_eq!(text, "ERR more than 1000 different combinations of max_burst, count and period");
    assert_eq!(client.numbers("CL.THROTTLE k 999 1 60")[0], 0, "known numbers still go");
}
