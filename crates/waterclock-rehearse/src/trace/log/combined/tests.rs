//! Lines of servers, and lines of nobody.

use super::names::{EXTRA, MOST_EXTRA};
use super::*;

fn fields(line: &str) -> Vec<(String, String)> {
    let row = Combined::parse(line).unwrap();
    let found = |place| Some((row.name(place), row.value(place).into_text()?.into_owned()));
    (0..EXTRA + MOST_EXTRA).filter_map(found).collect()
}

fn assert_fields(line: &str, expected: &str) {
    let found: Vec<String> =
        fields(line).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(found.join("|"), expected, "{line}");
}

#[test]
fn lines_of_servers() {
    assert_fields(
        r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?x=1&y HTTP/1.0" 200 2326"#,
        "client_ip=127.0.0.1|user=frank|time=10/Oct/2000:13:55:36 -0700|method=GET|path=/a.gif|query=x=1&y|uri=/a.gif?x=1&y|protocol=HTTP/1.0|status=200|bytes=2326",
    );
    assert_fields(
        r#"example.com:443 2001:db8::1 - - [t] "POST / HTTP/2.0" 304 - "-" "curl \"x\" \x41" 0.005 "10.0.0.1, 10.0.0.2" -"#,
        r#"client_ip=2001:db8::1|time=t|method=POST|path=/|uri=/|protocol=HTTP/2.0|status=304|bytes=0|agent=curl "x" A|host=example.com:443|extra_1=0.005|extra_2=10.0.0.1, 10.0.0.2"#,
    );
    assert_fields(
        r#"host.example - john smith [t] "GET http://proxied.example/p q HTTP/1.1" 200 5 0.1 0.2"#,
        "client_ip=host.example|user=john smith|time=t|method=GET|path=/p q|uri=http://proxied.example/p q|protocol=HTTP/1.1|status=200|bytes=5|extra_1=0.1|extra_2=0.2",
    );
    assert_fields(
        r#"1.2.3.4 - x [11/Oct/2000:00:00:00 +0000] y [t] "\x16\x03" 400 0 "" "-""#,
        "client_ip=1.2.3.4|user=x [11/Oct/2000:00:00:00 +0000] y|time=t|status=400|bytes=0|referer=",
    );
    assert_fields(
        r#"203.0.113.5 2001:db8::7 - john smith [t] "-" 408 0"#,
        "client_ip=2001:db8::7|user=john smith|time=t|status=408|bytes=0|host=203.0.113.5",
    );
    assert_fields(
        r#"203.0.113.5 ident user [t] "-" 408 0"#,
        "client_ip=203.0.113.5|ident=ident|user=user|time=t|status=408|bytes=0",
    );
    assert_fields(r#"1.2.3.4 - - [t] "-" 408 0"#, "client_ip=1.2.3.4|time=t|status=408|bytes=0");
}

#[test]
fn what_is_no_such_line() {
    for line in [
        "",
        "hello",
        r#"{"time": 1}"#,
        r#"1.2.3.4 - - "GET / HTTP/1.1" 200 1"#,
        r#"1.2.3.4 [t] "GET / HTTP/1.1" 200 1"#,
        r#"1.2.3.4 - - [t] "GET / HTTP/1.1"#,
        r#"1.2.3.4 - - [t] "GET / HTTP/1.1" 2x0 1"#,
        r#"1.2.3.4 - - [t] "GET / HTTP/1.1" 200 1x"#,
        r#"1.2.3.4 - - [t] "GET /\" 200 1"#,
    ] {
        assert!(Combined::parse(line).is_err(), "{line}");
    }
}

#[test]
fn nothing_panics() {
    let mut rng = fastrand::Rng::with_seed(1);
    let pieces =
        ["\"", "[", "]", " ", "-", "\\", "é", "1.2.3.4", "200", "GET /", "?", "HTTP/1.1", "\\x4"];
    for _ in 0..50_000 {
        let length = rng.usize(0..25);
        let line: String = (0..length).map(|_| pieces[rng.usize(0..pieces.len())]).collect();
        let line =
            if rng.bool() { format!("1.2.3.4 - - [t] \"GET /\" 200 1 {line}") } else { line };
        if let Ok(row) = Combined::parse(&line) {
            (0..EXTRA + MOST_EXTRA).for_each(|place| drop(row.value(place)));
        }
    }
}
