//! One contestant's turn, from an empty Redis to an empty Redis.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Error;
use super::contestant::{Enter, Entrant};
use super::control::{Control, Spent};
use super::drive::{Keys, Load, Seen};
use super::quota::NARROW;
use crate::measure::median;

/// Callers that ask at once, and callers that all want the same last units.
pub const CALLERS: usize = 64;
pub const CROWD: usize = 200;

/// What a turn consists of.
pub struct Plan {
    /// How many keys are there before anything is timed; 0: none, and memory is not measured.
    pub filled: u64,
    pub keys: Keys,
    pub time: Duration,
    /// One call in so many is timed.
    pub timed: usize,
}

/// What a turn told, or the medians of several; per decision where nothing else is said.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Thousands of decisions per second.
    pub rate: f64,
    /// Microseconds, 64 callers.
    pub p50: f64,
    pub p99: f64,
    /// Microseconds, one caller.
    pub lone_p50: f64,
    pub lone_p99: f64,
    /// Microseconds of the client's and of Redis's processor time with 64 callers, and how much of
    /// the time the latter is.
    pub client: f64,
    pub cpu: f64,
    pub busy: f64,
    /// Commands with 64 callers, also those made by scripts.
    pub commands: BTreeMap<String, f64>,
    /// Round trips of one caller, each of which Redis reads once.
    pub trips: f64,
    /// Bytes per key, by `MEMORY USAGE` and by what Redis has in use, after one decision each.
    pub bytes: f64,
    pub used: f64,
    /// Bytes that every further decision adds.
    pub growth: f64,
    /// How many of the crowd passed; the worst of all turns.
    pub crowd: f64,
}

pub async fn take(enter: &Enter, port: u16, plan: &Plan) -> Result<Turn, Error> {
    let control = &mut Control::connect(port).await?;
    control.forget_everything().await?;
    let mut entrant = enter(port).await?;
    let entrant = entrant.as_mut();
    let (bytes, used) = match plan.filled {
        0 => (f64::NAN, f64::NAN),
        keys => fill(entrant, control, keys).await?,
    };
    let load = |callers, time| Load { keys: plan.keys.clone(), callers, time, timed: plan.timed };
    admit_all(entrant.drive(&load(CALLERS, plan.time / 4)).await?)?;
    let before = control.memory_of_keys().await?;
    let (many, spent) = watched(entrant, control, &load(CALLERS, plan.time)).await?;
    let growth = control.memory_of_keys().await? - before;
    let (lone, alone) = watched(entrant, control, &load(1, plan.time / 2)).await?;
    let crowd = entrant.crowd(CROWD, NARROW).await?;

    let per = |amount: f64, seen: &Seen| amount / seen.decisions as f64;
    let commands = spent.calls.iter().map(|(name, calls)| (name.clone(), per(*calls, &many)));
    Ok(Turn {
        rate: many.decisions as f64 / many.seconds / 1e3,
        p50: many.p50,
        p99: many.p99,
        lone_p50: lone.p50,
        lone_p99: lone.p99,
        client: per(many.cpu * 1e6, &many),
        cpu: per(spent.cpu * 1e6, &many),
        busy: spent.cpu / many.seconds,
        commands: commands.collect(),
        trips: per(alone.reads, &lone),
        bytes,
        used,
        growth: per(growth, &many),
        crowd: crowd as f64,
    })
}

/// Shows it every key once; bytes per key by `MEMORY USAGE` and in use.
async fn fill(
    entrant: &mut dyn Entrant,
    control: &mut Control,
    keys: u64,
) -> Result<(f64, f64), Error> {
    let before = control.used_memory().await?;
    let admitted = entrant.fill(keys, CALLERS).await?;
    if admitted != keys {
        return Err(format!("admitted {admitted} of {keys} new keys").into());
    }
    let used = control.used_memory().await? - before;
    let bytes = control.memory_of_keys().await?;
    Ok((bytes / keys as f64, used / keys as f64))
}

/// What the callers saw, and what it cost Redis.
async fn watched(
    entrant: &mut dyn Entrant,
    control: &mut Control,
    load: &Load,
) -> Result<(Seen, Spent), Error> {
    let before = control.read().await?;
    let seen = admit_all(entrant.drive(load).await?)?;
    Ok((seen, before.until(&control.read().await?)))
}

/// Refusals may be cheaper or dearer than admissions: here there must be none.
fn admit_all(seen: Seen) -> Result<Seen, Error> {
    if seen.admitted == seen.decisions {
        return Ok(seen);
    }
    Err(format!("admitted {} of {} decisions", seen.admitted, seen.decisions).into())
}

/// `None` of no turns.
pub fn medians(turns: &[Turn]) -> Option<Turn> {
    let of = |field: fn(&Turn) -> f64| median(turns.iter().map(field).collect());
    let furthest = |a: f64, b: f64| if (a - 10.0).abs() > (b - 10.0).abs() { a } else { b };
    let crowd = turns.iter().map(|turn| turn.crowd).reduce(furthest)?;
    Some(Turn {
        rate: of(|t| t.rate),
        p50: of(|t| t.p50),
        p99: of(|t| t.p99),
        lone_p50: of(|t| t.lone_p50),
        lone_p99: of(|t| t.lone_p99),
        client: of(|t| t.client),
        cpu: of(|t| t.cpu),
        busy: of(|t| t.busy),
        commands: turns.last()?.commands.clone(),
        trips: of(|t| t.trips),
        bytes: of(|t| t.bytes),
        used: of(|t| t.used),
        growth: of(|t| t.growth),
        crowd,
    })
}
