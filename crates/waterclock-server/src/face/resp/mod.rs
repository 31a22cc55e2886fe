//! The Redis protocol: `CL.THROTTLE` as redis-cell answers it, and `RL.*` for our own policies.
//!
//! A turn reads what is there, answers every command in it, and sends the replies at once. State in
//! this process is asked without waiting; a store elsewhere is asked about all commands of a turn at
//! the same time. Replies come in the order of the commands either way.

mod about;
mod cell;
mod connect;
mod hold;
mod inbox;
mod inline;
mod obey;
pub mod parse;
mod question;
mod rl;
mod session;
mod turn;
mod wait;
mod word;
mod write;

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use waterclock::Clock;

use self::turn::{Connection, End};
use self::wait::{Came, farewell, send};
use crate::Server;

/// What a connection keeps for replies when there are none.
const KEPT: usize = 16 * 1024;

/// Serves one connection until either side ends it.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    server: &Server,
    mut stream: S,
    peer: SocketAddr,
) {
    let patience = server.patience();
    let clock = server.engine.metrics().clock();
    let mut connection = Connection::new(server, peer);
    loop {
        let end = connection.turn(server).await;
        let replies = connection.replies.bytes();
        if !replies.is_empty() && send(&mut stream, replies, patience.idle).await.is_err() {
            return;
        }
        connection.replies.clear(KEPT);
        match end {
            End::More => {
                // Whoever sends without end is served in turn with the others.
                tokio::task::yield_now().await;
                continue;
            }
            End::Close => return farewell(&mut stream).await,
            End::CloseNow => return,
            End::Wait => {}
        }
        let deadline = connection.deadline(clock.now(), patience);
        loop {
            let inbox = &mut connection.inbox;
            // What is on its way when the server stops is still answered.
            let parts = connection.waiting.is_draining && inbox.is_empty();
            let until = if parts { clock.now().after(server.quiet()) } else { deadline };
            match connection.waiting.bytes(&mut stream, inbox, clock, until).await {
                Came::Bytes => break,
                Came::Draining => {}
                Came::TooLate if parts => return farewell(&mut stream).await,
                Came::End | Came::TooLate => return,
            }
        }
    }
}
