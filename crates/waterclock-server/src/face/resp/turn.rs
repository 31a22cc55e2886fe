//! One turn of a connection: every whole command that came, answered in order.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::join_all;
use waterclock::{Clock, Timestamp};

use super::inbox::Inbox;
use super::obey::{Next, obey};
use super::parse::{Fault, Parser};
use super::session::Session;
use super::wait::Waiting;
use super::write::Replies;
use crate::Server;
use crate::observe::Face;
use crate::pace::Patience;

/// Replies are sent when there are this many bytes of them, and before anything else is read.
const MOST_REPLIES: usize = 64 * 1024;
/// Commands in one turn.
const MOST_COMMANDS: usize = 4_096;
/// Questions to the store at once, of one connection.
const MOST_QUESTIONS: usize = 256;

/// How a turn ends, once its replies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There may be more commands to answer before anything else is read.
    More,
    /// Nothing more can be done with what came.
    Wait,
    /// The connection is over.
    Close,
    /// The connection is over, and nobody is told.
    CloseNow,
}

/// What belongs to one connection, except the stream itself.
pub(super) struct Connection {
    pub(super) inbox: Inbox,
    pub(super) replies: Replies,
    pub(super) waiting: Waiting,
    session: Session,
    parser: Parser,
    /// Since when a command is there in part.
    half_since: Option<Timestamp>,
}

impl Connection {
    pub(super) fn new(server: &Server, peer: SocketAddr) -> Connection {
        let now = server.engine.metrics().clock().now();
        Connection {
            inbox: Inbox::new(),
            replies: Replies::default(),
            waiting: Waiting::new(server),
            session: Session::new(server, peer, now),
            parser: Parser::default(),
            half_since: None,
        }
    }

    /// Until when the client must have sent something.
    pub(super) fn deadline(&mut self, now: Timestamp, patience: Patience) -> Timestamp {
        if self.inbox.is_empty() {
            self.half_since = None;
            return now.after(patience.idle);
        }
        self.half_since.get_or_insert(now).after(patience.command)
    }

    /// Answers what came.
    pub(super) async fn turn(&mut self, server: &Server) -> End {
        if self.inbox.is_empty() {
            return End::Wait;
        }
        let engine = &server.engine;
        let started = engine.metrics().clock().now();
        self.session.look_again(server, started);
        let permit = server.admit(Face::Resp);
        let plan = Arc::clone(&engine.plan());
        let elsewhere = engine.store().memory().is_none();

        let bytes = self.inbox.unread();
        let (mut consumed, mut commands, mut decided) = (0, 0, false);
        // Questions to the store, with the place of each one's reply among those that are written.
        let (mut places, mut questions) = (Vec::new(), Vec::new());
        let end = loop {
            let rest = &bytes[consumed..];
            let length = match self.parser.read(rest, self.session.bounds()) {
                Ok(Some(length)) => length,
                Ok(None) => break End::Wait,
                Err(Fault::Http) => break End::CloseNow,
                Err(fault) => {
                    self.replies.error(&format!("ERR Protocol error: {fault}"));
                    break End::Close;
                }
            };
            consumed += length;
            commands += 1;
            let command = self.parser.command(rest);
            let (session, replies) = (&mut self.session, &mut self.replies);
            match obey(server, &plan, session, permit.is_none(), command, replies) {
                Next::Replied => {}
                Next::Decided => decided = true,
                Next::Close => break End::Close,
                Next::Ask(question) => {
                    let alone = question.stands_alone() || !elsewhere;
                    if alone {
                        splice(&mut places, &mut questions, replies).await;
                        question.ask(engine).await.write(replies);
                    } else {
                        places.push(replies.len());
                        questions.push(question.ask(engine));
                    }
                    if questions.len() >= MOST_QUESTIONS {
                        splice(&mut places, &mut questions, replies).await;
                    }
                }
            }
            if self.replies.len() >= MOST_REPLIES || commands >= MOST_COMMANDS {
                break End::More;
            }
        };
        splice(&mut places, &mut questions, &mut self.replies).await;
        drop(questions);
        if decided {
            engine.metrics().decided(Face::Resp, started);
        }
        if consumed > 0 {
            self.inbox.consume(consumed);
            self.half_since = None;
        }
        end
    }
}

/// Waits for all questions, and puts each reply where it belongs.
async fn splice<F: Future<Output = super::question::Said>>(
    places: &mut Vec<usize>,
    questions: &mut Vec<F>,
    replies: &mut Replies,
) {
    if questions.is_empty() {
        return;
    }
    let said = join_all(questions.drain(..)).await;
    let written = replies.take();
    let mut from = 0;
    for (place, said) in places.drain(..).zip(said) {
        replies.put_back(&written[from..place]);
        from = place;
        said.write(replies);
    }
    replies.put_back(&written[from..]);
}
