//! `waterclock bench` against a real server: what it counts is what the server counted.

mod complaints;
mod counts;
mod life;

use serde_json::Value;

use crate::serve::process::Serving;
use crate::support::{Place, Run};

const CONFIG: &str = "[policies.p]\nlimits = [\"5/h\"]\n\
    [policies.wide]\nlimits = [\"1000000/s\"]\n\
    [policies.part]\nmode = \"nary\"\nlimits = [\"5/h\"]\n\
    [[rules]]\ndomain = \"d\"\npolicy = \"p\"\ndescriptor = [{ key = \"user\" }]\n\
    [[rules]]\ndomain = \"d\"\npolicy = \"part\"\ndescriptor = [{ key = \"guest\" }]\n";

fn serve() -> Serving {
    Serving::start(Place::with_config(CONFIG))
}

fn bench(url: &str, arguments: &[&str]) -> Run {
    Place::new().run(&[&["bench", url], arguments].concat())
}

/// The report of a run that must succeed.
fn report(url: &str, arguments: &[&str]) -> Value {
    let run = bench(url, &[arguments, &["--json"]].concat()).ok();
    run.json()
}

/// What the server has counted for a policy at a face: allowed and refused.
fn counted(serving: &Serving, policy: &str, face: &str) -> (u64, u64) {
    let metrics = serving.client().get("/metrics").text;
    let of = |outcome: &str| {
        let labels = [
            format!("policy=\"{policy}\""),
            format!("outcome=\"{outcome}\""),
            format!("face=\"{face}\""),
        ];
        let is_it = |line: &&str| {
            line.starts_with("waterclock_decisions_total{")
                && labels.iter().all(|label| line.contains(label))
        };
        let line = metrics.lines().find(is_it).expect("a counter");
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    (of("allow"), of("deny"))
}

fn pair(report: &Value) -> (u64, u64) {
    (report["allowed"].as_u64().unwrap(), report["refused"].as_u64().unwrap())
}
