//! Entrants in this process.

use std::sync::Arc;

use super::{Answer, Enter, Entrant, Limiter};
use crate::remote::drive::{self, Load, Seen, key};
use crate::remote::quota::{Quota, WIDE};
use crate::remote::server;

struct Here<L> {
    url: String,
    limiter: Arc<L>,
}

pub fn enter<L: Limiter>() -> Enter {
    Box::new(|port| {
        Box::pin(async move {
            let url = server::url(port);
            let limiter = Arc::new(L::open(&url, WIDE).await?);
            Ok(Box::new(Here { url, limiter }) as Box<dyn Entrant>)
        })
    })
}

impl<L: Limiter> Entrant for Here<L> {
    fn fill(&mut self, keys: u64, callers: usize) -> Answer<'_, u64> {
        Box::pin(drive::once(&self.limiter, (0..keys).map(key), callers))
    }

    fn drive<'a>(&'a mut self, load: &'a Load) -> Answer<'a, Seen> {
        Box::pin(drive::drive(&self.limiter, load))
    }

    fn crowd(&mut self, callers: usize, quota: Quota) -> Answer<'_, u64> {
        Box::pin(async move {
            let narrow = Arc::new(L::open(&self.url, quota).await?);
            drive::once(&narrow, (0..callers).map(|_| "crowd".to_owned()), callers).await
        })
    }
}
