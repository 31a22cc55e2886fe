//! Times in every form, and what is none.

use super::*;

fn read(text: &str) -> Result<u64, String> {
    Instants::default().read(&Value::text(text), Unit::Auto)
}

#[test]
fn ways_to_say_it() {
    // 2000-10-10T20:55:36Z
    let t_us = 971_211_336_000_000;
    for text in [
        "10/Oct/2000:13:55:36 -0700",
        "[10/Oct/2000:13:55:36 -0700]",
        "10/oct/2000:20:55:36",
        "2000-10-10T20:55:36Z",
        "2000-10-10T22:55:36+02:00",
        "2000-10-10 20:55:36",
        "2000-10-10 20:55:36 UTC",
        "2000-10-11T02:25:36+0530",
        "2000-10-10T20:55:36.000000000Z",
        "971211336",
        "971211336.000",
        "971211336000",
        "971211336000000",
        "971211336000000000",
    ] {
        assert_eq!(read(text), Ok(t_us), "{text}");
    }
    assert_eq!(read("2000-10-10T20:55:36,25Z"), Ok(t_us + 250_000));
    assert_eq!(read("10/Oct/2000:13:55:36.1234567 -0700"), Ok(t_us + 123_456));
    assert_eq!(read("971211336.25"), Ok(t_us + 250_000));
    assert_eq!(read("2000-10-10T20:55Z"), Ok(t_us - 36_000_000));
}

/// The same text in fields of two units is not the same time.
#[test]
fn the_last_is_remembered_with_its_unit() {
    let mut instants = Instants::default();
    for (unit, expected) in [(Unit::S, 5_000_000), (Unit::S, 5_000_000), (Unit::Us, 5)] {
        assert_eq!(instants.read(&Value::text("5"), unit), Ok(expected));
    }
}

#[test]
fn what_is_no_time() {
    for text in [
        "",
        "-",
        "[",
        "now",
        "10/Okt/2000:13:55:36 -0700",
        "31/Feb/2000:00:00:00 +0000",
        "10/Oct/2000:13:55:36 -07:0",
        "10/Oct/2000:13:55:36 +9900",
        "2000-10-10",
        "2000-10-10X00:00:00",
        "2000-10-10T25:00:00Z",
        "1969-12-31T23:59:59Z",
        "-1",
        "9999-12-31T00:00:00Z",
        "2000-10-10T20:55:36.Z",
        "10/Oct/2000:13:55:36 é",
        "1é/Oct/2000:13:55:36",
    ] {
        assert!(read(text).is_err(), "{text}: {:?}", read(text));
    }
}

/// By another implementation.
#[test]
fn random_times_agree() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..2_000 {
        let micros = rng.i64(0..4_000_000_000_000_000);
        let time = jiff::Timestamp::from_microsecond(micros).unwrap();
        assert_eq!(read(&time.to_string()), u64::try_from(micros).map_err(|e| e.to_string()));
    }
}

#[test]
fn nothing_panics() {
    let mut rng = fastrand::Rng::with_seed(8);
    let alphabet: Vec<char> = "0123456789/:-+.TZ []Octé".chars().collect();
    for _ in 0..20_000 {
        let length = rng.usize(0..30);
        let text: String = (0..length).map(|_| alphabet[rng.usize(0..alphabet.len())]).collect();
        let _ = read(&text);
    }
}
