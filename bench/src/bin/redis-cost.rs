//! What one call costs Redis, by algorithm and by the length of its log: microseconds of its time and bytes of reply.

use std::process::ExitCode;
use std::time::Duration;

use waterclock::{
    Charge, Concurrency, FixedWindow, Gcra, Hold, LeakyBucket, Limit, OnExpiry, Policy, Quota,
    RollingWindow, SlidingWindow, Store, Verb,
};
use waterclock_bench::remote::Error;
use waterclock_bench::remote::server::Server;
use waterclock_redis::RedisStore;

const HOUR: Duration = Duration::from_secs(3_600);
const CALLS: u64 = 2_000;
/// Callers at once.
const CALLERS: u64 = 16;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(Error::from).and_then(|runtime| runtime.block_on(run())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// A case: a policy, how much of it is used before, one unit at a time, and whether units are reserved.
struct Case {
    name: String,
    limits: Vec<Limit>,
    used: u64,
    reserves: bool,
}

fn case(name: &str, limit: impl Into<Limit>, used: u64) -> Case {
    Case { name: name.to_owned(), limits: vec![limit.into()], used, reserves: false }
}

fn cases() -> Result<Vec<Case>, Error> {
    let many = 1_000_000_000;
    let gcra = Gcra::new(1_000_000, Duration::from_secs(1))?.with_capacity(many);
    let mut cases = vec![
        case("gcra", gcra, 1),
        case("gcra in fractions", Gcra::new(7_777_777, HOUR)?, 1),
        case("leaky-bucket", LeakyBucket::new(many, 2, Duration::from_millis(1))?, 1),
        case("fixed-window", FixedWindow::new(many, HOUR)?, 1),
        case("sliding-window", SlidingWindow::new(many, HOUR)?, 1),
        case("quota", Quota::new(many, HOUR)?, 1),
    ];
    for log in [100, 10_000, 65_536] {
        for (used, state) in [(log - CALLS.min(log / 2), "with room"), (log, "full")] {
            let name = format!("rolling-window of {log}, {state}");
            cases.push(case(&name, RollingWindow::new(log, HOUR)?, used));
        }
    }
    for places in [100, 10_000] {
        let name = format!("concurrency of {places}, full");
        let limit = Concurrency::new(places, HOUR)?;
        cases.push(Case { reserves: true, ..case(&name, limit, places) });
    }
    let eight = (0..8).map(|n| Limit::from(gcra).with_name(&format!("l{n}"))).collect();
    cases.push(Case {
        name: "8 limits of gcra".to_owned(),
        limits: eight,
        used: 1,
        reserves: false,
    });
    Ok(cases)
}

async fn run() -> Result<(), Error> {
    let server = Server::start(None)?;
    let url = format!("redis://127.0.0.1:{}", server.port);
    let client = redis::Client::open(&*url)?;
    let mut watch = client.get_multiplexed_async_connection().await?;
    println!("Redis {}; {CALLERS} callers of one key, {CALLS} calls.\n", server.version);
    println!("| policy | check: µs | bytes | peek: µs | bytes |\n|---|---|---|---|---|");
    for (number, case) in cases()?.into_iter().enumerate() {
        let case = std::rc::Rc::new(case);
        let prefix = format!("case{number}");
        let builder = RedisStore::builder(&url).prefix(&prefix).denied_keys(0);
        let store = builder.deadline(Duration::from_secs(10)).connect().await?;
        store.set_policy(Policy::new("p", case.limits.clone())?).await?;
        use_up(&store, &case).await?;
        let mut row = format!("| {} ", case.name);
        for verb in [Verb::Check, Verb::Peek] {
            let before = spent(&mut watch).await?;
            let callers = tokio::task::LocalSet::new();
            for _ in 0..CALLERS {
                let (store, case) = (store.clone(), std::rc::Rc::clone(&case));
                callers.spawn_local(async move {
                    for _ in 0..CALLS / CALLERS {
                        call(&store, &case, verb).await.expect("Redis answers");
                    }
                });
            }
            callers.await;
            let after = spent(&mut watch).await?;
            let (time, bytes) = ((after.0 - before.0) / CALLS as f64, (after.1 - before.1) / CALLS);
            row += &format!("| {time:.1} | {bytes} ");
        }
        println!("{row}|");
    }
    Ok(())
}

/// Uses units one by one, each at an instant of its own.
async fn use_up(store: &RedisStore, case: &Case) -> Result<(), Error> {
    for number in 0..case.used {
        let charges = [charge(1)];
        if case.reserves {
            let id = format!("hold{number}");
            let (ttl, on_expiry) = (Some(HOUR), OnExpiry::Keep);
            store.reserve(&Hold { id: Some(&id), ttl, charges: &charges, on_expiry }).await?;
        } else {
            store.apply(Verb::Check, &charges).await?;
        }
    }
    Ok(())
}

async fn call(store: &RedisStore, case: &Case, verb: Verb) -> Result<(), Error> {
    let charges = [charge(1)];
    if case.reserves && verb == Verb::Check {
        let (ttl, on_expiry) = (Some(HOUR), OnExpiry::Keep);
        store.reserve(&Hold { id: Some("more"), ttl, charges: &charges, on_expiry }).await?;
    } else {
        store.apply(verb, &charges).await?;
    }
    Ok(())
}

fn charge(cost: u64) -> Charge<'static> {
    Charge::new("p", b"key", cost)
}

/// Microseconds in scripts, and bytes sent, so far.
async fn spent(watch: &mut redis::aio::MultiplexedConnection) -> Result<(f64, u64), Error> {
    let info: String = redis::cmd("INFO").arg("everything").query_async(watch).await?;
    let scripts: f64 = info
        .lines()
        .filter(|line| line.starts_with("cmdstat_eval"))
        .filter_map(|line| line.split("usec=").nth(1)?.split(',').next()?.parse::<f64>().ok())
        .sum();
    let bytes = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    let bytes: u64 = bytes.ok_or("no statistics")?.trim().parse()?;
    // What was sent so far includes all earlier answers to this question, but not this one.
    Ok((scripts, bytes))
}
