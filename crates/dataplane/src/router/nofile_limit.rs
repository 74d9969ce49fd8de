//! Raises `RLIMIT_NOFILE`: a router needs a file descriptor per client and per upstream connection, and the soft limit is often
//! 1024.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit.
pub fn raise_nofile_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        let had = current.unwrap_or(u64::MAX);
        tracing::warn!(%error, had, "failed to raise RLIMIT_NOFILE, which bounds the number of connections");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_there_may_be_are_asked_for() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(512), maximum }).unwrap();
        raise_nofile_limit();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: maximum, maximum });
    }
}
