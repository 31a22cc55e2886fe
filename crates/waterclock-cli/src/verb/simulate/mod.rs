//! `waterclock simulate`: made-up traffic meets limits, side by side, with a picture.

mod arrivals;
mod callers;
mod came;
mod drawing;
mod most;
mod recorded;
mod rehearsal;
mod subjects;
mod summary;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use waterclock::StoreError;
use waterclock_config::{Config, Micros};

use self::arrivals::Shape;
use self::came::Came;
use self::rehearsal::{Play, Rehearsal};
use self::subjects::Subject;
use crate::failure::Failure;
use crate::file::{Words, print_json, write_whole};
use crate::stage::Ruling;
use crate::trace::Reading;

/// What is simulated when nothing is said.
const UNSAID: &str = "10/s";

/// See what limits do to traffic before they do it: arrivals are made up and meet one or several limits.
///
/// waterclock simulate "100 per minute" "100 per minute sliding-window" --arrivals bursty --plot out.svg
///
/// Without limits and without a file: every algorithm at ten per second. The same seed gives the same
/// traffic. Virtual time starts at the Unix epoch.
#[derive(clap::Args)]
pub(crate) struct Simulate {
    /// Limits in a few words, such as "10/s" or "1000/1h sliding-window"; each is compared with the others
    #[arg(value_name = "LIMIT", conflicts_with_all = ["config", "policy"])]
    limits: Vec<String>,
    /// Compare every algorithm at the rate of the one LIMIT
    #[arg(long, conflicts_with_all = ["config", "policy"])]
    all: bool,
    /// Simulate policies of this configuration
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which of them; may be given several times [default: all]
    #[arg(short, long, value_name = "NAME")]
    policy: Vec<String>,
    /// How requests come: steady, poisson, bursty, diurnal, herd, or as in this trace or access log
    #[arg(long, value_name = "SHAPE|FILE", default_value = "bursty")]
    arrivals: String,
    /// How many come on average, such as "15/s" [default: half as many again as the first limit
    /// admits, for each key]
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// For how long, such as "30s" [default: ten of the first limit's periods]
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
    /// How many keys ask; the n-th asks 1/n as often as the first [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    keys: Option<u32>,
    /// How often somebody who is refused comes back when told
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Other traffic of the same kind [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Draw the picture into this SVG file; - for standard output
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write a page with the picture and the numbers into this file; - for standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// Traffic, and what each subject made of it.
struct Simulation {
    /// In one line: what came.
    lead: String,
    /// Whose level is drawn.
    watched: String,
    /// From when to when, in virtual time.
    from_us: u64,
    until_us: u64,
    played: Vec<(Subject, Rehearsal)>,
}

impl Simulate {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let files = [("--plot", self.plot.as_ref()), ("--html", self.html.as_ref())];
        let words = Words::beside(&files, self.json)?;
        let simulation = self.simulate()?;
        if self.json {
            print_json(&simulation.json())?;
        } else {
            let mut out = words.stream();
            simulation.write_summary(&mut out)?;
            if self.plot.is_none() && self.html.is_none() {
                writeln!(out, "For the picture: --plot out.svg, or --html out.html")?;
            }
        }
        if let Some(path) = &self.plot {
            write_whole(path, &simulation.picture().svg())?;
        }
        if let Some(path) = &self.html {
            write_whole(path, &simulation.page())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn simulate(&self) -> Result<Simulation, Failure> {
        let subjects = self.subjects()?;
        for Subject { spec, .. } in &subjects {
            if spec.built.reserves_only() {
                return Err(StoreError::reserves_only(&spec.name).to_string().into());
            }
        }
        let (units, per) = self.pace(&subjects)?;
        let came = match Shape::from_str(&self.arrivals, true) {
            Ok(shape) => self.made_up(shape, units, per, &subjects)?,
            Err(_) => self.read(&subjects)?,
        };
        let Came { lead, callers, kinds, tiers, arrivals, span_us: (from_us, until_us) } = came;
        let rehearse = |(Subject { name, spec }, kind): (Subject, usize)| {
            let play = Play {
                callers: &callers[kind],
                tiers: &tiers,
                from_us,
                until_us,
                retries: self.retries,
            };
            let ruling = Ruling::new(spec)?;
            let rehearsal = play
                .rehearse(&ruling, &arrivals, per.duration())
                .map_err(|error| Failure::from(error.to_string()))?;
            Ok((Subject { name, spec: ruling.into_spec() }, rehearsal))
        };
        let played =
            subjects.into_iter().zip(kinds).map(rehearse).collect::<Result<_, Failure>>()?;
        let watched = match &*callers {
            [only] => only.watched_name().to_owned(),
            _ => "the busiest key of each".to_owned(),
        };
        Ok(Simulation { lead, watched, from_us, until_us, played })
    }

    fn subjects(&self) -> Result<Vec<Subject>, Failure> {
        match (&*self.limits, &self.config) {
            ([], Some(file)) => subjects::of_file(Config::load(Some(file))?, &self.policy),
            ([], None) if !self.policy.is_empty() => {
                subjects::of_file(Config::load(None)?, &self.policy)
            }
            ([], None) => subjects::every_algorithm(UNSAID),
            ([only], _) if self.all => subjects::every_algorithm(only),
            (_, _) if self.all => {
                Err("--all takes one LIMIT, whose rate every algorithm gets".to_owned().into())
            }
            (limits, _) => limits.iter().map(|text| subjects::in_words(text)).collect(),
        }
    }

    /// What the first subject lets through in the long run.
    fn pace(&self, subjects: &[Subject]) -> Result<(u64, Micros), Failure> {
        let limits = subjects.iter().flat_map(|subject| &subject.spec.limits);
        let pace = limits.filter_map(subjects::rate).next();
        pace.ok_or_else(|| {
            "nothing here limits a rate, so there is nothing to see".to_owned().into()
        })
    }
}
