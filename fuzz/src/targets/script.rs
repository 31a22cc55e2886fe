//! The Redis scripts against the core, under a policy and calls from bytes: a whole store calls a simulated Redis, which
//! runs the text of the scripts in Lua.

use std::sync::Arc;
use std::time::Duration;

use arbitrary::Unstructured;
use libfuzzer_sys::Corpus;
use tokio::runtime::{Builder, Runtime};
use waterclock::{Charge, SimulatedTime, Store as _, StoreError, Timestamp};
use waterclock_conformance::reference::Answer;
use waterclock_conformance::{Case, Core, Subject as _, answer, policy, verb};
use waterclock_redis::{RedisStore, SimulatedNetwork};
use waterclock_simulation::network::Network;
use waterclock_simulation::plant::Plant;
use waterclock_simulation::server::Server;

use crate::planted::planted;
use crate::policies::case;

/// Scripts count in microseconds.
const TICK_NS: u64 = 1_000;
/// In virtual time.
const PATIENT: Duration = Duration::from_secs(10);

thread_local! {
    static SCENE: Scene = Scene::new();
}

pub fn run(data: &[u8]) -> Corpus {
    let Ok(case) = case(&mut Unstructured::new(data), TICK_NS) else { return Corpus::Reject };
    match SCENE.with(|scene| scene.answers(&case)) {
        Ok(there) => assert_eq!(there, Core.run(&case.spec, &case.trace, false), "{case:#?}"),
        // Not every ratio can be computed in Lua.
        Err(StoreError::Unfit(_)) => return Corpus::Reject,
        Err(error) => panic!("{error}: {case:#?}"),
    }
    Corpus::Keep
}

/// A network with one server, which keeps its scripts from one input to the next.
struct Scene {
    runtime: Runtime,
    network: Network,
}

impl Scene {
    fn new() -> Scene {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let plant = match () {
            () if planted("one_unit_more") => Plant::ShortAdmitsOneMore,
            () if planted("charge_is_lost") => Plant::ChargeIsLost,
            () => Plant::None,
        };
        let server = Server::new(0, plant);
        let _runtime = runtime.enter();
        let network = Network::new(vec![server], (None, None), 0, plant);
        network.change(|world| world.set_link(0, 0, |link| link.delay_ms = (0, 0)));
        <dyn SimulatedNetwork>::of_this_thread(Some(Arc::new(network.clone())));
        drop(_runtime);
        Scene { runtime, network }
    }

    /// What a store answers that has never seen another policy.
    fn answers(&self, case: &Case) -> Result<Vec<Answer>, StoreError> {
        let answers = self.runtime.block_on(async {
            let _time = SimulatedTime::begin();
            let store = RedisStore::builder("redis://n0.s0").deadline(PATIENT).start()?;
            store.set_policy(policy(&case.spec)).await?;
            let mut answers = Vec::with_capacity(case.trace.len());
            for event in &case.trace {
                let charge = Charge::new("policy", b"alice", event.cost);
                let at = Timestamp::from_nanos(event.at_ns);
                answers.push(answer(&store.apply_at(at, verb(event.verb), &[charge]).await?[0]));
            }
            Ok(answers)
        });
        self.network.change(|world| {
            world.reset(|_, _| true);
            world.servers[0].keyspace.clear();
            world.servers[0].executed.clear();
        });
        answers
    }
}
