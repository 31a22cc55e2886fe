//! What goes wrong, when it does.

use std::time::Duration;

use tokio::time::sleep;

use crate::cluster::slot_of;
use crate::network::{LinkState, World};
use crate::plan::{Fault, FaultKind};
use crate::run::Runner;
use crate::server::Health;

impl Runner {
    pub(crate) async fn strike(&self, fault: Fault) {
        let lasts = Duration::from_millis(fault.for_ms);
        let which = |node: Option<usize>| -> Vec<usize> {
            let processes = self.processes.lock();
            let hit =
                processes.iter().enumerate().filter(|(i, _)| node.is_none_or(|one| one == *i));
            hit.map(|(_, process)| process.number).collect()
        };
        let links = |numbers: &[usize], change: &dyn Fn(&mut LinkState)| {
            self.network.change(|world| {
                for number in numbers {
                    (0..self.plan.topology.hosts())
                        .for_each(|server| world.set_link(*number, server, change));
                }
            });
        };
        match fault.kind {
            FaultKind::Cut { node, up, down } => {
                let numbers = which(node);
                links(&numbers, &|link| {
                    (link.up_blocked, link.down_blocked) = (up, down);
                });
                sleep(lasts).await;
                links(&numbers, &|link| (link.up_blocked, link.down_blocked) = (false, false));
            }
            FaultKind::Reset(node) => {
                let numbers = which(node);
                self.network.change(|world| world.reset(|node, _| numbers.contains(&node)));
            }
            FaultKind::Slow(ms) => {
                let numbers = which(None);
                links(&numbers, &|link| link.delay_ms = (0, ms));
                sleep(lasts).await;
                links(&numbers, &|link| link.delay_ms = LinkState::default().delay_ms);
            }
            FaultKind::Lossy(lost) => {
                let numbers = which(None);
                links(&numbers, &|link| link.lost = lost);
                sleep(lasts).await;
                links(&numbers, &|link| link.lost = 0);
            }
            FaultKind::Stopped(server) => {
                self.network.change(|world| world.servers[server].health = Health::Stopped);
                sleep(lasts).await;
                self.network.change(|world| world.servers[server].health = Health::Up);
            }
            FaultKind::Restarted(server, keeps) => {
                self.network.change(|world| {
                    world.servers[server].health = Health::Down;
                    world.servers[server].flush_scripts();
                    if !keeps {
                        world.servers[server].keyspace.clear();
                    }
                    world.reset(|_, other| other == server);
                });
                sleep(lasts).await;
                self.network.change(|world| world.servers[server].health = Health::Up);
            }
            FaultKind::ScriptsFlushed(server) => {
                self.network.change(|world| world.servers[server].flush_scripts());
            }
            FaultKind::Flushed(server) => {
                self.network.change(|world| world.servers[server].keyspace.clear());
            }
            FaultKind::ClockStep(server, ms) => {
                self.network.change(|world| world.servers[server].ahead_us += ms * 1_000);
            }
            FaultKind::SlotMoves(key, to) => self.move_slot(key, to, lasts).await,
            FaultKind::Failover => {
                self.network.change(World::promote);
                sleep(lasts).await;
                self.network.change(World::demote);
            }
            FaultKind::Crash(node) => {
                let next = self.start().await;
                let last = std::mem::replace(&mut self.processes.lock()[node], next);
                self.network.change(|world| {
                    for server in 0..self.plan.topology.hosts() {
                        world.set_link(last.number, server, |link| link.is_gone = true);
                    }
                    world.reset(|node, _| node == last.number);
                });
                last.calls.iter().for_each(tokio::task::AbortHandle::abort);
            }
        }
    }

    /// Moves the keys of a slot one by one.
    async fn move_slot(&self, key: usize, to: usize, lasts: Duration) {
        let slot = slot_of(&self.records.get().expect("records that were found")[0][key]);
        let begin = |world: &mut World| {
            let slots = world.slots.as_mut()?;
            let from = slots.owner(slot);
            slots.begin(slot, to).then_some(from)
        };
        let Some(from) = self.network.change(begin) else { return };
        // The keys of a slot are few.
        for _ in 0..4 {
            sleep(lasts / 4).await;
            self.network.change(|world| world.move_one(slot, from, to));
        }
        self.network.change(|world| {
            while world.move_one(slot, from, to) {}
            world.slots.iter_mut().for_each(|slots| slots.end(slot));
        });
    }
}
