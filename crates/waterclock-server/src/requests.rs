//! Places for requests that are being decided: a few are kept for each face, and for administrators.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::observe::Face;

/// One in so many places is kept for each face, and as many for administrators.
const KEPT: usize = 16;

pub(crate) struct Requests {
    /// Taken first.
    shared: Arc<Semaphore>,
    kept: [Arc<Semaphore>; Face::ALL.len()],
    administrators: Arc<Semaphore>,
}

impl Requests {
    pub(crate) fn new(at_once: usize) -> Requests {
        let kept = at_once / KEPT;
        let semaphore = |places| Arc::new(Semaphore::new(places));
        Requests {
            shared: semaphore(at_once - kept * (Face::ALL.len() + 1)),
            kept: Face::ALL.map(|_| semaphore(kept)),
            administrators: semaphore(kept.max(1)),
        }
    }

    #[inline]
    pub(crate) fn admit(&self, face: Face) -> Option<OwnedSemaphorePermit> {
        take(&self.shared).or_else(|| take(&self.kept[face as usize]))
    }

    pub(crate) fn admit_administrator(&self, face: Face) -> Option<OwnedSemaphorePermit> {
        self.admit(face).or_else(|| take(&self.administrators))
    }
}

#[inline]
fn take(places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(places).try_acquire_owned().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_face_leaves_places_to_the_others() {
        let requests = Requests::new(64);
        let all = |face| std::iter::from_fn(|| requests.admit(face)).collect::<Vec<_>>();
        let resp = all(Face::Resp);
        assert_eq!(resp.len(), 48 + 4);
        assert_eq!(all(Face::Http).len(), 4);
        let http = all(Face::Http);
        assert_eq!(http.len(), 4);
        assert!(requests.admit_administrator(Face::Http).is_some());
        drop(resp);
        assert_eq!(all(Face::Grpc).len(), 52);
    }
}
