//! Descriptors: a router needs one for each caller and one for each connection to a pod. Many systems give a process a thousand, and as
//! many as it likes if it asks.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Asks for as many as there may be.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        let had = current.unwrap_or(u64::MAX);
        tracing::warn!(%error, had, "the limit of open files cannot be raised: that is how many connections there can be");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_there_may_be_are_asked_for() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(512), maximum }).unwrap();
        raise();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: maximum, maximum });
    }
}
