//! What the cache of refusals says of a long log is what Redis would say at that instant.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use waterclock::{FixedWindow, Policy, RollingWindow, Source, Timestamp, Verb};
use waterclock_conformance::real::{RedisServer, Reply};
use waterclock_redis::RedisStore;

use crate::scene::{PATIENT, SECOND, check, millis, store, units};

fn server_now(server: &RedisServer) -> u64 {
    let Reply::Array(time) = server.command(&["TIME"]) else { panic!("no time") };
    u64::try_from(time[0].as_int() * 1_000_000 + time[1].as_int()).unwrap()
}

fn policies() -> Vec<Policy> {
    let long = |limit, ms| RollingWindow::new(limit, millis(ms)).unwrap().with_name("long");
    let short = RollingWindow::bucketed(60, millis(300), 50).unwrap().with_name("short");
    let fixed = FixedWindow::new(150, millis(700)).unwrap().with_name("fixed");
    vec![
        Policy::new("p", [long(300, 900)]).unwrap(),
        Policy::new("p", [long(200, 800), short]).unwrap(),
        Policy::new("p", [long(100, 500), fixed]).unwrap(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_redis_says() {
    let server = RedisServer::start();
    let (mut cached, mut asked) = (0, 0);
    for (number, policy) in policies().into_iter().enumerate() {
        let builder = RedisStore::builder(&server.url()).deadline(PATIENT);
        let redis = store(builder.prefix(&format!("p{number}-")), policy).await;
        let (start, mut dice) = (Instant::now(), fastrand::Rng::with_seed(number as u64));
        // Whether something was charged since the refusal that the cache answers from: it need not know.
        let mut is_used_up_further = false;
        while start.elapsed() < 2 * SECOND {
            let cost = [1, 1, 1, 2, 7, 40][dice.usize(0..6)];
            let before_us = server_now(&server);
            let answer = check(&redis, units("key", cost)).await;
            asked += 1;
            if answer.source != Source::DeniedCache {
                is_used_up_further = answer.decision.is_allowed();
                if !is_used_up_further && dice.u8(0..4) == 0 {
                    sleep(millis(dice.u64(0..20))).await;
                }
                continue;
            }
            cached += 1;
            // The instant of which it speaks shows by when all will be free, which nothing changes meanwhile.
            let peek = async |at_us| {
                let at = Timestamp::from_micros(at_us);
                redis.apply_at(at, Verb::Peek, &[units("key", cost)]).await.unwrap().remove(0)
            };
            let now_us = server_now(&server);
            if is_used_up_further {
                let retry = answer.decision.retry_after().unwrap();
                let is_over = Duration::from_micros(now_us - before_us) >= retry;
                let is_allowed = peek(now_us).await.decision.is_allowed();
                assert!(!is_allowed || is_over, "cost {cost}: {answer:#?}");
                continue;
            }
            let free_at = Duration::from_micros(now_us) + peek(now_us).await.limits[0].reset_after;
            let spoke_of = free_at - answer.limits[0].reset_after;
            let at_us = u64::try_from(spoke_of.as_micros()).unwrap();
            let late = spoke_of - Duration::from_micros(at_us);
            let there = peek(at_us).await;
            let shift = |wait: Option<Duration>| wait.map(|wait| wait.saturating_sub(late));
            assert_eq!(answer.decision.is_allowed(), there.decision.is_allowed());
            assert_eq!(
                answer.decision.retry_after(),
                shift(there.decision.retry_after()),
                "cost {cost}"
            );
            for (limit, there) in answer.limits.iter().zip(&there.limits) {
                assert_eq!(
                    (limit.allowed, limit.remaining, limit.retry_after, limit.next_unit),
                    (
                        there.allowed,
                        there.remaining,
                        shift(there.retry_after),
                        shift(there.next_unit)
                    ),
                    "cost {cost} at {at_us}: {answer:#?}, not {there:#?}"
                );
            }
        }
    }
    println!("{cached} of {asked} answers came from the cache");
    assert!(cached > 100, "{cached} of {asked}");
}
