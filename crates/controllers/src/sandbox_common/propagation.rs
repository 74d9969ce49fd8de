//! Measures how long the routers of a namespace take to program a change. Pure.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Start time of the unfinished change, per namespace.
#[derive(Debug, Default)]
pub struct PropagationTimer(BTreeMap<String, Instant>);

impl PropagationTimer {
    /// Records for each namespace with routers whether all of them have programmed the desired routes. Returns the duration
    /// of each change that completed.
    pub fn observe<'a>(
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
        let (mut all, start) = (PropagationTimer::default(), Instant::now());
        let at = |millis: u64| start + Duration::from_millis(millis);
        assert!(all.observe(at(0), [("shop", true), ("other", false)]).is_empty());
        assert!(all.observe(at(10), [("shop", false), ("other", false)]).is_empty());
        assert!(
            all.observe(at(50), [("shop", false)]).is_empty(),
            "a second change does not restart the delay"
        );
        assert_eq!(all.observe(at(110), [("shop", true)]), [Duration::from_millis(100)]);
        assert!(all.observe(at(200), [("shop", true), ("other", true)]).is_empty(), "its routers had gone");
    }
}
