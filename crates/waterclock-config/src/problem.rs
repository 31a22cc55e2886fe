//! What is wrong with a file: every complaint is kept, so one run shows them all.

use std::cell::RefCell;

/// One complaint: the byte it points at and one sentence.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) at: usize,
    pub(crate) sentence: String,
}

impl Problem {
    pub(crate) fn at(at: usize, sentence: impl Into<String>) -> Problem {
        Problem { at, sentence: sentence.into() }
    }
}

/// The complaints collected so far. Readers share it while they descend into nested tables,
/// hence the cell.
#[derive(Default)]
pub(crate) struct Problems {
    found: RefCell<Vec<Problem>>,
}

impl Problems {
    pub(crate) fn note(&self, problem: Problem) {
        self.found.borrow_mut().push(problem);
    }

    /// The value, or nothing and one more complaint.
    pub(crate) fn keep<T>(&self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.note(problem)).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// In the order of the file, not of discovery.
    pub(crate) fn into_sorted(self) -> Vec<Problem> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|problem| problem.at);
        found
    }
}
