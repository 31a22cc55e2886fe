//! The Redis protocol: `CL.THROTTLE` as redis-cell answers it, and `RL.*` for our own policies.
//!
//! A connection takes turns: each turn runs every complete command that was received and sends the replies together.
//! A memory store decides at once; a shared store is asked about all commands of a turn at the same time. Replies are in
//! the order of the commands either way.

mod cell;
mod checks;
mod commands;
mod io;
mod overrides;
pub mod parse;
mod policy;
mod rl;
mod session;
mod write;

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::io::{AsyncRead, AsyncWrite};
use waterclock::{Clock, Timestamp};

use self::commands::{Next, PendingReply, dispatch};
use self::io::{ReceiveBuffer, Waited, Waits, close, send};
use self::parse::{Fault, Parser};
use self::rl::InLine;
use self::session::{Permission, Session};
use self::write::Replies;
use crate::Server;
use crate::connections::Guest;
use crate::observe::Face;
use crate::timing::Patience;

/// While the server drains, a client that never pauses is served for so many times the quiet that closes others.
const BUSY: u32 = 4;
/// The reply buffer that a quiet connection keeps, in bytes.
const KEPT_REPLIES: usize = 16 * 1024;

/// Serves one connection until either side ends it.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    server: &Arc<Server>,
    mut stream: S,
    guest: &Arc<Guest>,
) {
    let patience = server.patience();
    let clock = server.engine.metrics().clock();
    let mut connection = Connection::new(server, guest);
    loop {
        let end = connection.turn(server, guest).await;
        if connection.session.has_guessed {
            server.delay_guess().await;
        }
        let replies = connection.replies.bytes();
        if !replies.is_empty() && send(&mut stream, replies, patience.idle).await.is_err() {
            return;
        }
        connection.replies.clear(KEPT_REPLIES);
        connection.session.many.release();
        match end {
            // Every command that was received is answered.
            End::Wait if connection.must_close(server) => return close(&mut stream, server).await,
            End::More => {
                // A client that never stops sending shares the thread with the others.
                tokio::task::yield_now().await;
                continue;
            }
            End::Line => {
                if !connection.wait_in_line(&mut stream, server, guest).await {
                    return;
                }
                continue;
            }
            End::Close => return close(&mut stream, server).await,
            End::CloseNow => return,
            End::Wait => {}
        }
        let deadline = connection.deadline(clock.now(), patience);
        loop {
            let received = &mut connection.received;
            // Commands that are on their way when the server stops are still answered.
            let closes = connection.waits.is_draining && received.is_empty();
            let until = if closes { clock.now().after(server.quiet()) } else { deadline };
            match connection.waits.bytes(&mut stream, (received, guest), clock, until).await {
                Waited::Bytes => break,
                Waited::Draining => {}
                Waited::NoRoom => {
                    server.engine.metrics().count_receive_refused(Face::Resp);
                    if send(&mut stream, NO_ROOM, patience.idle).await.is_ok() {
                        close(&mut stream, server).await;
                    }
                    return;
                }
                Waited::TimedOut if closes => return close(&mut stream, server).await,
                Waited::End | Waited::TimedOut => return,
            }
        }
    }
}

const NO_ROOM: &[u8] = b"-BUSY the server is receiving too many long commands\r\n";

/// Bytes of replies after which they are sent before anything else is read.
const MAX_REPLIES: usize = 64 * 1024;
/// Commands in one turn.
const MAX_COMMANDS: usize = 4_096;
/// Commands of one connection that wait for the store at the same time.
const MAX_PENDING: usize = 256;

/// How a turn ends, once its replies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// There may be more commands to answer before anything else is read.
    More,
    /// Every complete command was run.
    Wait,
    /// The last command waits in line; others that were received wait for it.
    Line,
    /// The connection closes.
    Close,
    /// The connection closes at once, without a farewell.
    CloseNow,
}

/// The state of one connection, except its stream.
struct Connection {
    received: ReceiveBuffer,
    replies: Replies,
    waits: Waits,
    session: Session,
    parser: Parser,
    /// The command that waits in line.
    in_line: Option<InLine>,
    /// Since when a command is incomplete.
    incomplete_since: Option<Timestamp>,
    /// When this client was first served while the server drains.
    draining_since: Option<Timestamp>,
}

impl Connection {
    fn new(server: &Server, guest: &Guest) -> Connection {
        let now = server.engine.metrics().clock().now();
        Connection {
            received: ReceiveBuffer::new(server.buffers().hold(Face::Resp, guest.origin())),
            replies: Replies::default(),
            waits: Waits::new(server),
            session: Session::new(server, guest, now),
            parser: Parser::default(),
            in_line: None,
            incomplete_since: None,
            draining_since: None,
        }
    }

    /// Until when the client must have sent something.
    fn deadline(&mut self, now: Timestamp, patience: Patience) -> Timestamp {
        if self.received.is_empty() {
            self.incomplete_since = None;
            return now.after(patience.idle);
        }
        self.incomplete_since.get_or_insert(now).after(patience.command)
    }

    /// Whether the server drains and this client, which never pauses, has had its time.
    #[inline]
    fn must_close(&mut self, server: &Server) -> bool {
        if !server.is_draining() {
            return false;
        }
        let now = server.engine.metrics().clock().now();
        let since = *self.draining_since.get_or_insert(now);
        now.since(since) >= server.quiet() * BUSY
    }

    /// Waits for the command in line, and writes its reply. What the client sends meanwhile is received, as far as the
    /// buffer has room, to see whether the client is still there: `false` if it is not.
    async fn wait_in_line<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        server: &Arc<Server>,
        guest: &Arc<Guest>,
    ) -> bool {
        let Some(in_line) = self.in_line.take() else { return true };
        let waited = {
            let waits = server.wait(Face::Resp, guest, &in_line.pending, in_line.within);
            tokio::select! {
                biased;
                waited = waits => waited,
                () = self.received.until_end(stream) => return false,
            }
        };
        let waited = waited.map(|(reply, mut charged)| {
            charged.keep();
            reply
        });
        in_line.write(&server.engine, waited, &mut self.replies);
        true
    }

    /// Runs every complete command that was received.
    async fn turn(&mut self, server: &Server, guest: &Guest) -> End {
        if self.received.is_empty() {
            return End::Wait;
        }
        let engine = &server.engine;
        let started = engine.metrics().clock().now();
        self.session.revalidate(server, started);
        let permit = server.admit(Face::Resp);
        let plan = Arc::clone(&engine.plan());
        let is_shared = engine.memory().is_none();

        let bytes = self.received.unread();
        let (mut consumed, mut commands, mut decided) = (0, 0, false);
        // Commands that wait for the store, with the place of each reply among those that are written.
        let (mut places, mut waiting) = (Vec::new(), Vec::new());
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
            match dispatch(server, &plan, session, permit.is_none(), command, replies) {
                Ok(Next::Replied) => {}
                Ok(Next::Decided) => decided = true,
                Ok(Next::Close) => break End::Close,
                Ok(Next::Line(in_line)) => {
                    self.in_line = Some(in_line);
                    break End::Line;
                }
                Ok(Next::Wait(pending)) => {
                    let changes_plan = pending.changes_plan;
                    if pending.runs_alone || !is_shared {
                        splice(&mut places, &mut waiting, replies).await;
                        replies.append(pending.reply.await);
                    } else {
                        places.push(replies.len());
                        waiting.push(pending.reply);
                    }
                    if waiting.len() >= MAX_PENDING {
                        splice(&mut places, &mut waiting, replies).await;
                    }
                    if changes_plan {
                        break End::More;
                    }
                }
                Err(error) => {
                    if let Some(name) = &error.unknown_policy
                        && engine.learn(name).await
                    {
                        // It is run again in the next turn, which has the plan with that policy.
                        consumed -= length;
                        break End::More;
                    }
                    replies.error(&error.text);
                    if error.closes {
                        break End::Close;
                    }
                }
            }
            if self.replies.len() >= MAX_REPLIES || commands >= MAX_COMMANDS {
                break End::More;
            }
        };
        splice(&mut places, &mut waiting, &mut self.replies).await;
        drop(waiting);
        if decided {
            engine.metrics().decided(Face::Resp, started);
        }
        if consumed > 0 {
            if self.session.permission != Permission::None {
                guest.confirm();
            }
            self.received.consume(consumed);
            self.incomplete_since = None;
        }
        end
    }
}

/// Waits for all pending commands, and puts each reply into its place.
async fn splice(
    places: &mut Vec<usize>,
    waiting: &mut Vec<PendingReply<'_>>,
    replies: &mut Replies,
) {
    if waiting.is_empty() {
        return;
    }
    let answers = join_all(waiting.drain(..)).await;
    let written = replies.take();
    let mut from = 0;
    for (place, reply) in places.drain(..).zip(answers) {
        replies.put_back(&written[from..place]);
        from = place;
        replies.append(reply);
    }
    replies.put_back(&written[from..]);
}
