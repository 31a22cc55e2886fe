//! `waterclock simulate`: generated or recorded traffic meets limits, side by side, with a picture.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use waterclock_config::{Config, Micros, did_you_mean};
use waterclock_rehearse::simulate::{
    Contender, MadeUp, Rate, Retries, RetryAfter, Shape, Simulation, Traffic,
};
use waterclock_rehearse::trace::Reading;
use waterclock_rehearse::warning_about;

use crate::configuration::load;
use crate::output::{Failure, TextOutput, print_json, warn, write_whole};
use crate::progress::{open_with_progress, recognise};

/// The limit without arguments.
const DEFAULT: &str = "10/s";

/// See what limits do to generated or recorded traffic, side by side, with a picture.
///
/// Example: waterclock simulate "100 per minute" "100 per minute sliding-window" --arrivals bursty --plot out.svg
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
    /// Simulate the policies of this configuration
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which of them; may be given several times [default: all]
    #[arg(short, long, value_name = "NAME")]
    policy: Vec<String>,
    /// How requests come: steady, poisson, bursty, diurnal, herd, or as in this trace or access log
    #[arg(long, value_name = "SHAPE|FILE", default_value = "bursty")]
    arrivals: String,
    /// Requests on average, such as "15/s" [default: 1.5 times what the first limit allows, for
    /// each key]
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// For how long, such as "30s" [default: ten of the first limit's periods]
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
    /// How many keys there are; the n-th asks 1/n as often as the first [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    keys: Option<u32>,
    /// How many times a refused client retries
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Whether clients that retry wait as Retry-After says, or ignore it and wait for --backoff; both are compared, and
    /// this one is drawn
    #[arg(long, value_enum, default_value_t = Advice::Honour, requires = "retries")]
    retry_after: Advice,
    /// The wait of clients that ignore Retry-After
    #[arg(long, value_name = "DURATION", default_value = "1s", requires = "retries")]
    backoff: String,
    /// The seed of generated traffic; the same seed gives the same traffic [default: 1]
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

/// What clients do with `Retry-After`.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Advice {
    Honour,
    Ignore,
}

impl Simulate {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let files = [("--plot", self.plot.as_ref()), ("--html", self.html.as_ref())];
        let text = TextOutput::beside(&files, self.json)?;
        let contenders = self.contenders()?;
        let traffic = match Shape::parse(&self.arrivals) {
            Some(shape) => self.made_up(shape, &contenders)?,
            None => self.recorded(&contenders)?,
        };
        traffic.notes().iter().for_each(|note| warn(&note.message));
        let warnings = contenders.iter().filter_map(|contender| warning_about(&contender.config));
        warnings.for_each(|warning| warn(&warning));
        let backoff = Micros::parse(&self.backoff).map_err(|rest| format!("--backoff {rest}"))?;
        let after = match self.retry_after {
            Advice::Honour => RetryAfter::Honour,
            Advice::Ignore => RetryAfter::Ignore { backoff },
        };
        let retries = Retries { most: self.retries, after };
        let simulation = Simulation::run(contenders, &traffic, retries, backoff)?;
        if self.json {
            print_json(&simulation.json())?;
        } else {
            let mut out = text.stream();
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

    fn contenders(&self) -> Result<Vec<Contender>, Failure> {
        let of_file = |config: Config| -> Result<Vec<Contender>, Failure> {
            let (contenders, warnings) = Contender::of_file(config, &self.policy)?;
            warnings.iter().for_each(|warning| warn(warning));
            Ok(contenders)
        };
        match (&*self.limits, &self.config) {
            ([], Some(file)) => of_file(Config::load(file)?),
            ([], None) if !self.policy.is_empty() => of_file(load(None)?),
            ([], None) => Ok(Contender::of_every_algorithm(DEFAULT)?),
            ([only], _) if self.all => Ok(Contender::of_every_algorithm(only)?),
            (_, _) if self.all => {
                Err("--all takes one LIMIT; every algorithm gets its rate".into())
            }
            (limits, _) => {
                Ok(limits.iter().map(|text| Contender::of_words(text)).collect::<Result<_, _>>()?)
            }
        }
    }

    fn made_up(&self, shape: Shape, contenders: &[Contender]) -> Result<Traffic, Failure> {
        let rate = |text: &String| {
            Rate::parse(text).ok_or_else(|| {
                format!(
                    "--rate must be a rate such as \"15/s\" or \"100 per minute\"; found {text:?}"
                )
            })
        };
        let duration = |text: &String| Micros::parse(text).map_err(|rest| format!("--for {rest}"));
        let asked = MadeUp {
            shape,
            rate: self.rate.as_ref().map(rate).transpose()?,
            duration: self.duration.as_ref().map(duration).transpose()?,
            keys: self.keys.unwrap_or(1),
            cost: self.reading.cost_of_generated()?,
            seed: self.seed.unwrap_or(1),
        };
        Ok(Traffic::make_up(&asked, contenders)?)
    }

    fn recorded(&self, contenders: &[Contender]) -> Result<Traffic, Failure> {
        let path = Path::new(&self.arrivals);
        let of_made_up = [
            ("--rate", self.rate.is_some()),
            ("--for", self.duration.is_some()),
            ("--keys", self.keys.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        if let Some((flag, _)) = of_made_up.iter().find(|(_, is_given)| *is_given) {
            return Err(
                format!("{flag} is for generated traffic; it cannot be used with a file").into()
            );
        }
        if path.as_os_str() != "-" && !path.exists() {
            let known = Shape::ALL.iter().map(|shape| shape.name());
            let list = known.clone().collect::<Vec<&str>>().join(", ");
            let (text, hint) = (&self.arrivals, did_you_mean(&self.arrivals, known));
            return Err(format!("--arrivals must be {list} or a file; found {text:?}{hint}").into());
        }
        let (reading, input) = recognise(&self.reading, open_with_progress(Some(path))?)?;
        Ok(Traffic::read(&self.arrivals, &reading, input, contenders)?)
    }
}
