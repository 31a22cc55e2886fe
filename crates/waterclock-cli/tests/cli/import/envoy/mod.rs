//! Configurations of Envoy's reference rate limit service.

mod complaints;
mod examples;
mod model;
mod random;

use std::sync::Arc;

use waterclock::Mode;
use waterclock_config::{Config, RuleCharge};
use waterclock_server::engine::Engine;
use waterclock_server::observe::Metrics;
use waterclock_server::rules::{Effect, Entry};

use crate::support::Place;

/// What an imported file does with descriptors.
struct Imported {
    engine: Engine,
    place: Place,
}

/// What becomes of a descriptor, as far as a rule says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Free,
    Refused,
    /// So many requests per so many microseconds.
    Limited(u64, u64),
}

impl Imported {
    /// Runs the command, validates what it says and loads it.
    async fn new(files: &[&str]) -> Imported {
        let mut place = Place::new();
        let mut arguments = vec!["import".to_owned()];
        for (number, text) in files.iter().enumerate() {
            let name = format!("{number}.yaml");
            place = place.file(&name, text);
            arguments.push(name);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let run = place.run(&arguments);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let place = place.file("waterclock.toml", &run.stdout);
        let valid = place.run(&["validate"]);
        assert_eq!(valid.code, Some(0), "{}\n{}", valid.stderr, run.stdout);
        let config = Config::load(place.path("waterclock.toml")).unwrap();
        let engine = Engine::new(&config, Arc::new(Metrics::default())).await.unwrap();
        Imported { engine, place }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.place.path("waterclock.toml")).unwrap()
    }

    fn fate(&self, domain: &str, descriptor: &[(&str, &str)]) -> Fate {
        let plan = self.engine.plan();
        let entries = descriptor.iter().map(|(key, value)| (*key, value.as_bytes()));
        let descriptor: Vec<Entry<'_>> = entries.collect();
        let rule = plan.rules().find(domain, &descriptor);
        match rule.map(|rule| &rule.effect) {
            None | Some(Effect::Admit) => Fate::Free,
            Some(Effect::Refuse) => Fate::Refused,
            Some(Effect::Limit(served)) => {
                // As the reference service counts.
                assert_eq!(rule.map(|rule| rule.charge), Some(RuleCharge::Count));
                assert_eq!(served.scope().policy().mode(), Mode::CountRefusals);
                let limit = &served.config().limits()[0];
                assert_eq!(limit.align().map(|align| align.name()), Some("epoch"), "{limit:?}");
                let micros = u64::try_from(limit.period().unwrap().as_micros()).unwrap();
                Fate::Limited(limit.limit().unwrap(), micros)
            }
        }
    }
}
