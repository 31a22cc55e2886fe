//! Waiting: in order, in time, and without leaving anything behind.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use waterclock::{Clock, KeyedLimiter, Limit, Limiter, ManualClock, MonotonicClock, WaitError};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn blocking_waits_are_paced() {
    let limiter = Limiter::new(Limit::per_second(100).with_capacity(1));
    let clock = MonotonicClock::default();
    let start = clock.now();
    for _ in 0..6 {
        limiter.wait().block().unwrap();
    }
    assert!(clock.now() >= start.after(ms(50)), "five waits of 10 ms");
}

#[test]
fn impossible_waits_fail_at_once() {
    let limiter = Limiter::new(Limit::per_minute(2));
    assert_eq!(limiter.wait_n(3).block(), Err(WaitError::Never));
    assert!(limiter.check_n(2).is_allowed());
    assert_eq!(limiter.wait().within(ms(29_000)).block(), Err(WaitError::Deadline));
    assert_eq!(limiter.wait_n(0).block(), Ok(()), "nothing is nothing to wait for");
    assert_eq!(limiter.peek().remaining(), Some(0), "nothing was charged");
}

#[test]
fn what_comes_back_just_in_time_is_in_time() {
    let limiter = Limiter::new(Limit::per_second(100).with_capacity(1));
    for _ in 0..10 {
        while limiter.check().is_allowed() {}
        limiter.wait().within(ms(10)).block().unwrap();
    }
}

#[tokio::test]
async fn nobody_waits_behind_a_backlog_of_one() {
    let limiter = Arc::new(Limiter::new(Limit::per_hour(1)));
    assert!(limiter.check().is_allowed());
    let first = tokio::spawn({
        let limiter = Arc::clone(&limiter);
        async move { limiter.wait().backlog(0).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(limiter.wait().backlog(0).await, Err(WaitError::Backlog));
    first.abort();
}

#[tokio::test]
async fn awaited_waits_pass_in_order() {
    let limiter = Arc::new(KeyedLimiter::<str>::new(Limit::per_second(1_000).with_capacity(1)));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for i in 0..50 {
        let (limiter, order) = (Arc::clone(&limiter), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            // Small costs do not overtake large ones, which come later by themselves.
            limiter.wait_n("alice", 1).jitter(ms(1)).await.unwrap();
            order.lock().unwrap().push(i);
        }));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_check_does_not_overtake_waits() {
    let clock = ManualClock::default();
    let limiter: Arc<KeyedLimiter<str, _>> =
        Arc::new(KeyedLimiter::builder(Limit::per_second(1)).clock(clock.clone()).build());
    assert!(limiter.check("alice").is_allowed());
    let waiting = tokio::spawn({
        let limiter = Arc::clone(&limiter);
        async move { limiter.wait("alice").await }
    });
    tokio::task::yield_now().await;
    clock.advance(Duration::from_secs(1));
    let decision = limiter.check("alice");
    assert!(!decision.is_allowed(), "another caller waits for this unit");
    assert_eq!(decision.retry_after(), Some(Duration::from_nanos(1)), "its limit is one");
    assert!(limiter.check("bob").is_allowed(), "no caller waits for bob");
    // The timer runs on real time; what is given back wakes the first in line at once.
    limiter.refund("alice", 0);
    assert_eq!(waiting.await.unwrap(), Ok(()));
    clock.advance(Duration::from_secs(1));
    assert!(limiter.check("alice").is_allowed(), "the line is empty again");
}

#[tokio::test]
async fn a_dropped_wait_lets_the_next_one_pass() {
    let clock = ManualClock::default();
    let limiter = Arc::new(Limiter::with_clock(Limit::per_hour(1).with_capacity(2), clock.clone()));
    assert!(limiter.check_n(2).is_allowed());
    let wait = |cost| {
        let limiter = Arc::clone(&limiter);
        tokio::spawn(async move { limiter.wait_n(cost).await })
    };
    let first = wait(2);
    tokio::task::yield_now().await;
    let second = wait(1);
    tokio::task::yield_now().await;
    clock.advance(Duration::from_secs(3_600));
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(second.await.unwrap(), Ok(()), "one unit was enough for the second");
}

#[test]
fn a_hundred_thousand_wait_in_exact_order_and_half_give_up() {
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(Limit::per_second(1_000_000).with_capacity(1), clock.clone());
    assert!(limiter.check().is_allowed());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let passed = runtime.block_on(async {
        use std::future::{IntoFuture, poll_fn};
        use std::task::Poll;
        let mut waits: Vec<_> =
            (0..100_000).map(|_| Some(limiter.wait().backlog(100_000).into_future())).collect();
        let mut passed = Vec::new();
        poll_fn(|context| {
            for wait in waits.iter_mut().flatten() {
                assert!(wait.as_mut().poll(context).is_pending());
            }
            Poll::Ready(())
        })
        .await;
        for wait in waits.iter_mut().step_by(2) {
            *wait = None;
        }
        for i in (1..100_000).step_by(2) {
            clock.advance(Duration::from_micros(1));
            limiter.refund(0);
            let wait = waits[i].take().unwrap();
            assert_eq!(wait.await, Ok(()));
            passed.push(i);
        }
        passed.len()
    });
    assert_eq!(passed, 50_000);
    clock.advance(Duration::from_secs(1));
    assert!(limiter.check().is_allowed(), "the queue is empty");
}

#[test]
fn threads_that_block_are_woken_in_turn() {
    let limiter = Limiter::new(Limit::per_second(2_000).with_capacity(1));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    limiter.wait().within(Duration::from_secs(60)).block().unwrap();
                }
            });
        }
    });
}
