//! Reading limits that stand together: what none of them can know alone.

use std::collections::HashSet;

use waterclock::MAX_LIMITS;

use super::error::Fault;
use super::limit::{self, LimitRead};
use super::spec::LimitSpec;
use super::table::Field;

/// The limits, and the names of those that limit nothing. Nothing if there was something to
/// complain about.
pub(crate) fn read(field: &Field<'_>, mode: &str) -> Option<(Vec<LimitSpec>, Vec<String>)> {
    let elements = field.list().ok()?;
    let mut faults = Vec::new();
    if elements.is_empty() || elements.len() > MAX_LIMITS {
        let rest = format!("must hold 1 to {MAX_LIMITS} limits; found {}", elements.len());
        faults.push(field.fault(rest));
    }
    let reads: Vec<Option<LimitRead>> = elements.iter().map(limit::read).collect();
    let known: Vec<&LimitRead> = reads.iter().flatten().collect();
    faults.extend(twin_names(&known));
    faults.extend(mixed_units(&known, mode));
    faults.extend(not_uniform(&known, mode));
    let is_sound = faults.is_empty();
    faults.into_iter().for_each(|problem| field.faults.push(problem));
    let reads = reads.into_iter().collect::<Option<Vec<LimitRead>>>()?;
    is_sound.then(|| settle_names(reads))
}

fn twin_names(limits: &[&LimitRead]) -> impl Iterator<Item = Fault> {
    let mut seen = HashSet::new();
    limits.iter().filter_map(move |limit| {
        let name = limit.name.as_deref()?;
        let sentence =
            format!("two limits of one policy are named `{name}`; give each its own `name`");
        (!seen.insert(name)).then(|| Fault::at(limit.at, sentence))
    })
}

fn mixed_units(limits: &[&LimitRead], mode: &str) -> impl Iterator<Item = Fault> {
    let odd = limits.iter().find(|limit| limit.unit != limits[0].unit);
    odd.into_iter().filter(move |_| mode == "nary").map(|odd| {
        let (first, other) = (&limits[0].unit, &odd.unit);
        let sentence = format!(
            "limits of different units (`{first}` and `{other}`) cannot be used with mode = \"nary\": nobody knows of which unit a part would be granted"
        );
        Fault::at(odd.at, sentence)
    })
}

fn not_uniform(limits: &[&LimitRead], mode: &str) -> impl Iterator<Item = Fault> {
    let is_uniform = mode == "uniform";
    limits
        .iter()
        .filter(move |limit| is_uniform && limit.algorithm.as_ref().is_some_and(|algorithm| !algorithm.records_refusals()))
        .map(|limit| {
            let sentence = format!(
                "`{}` cannot be used with mode = \"uniform\"; only `fixed-window`, `sliding-window` and `rolling-window` record what they refuse",
                limit.word
            );
            Fault::at(limit.at, sentence)
        })
}

/// A limit without a name is called after its algorithm: `gcra`, `gcra-2`, `gcra-3`.
fn settle_names(reads: Vec<LimitRead>) -> (Vec<LimitSpec>, Vec<String>) {
    let mut taken: HashSet<String> = reads.iter().filter_map(|read| read.name.clone()).collect();
    let (mut limits, mut disabled) = (Vec::new(), Vec::new());
    for read in reads {
        let name = read.name.unwrap_or_else(|| free_name(read.word, &taken));
        taken.insert(name.clone());
        match read.algorithm {
            None => disabled.push(name),
            Some(algorithm) => limits.push(LimitSpec {
                name,
                algorithm,
                min_interval: read.min_interval,
                unit: read.unit,
                shadow: read.shadow,
            }),
        }
    }
    (limits, disabled)
}

fn free_name(word: &str, taken: &HashSet<String>) -> String {
    std::iter::once(word.to_owned())
        .chain((2..).map(|number: u32| format!("{word}-{number}")))
        .find(|name| !taken.contains(name))
        .unwrap_or_else(|| word.to_owned())
}
