//! `waterclock top` on a real terminal and elsewhere, of a real server under real traffic.

mod elsewhere;
mod screen;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use crate::serve::process::Serving;
use crate::support::Place;

const CONFIG: &str = "[server]\nshow_keys = true\n\
    [policies.narrow]\nlimits = [{ name = \"hour\", algorithm = \"gcra\", limit = 2, per = \"1h\" }]\n\
    [policies.wide]\nlimits = [\"1000000/s\"]\n";

/// A key that would turn a terminal red, and what is shown of it.
const HOSTILE: &str = "ev\\u001b[31mil";
const SHOWN: &str = "ev\\u{1b}[31mil";

fn serve() -> Serving {
    Serving::start(Place::with_config(CONFIG))
}

/// Checks at a server, about a hundred a second, until this is dropped.
struct Traffic {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    fn start(serving: &Serving) -> Traffic {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, mut client) = (Arc::clone(&is_over), serving.client());
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                client.check("wide", "alice");
                client.check("narrow", HOSTILE);
                sleep(Duration::from_millis(10));
            }
        });
        Traffic { is_over, thread: Some(thread) }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Where the server is gone, so is the thread.
        drop(self.thread.take().map(JoinHandle::join));
    }
}
