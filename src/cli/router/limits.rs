//! Flags of `capt router` that limit what callers may take.

use std::time::Duration;

use sandbox_router::proxy::ProxyLimits;

use crate::cli::time;

/// Limits of callers.
#[derive(Debug, clap::Args)]
pub(super) struct LimitArgs {
    /// Open connections from callers. Further ones wait; from 80 % on, those that have been idle for longest are closed.
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u32).range(1..), env = "CAPT_ROUTER_MAX_CONNECTIONS")]
    max_connections: u32,
    /// Open connections from one address; defaults to a quarter of --max-connections.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env = "CAPT_ROUTER_MAX_CONNECTIONS_PER_PEER")]
    max_connections_per_peer: Option<u32>,
    /// How long a connection may be idle between two requests, and an HTTP/2 stream without a window.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_positive, env = "CAPT_ROUTER_IDLE_TIMEOUT")]
    idle_timeout: Duration,
    /// Bytes of a waiting response that a caller must take in each --write-interval.
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = clap::value_parser!(u32).range(1..), env = "CAPT_ROUTER_MIN_WRITE_BYTES")]
    min_write_bytes: u32,
    /// Interval of --min-write-bytes.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_positive, env = "CAPT_ROUTER_WRITE_INTERVAL")]
    write_interval: Duration,
    /// Requests that an HTTP/2 caller may reset before their response, on each connection and in each --reset-interval.
    #[arg(long, value_name = "N", default_value = "100", env = "CAPT_ROUTER_MAX_PREMATURE_RESETS")]
    max_premature_resets: u32,
    /// Interval of --max-premature-resets.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_positive, env = "CAPT_ROUTER_RESET_INTERVAL")]
    reset_interval: Duration,
}

/// A limit of no time would end everything at once.
fn parse_positive(text: &str) -> Result<Duration, String> {
    let parsed = time::parse_duration(text)?;
    if parsed.is_zero() { Err("it must be longer than 0s".to_owned()) } else { Ok(parsed) }
}

impl LimitArgs {
    pub(super) fn proxy_limits(&self) -> ProxyLimits {
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let per_peer = self.max_connections_per_peer.unwrap_or_else(|| self.max_connections.div_ceil(4));
        ProxyLimits {
            max_connections: count(self.max_connections),
            max_connections_per_peer: count(per_peer),
            idle_timeout: self.idle_timeout,
            min_write_bytes: count(self.min_write_bytes),
            write_interval: self.write_interval,
            max_premature_resets: self.max_premature_resets,
            reset_interval: self.reset_interval,
            ..ProxyLimits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        limits: LimitArgs,
    }

    fn parse(flags: &[&str]) -> ProxyLimits {
        Command::try_parse_from([&["router"][..], flags].concat()).unwrap().limits.proxy_limits()
    }

    #[test]
    fn m5_the_defaults_of_the_flags_are_those_of_the_proxy() {
        assert_eq!(format!("{:?}", parse(&[])), format!("{:?}", ProxyLimits::default()));
    }

    #[test]
    fn m5_a_peer_gets_a_quarter_of_the_connections_unless_its_share_is_given() {
        assert_eq!(parse(&["--max-connections=10"]).max_connections_per_peer, 3);
        let given = parse(&["--max-connections=10", "--max-connections-per-peer=7"]);
        assert_eq!((given.max_connections, given.max_connections_per_peer), (10, 7));
    }

    #[test]
    fn m5_a_limit_of_nothing_is_refused() {
        let counts = ["--max-connections=0", "--max-connections-per-peer=0", "--min-write-bytes=0"];
        let times = ["--idle-timeout=0s", "--write-interval=0s", "--reset-interval=0s"];
        for flag in counts.into_iter().chain(times) {
            assert!(Command::try_parse_from(["router", flag]).is_err(), "{flag}");
        }
    }
}
