//! Random traffic, written down in every way there is.

use std::fmt::Write;
use std::io::Write as _;

use fastrand::Rng;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;

/// One request.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) t_us: u64,
    address: String,
    cost: u64,
}

/// From a few addresses, in the order of time, some of them at once.
pub(super) fn traffic(count: usize, seed: u64) -> Vec<Visit> {
    let mut rng = Rng::with_seed(seed);
    let mut t_us = 1_760_000_000_000_000;
    let mut visit = || {
        t_us += [0, 1, 1_000, 50_000, 400_000][rng.usize(0..5)];
        let address = format!("192.0.2.{}", rng.u8(1..6));
        Visit { t_us, address, cost: rng.u64(0..4) }
    };
    (0..count).map(|_| visit()).collect()
}

pub(super) fn as_trace(visits: &[Visit]) -> String {
    let mut text = String::new();
    for Visit { t_us, address, cost } in visits {
        writeln!(text, r#"{{"t_us":{t_us},"key":"{address}","cost":{cost}}}"#).unwrap();
    }
    text
}

/// With fractions of seconds, in a zone of its own.
pub(super) fn as_combined(visits: &[Visit]) -> String {
    let mut text = String::new();
    for Visit { t_us, address, cost } in visits {
        let time = at(*t_us + 7_200_000_000).strftime("%d/%b/%Y:%H:%M:%S%.6f +0200").to_string();
        writeln!(text, r#"{address} - - [{time}] "GET /a HTTP/1.1" 200 {cost} "-" "x \"y\"""#)
            .unwrap();
    }
    text
}

pub(super) fn as_jsonl(visits: &[Visit]) -> String {
    let mut text = String::new();
    for Visit { t_us, address, cost } in visits {
        let time = at(*t_us);
        writeln!(text, r#"{{"from":{{"ip":"{address}"}},"sizes":[9,{cost}],"time":"{time}"}}"#)
            .unwrap();
    }
    text
}

pub(super) fn as_csv(visits: &[Visit]) -> String {
    let mut text = "address;cost;ts\r\n".to_owned();
    for Visit { t_us, address, cost } in visits {
        write!(text, "\"{address}\";{cost};{}.{:06}\r\n", t_us / 1_000_000, t_us % 1_000_000)
            .unwrap();
    }
    text
}

pub(super) fn compressed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn at(t_us: u64) -> Timestamp {
    Timestamp::from_microsecond(i64::try_from(t_us).unwrap()).unwrap()
}
