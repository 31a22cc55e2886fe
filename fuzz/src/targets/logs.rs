//! Access logs and traces: any lines become events in the order of time, or are counted as unreadable.
//!
//! Lines before the first empty one are flags: `format jsonl`, `key EXPR`, `cost EXPR`, `where EXPR`, `tier EXPR`,
//! `time FIELD`, `unit ms`, `reorder 1s`, `spread`, `strict`, `delimiter ;`, `no-header`. The log is the rest.

use std::io::Cursor;

use libfuzzer_sys::Corpus;
use waterclock_config::{Config, MAX_KEY, Micros, PolicyConfig};
use waterclock_rehearse::fuzzing::events;
use waterclock_rehearse::trace::{Format, Input, Reading, TimeUnit};

thread_local! {
    static POLICY: PolicyConfig = Config::read("p", "policies.p.limits = ['5/s']\npolicies.p.tiers.pro.factor = 2")
        .and_then(|mut config| config.choose(None))
        .expect("valid");
}

pub fn run(data: &[u8]) -> Corpus {
    let end = data.windows(2).position(|pair| pair == b"\n\n").unwrap_or(0);
    let (flags, log) = data.split_at(end);
    let Ok(flags) = std::str::from_utf8(flags) else { return Corpus::Reject };
    let log = log.strip_prefix(b"\n\n").unwrap_or(log);
    let mut reading = Reading::default();
    for flag in flags.lines() {
        set(&mut reading, flag);
    }
    POLICY.with(|policy| match reading.format {
        None | Some(Format::Trace) => trace(&reading, log, policy),
        Some(format) => access_log(&reading, format, log, policy),
    });
    Corpus::Keep
}

fn set(reading: &mut Reading, flag: &str) {
    let (name, value) = flag.split_once(' ').unwrap_or((flag, ""));
    let text = || Some(value.to_owned());
    match name {
        "format" => {
            let all = [Format::Trace, Format::Combined, Format::Jsonl, Format::Csv];
            reading.format = all.into_iter().find(|format| format.name() == value);
        }
        "key" => reading.key = text(),
        "cost" if reading.cost.len() < 3 => reading.cost.push(value.to_owned()),
        "where" => reading.condition = text(),
        "tier" => reading.tier = text(),
        "time" => reading.time = text(),
        "unit" => {
            let all = [TimeUnit::S, TimeUnit::Ms, TimeUnit::Us, TimeUnit::Ns];
            reading.time_unit =
                all.into_iter().find(|unit| format!("{unit:?}").eq_ignore_ascii_case(value));
        }
        "reorder" => reading.reorder = Micros::parse_or_zero(value).ok(),
        "spread" => reading.spread = true,
        "strict" => reading.strict = true,
        "delimiter" => reading.delimiter = value.bytes().next().filter(u8::is_ascii_punctuation),
        "no-header" => reading.no_header = true,
        _ => {}
    }
}

fn access_log(reading: &Reading, format: Format, log: &[u8], policy: &PolicyConfig) {
    let Ok((events, end)) = events(reading, format, log.to_vec(), policy) else { return };
    let lines = log.split(|byte| *byte == b'\n').count();
    assert!(events.len() <= lines, "{} events of {lines} lines", events.len());
    assert!(events.iter().all(|event| event.key.len() <= MAX_KEY));
    if reading.reorder != Some(Micros(0)) {
        // In order, as far as lines that came too late permit: those take the time of the last one.
        assert!(events.is_sorted_by_key(|event| event.t_us));
    }
    if let Err(error) = end {
        assert!(!error.to_string().is_empty());
    }
}

fn trace(reading: &Reading, log: &[u8], policy: &PolicyConfig) {
    let input = Input::new("log", Cursor::new(log.to_vec()));
    let Ok(input) = input else { return };
    let mut reading = reading.clone();
    reading.format = Some(Format::Trace);
    let Ok(mut trace) = reading.open(input, &[policy], &[policy]) else { return };
    let (mut latest, mut many) = (0, 0);
    loop {
        match trace.next_event() {
            Ok(Some(event)) => {
                assert!(event.t_us >= latest && event.key.len() <= MAX_KEY);
                (latest, many) = (event.t_us, many + 1);
            }
            Ok(None) => break,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                break;
            }
        }
    }
    assert!(many <= log.split(|byte| *byte == b'\n').count());
}
