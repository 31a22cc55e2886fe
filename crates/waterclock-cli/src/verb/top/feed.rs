//! Asks the server again and again, on its own thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use http::{Method, StatusCode};
use hyper::body::Bytes;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use super::policy::{PolicyPage, SECONDS, Told, limits_in_words};
use super::snapshot::{LimitSize, PolicyTotals, Rates, Snapshot, visibly};
use crate::output::Failure;
use crate::server::{Connection, NoAnswer, Server};

const QUESTION: &str = "GET /v1/live";
/// How long the view has to end after a signal.
const PATIENCE: Duration = Duration::from_secs(5);

/// What happened.
pub(super) enum News {
    /// What the server reports, parsed and unchanged.
    Snapshot { snapshot: Box<Snapshot>, json: String, more: More },
    /// It does not answer; it will be asked again.
    Away(String),
    /// It will never answer.
    Failed(String),
    /// A signal ends it.
    End,
}

/// What only the live view asks for. A server that does not know it answers without.
#[derive(Default)]
pub(super) struct More {
    /// Decisions before the first snapshot, by the second.
    pub(super) before: Vec<Rates>,
    /// The policy that is looked at.
    pub(super) page: Option<Box<PolicyPage>>,
    /// The limits of every policy in words, when they may have changed.
    pub(super) limits: Option<BTreeMap<String, String>>,
}

/// News about the server.
pub(super) struct Feed {
    news: Receiver<News>,
    wanted: Arc<Wanted>,
}

/// What is to be asked besides the snapshot.
#[derive(Default)]
struct Wanted {
    history: AtomicBool,
    limits: AtomicBool,
    policy: Mutex<Option<String>>,
}

impl Feed {
    pub(super) fn start(server: Server, every: Duration) -> Result<Feed, Failure> {
        let cannot = |error: std::io::Error| format!("the network cannot be used: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        // While the receiver does not read, the server is not asked.
        let (tell, news) = sync_channel(1);
        let wanted = Arc::<Wanted>::default();
        let (connection, sizes) = (None, None);
        let look = Look { server, connection, tell, wanted: Arc::clone(&wanted), sizes };
        thread::spawn(move || {
            runtime.block_on(look.run(every));
            runtime.shutdown_background();
        });
        Ok(Feed { news, wanted })
    }

    /// Asks for what happened before, once.
    pub(super) fn want_history(&self) {
        self.wanted.history.store(true, Ordering::Relaxed);
    }

    /// Asks for the limits of all policies, now and whenever they may have changed.
    pub(super) fn want_limits(&self) {
        self.wanted.limits.store(true, Ordering::Relaxed);
    }

    /// Asks for one policy from now on, or for none.
    pub(super) fn want_policy(&self, name: Option<String>) {
        *self.wanted.policy.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Waits for what comes next.
    pub(super) fn next(&self) -> News {
        self.news.recv().unwrap_or(News::End)
    }

    /// What came meanwhile, if anything.
    pub(super) fn now(&self) -> Option<News> {
        match self.news.try_recv() {
            Ok(news) => Some(news),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(News::End),
        }
    }
}

/// Ends the process if the view does not: where the terminal is gone, it waits for a key for ever.
fn end_anyway() {
    thread::spawn(|| {
        thread::sleep(PATIENCE);
        std::process::exit(1);
    });
}

struct Look {
    server: Server,
    connection: Option<Connection>,
    tell: SyncSender<News>,
    wanted: Arc<Wanted>,
    /// Of the limits that were asked for last.
    sizes: Option<Sizes>,
}

/// The generation of the configuration, and each policy's name and limits.
type Sizes = (u64, Vec<(String, Vec<LimitSize>)>);

impl Look {
    /// Runs until a signal, or until the receiver is dropped.
    async fn run(mut self, every: Duration) {
        let end = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hang_up)] = end.map(signal) else {
            let sentence = "cannot listen for signals".to_owned();
            return drop(self.tell.send(News::Failed(sentence)));
        };
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_answered = false;
        loop {
            let looked = async {
                ticks.tick().await;
                self.look().await
            };
            let news = tokio::select! {
                looked = looked => match looked {
                    Ok(news) => {
                        was_answered = true;
                        news
                    }
                    Err(no_answer) => self.no_news(&no_answer, was_answered).await,
                },
                _ = interrupt.recv() => News::End,
                _ = terminate.recv() => News::End,
                _ = hang_up.recv() => News::End,
            };
            if matches!(news, News::End) {
                end_anyway();
            }
            let is_last = matches!(news, News::End | News::Failed(_));
            if self.tell.send(news).is_err() || is_last {
                return;
            }
        }
    }

    async fn look(&mut self) -> Result<News, NoAnswer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.server).await?,
        };
        let mut more = self.more(&mut connection).await?;
        let response = connection.ask(Method::GET, "/v1/live", Bytes::new()).await?;
        if response.status != StatusCode::OK {
            return Err(NoAnswer::of(&response, QUESTION));
        }
        let json = String::from_utf8_lossy(&response.body).into_owned();
        let snapshot = Snapshot::read(&json).map(Box::new).map_err(|_| {
            NoAnswer::Stranger(format!(
                "answers {QUESTION} with JSON that this version does not understand"
            ))
        })?;
        let sizes = |policy: &PolicyTotals| (policy.name.clone(), policy.limits.clone());
        let sizes = (snapshot.config.generation, snapshot.policies.iter().map(sizes).collect());
        if self.wanted.limits.load(Ordering::Relaxed) && self.sizes.as_ref() != Some(&sizes) {
            more.limits = limits_in_words(&body(&mut connection, "/v1/policies").await?);
            self.sizes = Some(sizes);
        }
        self.connection = Some(connection);
        Ok(News::Snapshot { snapshot, json, more })
    }

    /// The history before the first snapshot, and the policy that is looked at.
    async fn more(&self, connection: &mut Connection) -> Result<More, NoAnswer> {
        let mut more = More::default();
        if self.wanted.history.swap(false, Ordering::Relaxed) {
            let path = format!("/v1/history?last={SECONDS}s");
            let told = body(connection, &path).await?;
            more.before = visibly::<Told>(&told).map(|told| told.rates()).unwrap_or_default();
        }
        let wanted = self.wanted.policy.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(name) = wanted {
            // The characters that names have and a URL may misread.
            let encoded = name.replace('/', "%2F");
            let policy = body(connection, &format!("/v1/policies/{encoded}")).await?;
            let path = format!("/v1/history?policy={encoded}&last={SECONDS}s");
            let history = body(connection, &path).await?;
            let refused = body(connection, &format!("/v1/refused?policy={encoded}")).await?;
            more.page = PolicyPage::read(&name, [&policy, &history, &refused]).map(Box::new);
        }
        Ok(more)
    }

    /// A server that answered before may answer again. One that never did and hangs up is the wrong one.
    async fn no_news(&self, no_answer: &NoAnswer, was_answered: bool) -> News {
        let sentence = self.server.explain(no_answer).await;
        let hung_up = matches!(no_answer, NoAnswer::Broken(_));
        if was_answered || (no_answer.may_pass() && !hung_up) {
            News::Away(sentence)
        } else {
            News::Failed(sentence)
        }
    }
}

/// What a path answers, good or bad.
async fn body(connection: &mut Connection, path: &str) -> Result<String, NoAnswer> {
    let response = connection.ask(Method::GET, path, Bytes::new()).await?;
    Ok(String::from_utf8_lossy(&response.body).into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::server::ServerAddress;

    /// A server that answers 503 to every request, and counts them.
    fn busy_server() -> (Server, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ServerAddress::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let server = Server::plain(address);
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 4096]);
                counted.fetch_add(1, Ordering::Relaxed);
                let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 18\r\n\r\n";
                let _ = stream.write_all(format!("{head}{{\"detail\":\"later\"}}").as_bytes());
            }
        });
        (server, asked)
    }

    #[test]
    fn the_server_is_not_asked_while_the_receiver_does_not_read() {
        let (server, asked) = busy_server();
        let feed = Feed::start(server, Duration::from_millis(10)).unwrap();
        thread::sleep(Duration::from_millis(500));
        // One look waits to be read, and one waits for its place.
        assert!(asked.load(Ordering::Relaxed) <= 2, "{asked:?}");
        (0..5).for_each(|_| assert!(matches!(feed.next(), News::Away(_))));
    }
}
