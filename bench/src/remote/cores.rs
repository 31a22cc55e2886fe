//! A core for the server and another one for its clients, so that neither takes time from the other.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Two cores this process may use.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    server: usize,
    clients: usize,
}

impl Cores {
    /// `None` where there is only one.
    pub fn find() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        Some(Self { server: cores.next()?, clients: cores.next()? })
    }

    /// What this thread starts from now on runs on the server's core.
    pub fn enter_server(self) {
        pin(self.server);
    }

    /// What this thread does and starts from now on runs on the clients' core.
    pub fn enter_clients(self) {
        pin(self.clients);
    }
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).expect("a core that was allowed a moment ago");
}
