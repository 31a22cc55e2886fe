//! What the kernel knows about the time of a process.

use std::fs;
use std::ops::Sub;

use crate::Error;

/// Seconds, of all threads of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// On a core.
    pub ran: f64,
    /// Ready to run while another process had the core.
    pub waited: f64,
}

impl Spent {
    pub fn by(process: u32) -> Result<Self, Error> {
        let mut spent = Self::default();
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            let mut nanos = text.split_whitespace().map(str::parse::<f64>);
            let mut seconds = || -> Result<f64, Error> {
                let nanos = nanos.next().ok_or("the kernel keeps no schedstat")?;
                Ok(nanos? / 1e9)
            };
            spent.ran += seconds()?;
            spent.waited += seconds()?;
        }
        Ok(spent)
    }
}

impl Sub for Spent {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { ran: self.ran - before.ran, waited: self.waited - before.waited }
    }
}
