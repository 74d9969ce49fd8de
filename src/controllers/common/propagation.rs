//! How long routes take to every router of a namespace. Pure.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Since when routers of a namespace do not have what they should have.
#[derive(Debug, Default)]
pub struct Propagation(BTreeMap<String, Instant>);

impl Propagation {
    /// Takes note of which namespaces have routers, and whether all of these have their routes. Says how long it took, for
    /// each namespace whose routers have them again.
    pub fn note<'a>(
        &mut self,
        now: Instant,
        all: impl IntoIterator<Item = (&'a str, bool)>,
    ) -> Vec<Duration> {
        let mut took = Vec::new();
        let before = std::mem::take(&mut self.0);
        for (namespace, is_in_force) in all {
            match (before.get(namespace), is_in_force) {
                (Some(since), true) => took.push(now.duration_since(*since)),
                (since, false) => drop(self.0.insert(namespace.to_owned(), since.copied().unwrap_or(now))),
                (None, true) => {}
            }
        }
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_from_the_first_change_until_the_last_router_has_them() {
        let (mut all, start) = (Propagation::default(), Instant::now());
        let at = |millis: u64| start + Duration::from_millis(millis);
        assert!(all.note(at(0), [("shop", true), ("other", false)]).is_empty());
        assert!(all.note(at(10), [("shop", false), ("other", false)]).is_empty());
        assert!(all.note(at(50), [("shop", false)]).is_empty(), "a second change does not begin anew");
        assert_eq!(all.note(at(110), [("shop", true)]), [Duration::from_millis(100)]);
        assert!(all.note(at(200), [("shop", true), ("other", true)]).is_empty(), "its routers had gone");
    }
}
