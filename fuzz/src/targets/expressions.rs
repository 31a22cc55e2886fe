//! Expressions over the lines of a log: parentheses around one change nothing, and an error points into it.

use libfuzzer_sys::Corpus;
use waterclock_config::{Config, PolicyConfig};
use waterclock_rehearse::fuzzing::events;
use waterclock_rehearse::trace::{Event, Format, Reading};

use crate::planted::planted;

const LOG: &str = r#"{"t_us":1,"ip":"203.0.113.77","status":503,"path":"/api/v1/users/7?x","size":1.1,"user":null,"ok":true}
{"t_us":2,"ip":"2001:db8:1:2:3::4","status":"200","path":"","size":-3,"user":"a b","ok":false,"deep":{"er":[1]}}
{"t_us":3,"ip":"::ffff:1.2.3.4","status":1e300,"path":"ü/\u0000","size":9007199254740993,"user":"","ok":"no"}
{"t_us":4}
"#;

thread_local! {
    static POLICY: PolicyConfig = Config::read("p", "policies.p.limits = ['5/s']")
        .and_then(|mut config| config.choose(None))
        .expect("valid");
}

pub fn run(data: &[u8]) -> Corpus {
    let Some((kind, text)) = data.split_first() else { return Corpus::Reject };
    let Ok(text) = std::str::from_utf8(text) else { return Corpus::Reject };
    let reading = |text: String| {
        let mut reading = Reading::default();
        match kind % 3 {
            0 => reading.key = Some(text),
            1 => reading.condition = Some(text),
            _ => reading.cost = vec![text],
        }
        reading
    };
    let plain = read(&reading(text.to_owned()));
    let mut wrapped = format!("({text})");
    if planted("and_binds_as_or_does") {
        wrapped = wrapped.replace(" and ", " or ");
    }
    let wrapped = read(&reading(wrapped));
    match (&plain, &wrapped) {
        (Ok(plain), Ok(wrapped)) => assert_eq!(plain, wrapped, "{text}"),
        (Err(error), _) => assert!(!error.is_empty()),
        // One more pair than may be nested.
        (Ok(_), Err(error)) => {
            assert!(error.contains("nested") || kind % 3 == 2, "{text}: {error}")
        }
    }
    Corpus::Keep
}

/// The events, or the problem with the expression. Problems with lines leave lines out.
fn read(reading: &Reading) -> Result<Vec<String>, String> {
    let show = |event: Event<'static>| format!("{} {:?} {:?}", event.t_us, event.key, event.cost);
    POLICY.with(|policy| {
        let read = events(reading, Format::Jsonl, LOG.into(), policy);
        let (events, _) = read.map_err(|error| error.to_string())?;
        Ok(events.into_iter().map(show).collect())
    })
}
