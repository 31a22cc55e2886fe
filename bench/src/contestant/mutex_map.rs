use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{BURST, Contestant, Kind, PERIOD, lone};
use crate::keys::Key;

pub fn keyed<K: Key>() -> Vec<Contestant<K>> {
    vec![Contestant::new("Mutex<HashMap> (Instant)", Kind::Baseline, |_| {
        let arrivals = Mutex::new(HashMap::<K, Duration>::new());
        let start = Instant::now();
        lone(move |key| {
            let now = start.elapsed();
            let mut arrivals = arrivals.lock().expect("no panic");
            let Some(arrival) = arrivals.get_mut(key) else {
                arrivals.insert(key.clone(), now + PERIOD);
                return true;
            };
            let next = now.max(*arrival) + PERIOD;
            let admits = next - now <= PERIOD * BURST;
            if admits {
                *arrival = next;
            }
            admits
        })
    })]
}
