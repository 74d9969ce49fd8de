//! What an agent may dial. Loopback targets of the object are accepted; any other target only if the command line confirms it.
//! Later changes of the object have no effect on a running agent.

use capt_kinds::sandbox::{LocalProtocol, Mapping as Proposed};
use sandbox_router::tunnel::{InvalidMapping, LocalMapping, TunnelProtocol};

/// Why a mapping is rejected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnconfirmedMapping {
    /// Its target is not on this machine.
    #[error("port {port} maps to {to}, which is not on this machine; confirm it with --map {port}={to}")]
    NotLoopback {
        /// The container port.
        port: i32,
        /// Its target.
        to: String,
    },
    /// The command line maps a port that the object does not map.
    #[error("the LocalWorkload has no mapping of port {port}; it has {known}")]
    UnknownPort {
        /// The port of the command line.
        port: u16,
        /// The ports of the object.
        known: String,
    },
    /// The object's mapping is not valid.
    #[error(transparent)]
    Invalid(#[from] InvalidMapping),
}

/// Confirms the mappings of the object.
pub fn confirm_mappings(
    proposed: &[Proposed],
    given: &[LocalMapping],
) -> Result<Vec<LocalMapping>, UnconfirmedMapping> {
    let is_known = |port: u16| proposed.iter().any(|it| it.port == i32::from(port));
    if let Some(stranger) = given.iter().find(|it| !is_known(it.port)) {
        let known: Vec<String> = proposed.iter().map(|it| it.port.to_string()).collect();
        return Err(UnconfirmedMapping::UnknownPort { port: stranger.port, known: known.join(", ") });
    }
    proposed.iter().map(|it| confirm_mapping(it, given)).collect()
}

fn confirm_mapping(proposed: &Proposed, given: &[LocalMapping]) -> Result<LocalMapping, UnconfirmedMapping> {
    let protocol = match proposed.app_protocol {
        LocalProtocol::Http => TunnelProtocol::Http,
        LocalProtocol::H2c | LocalProtocol::Grpc => TunnelProtocol::H2c,
        LocalProtocol::Tcp => TunnelProtocol::Tcp,
    };
    if let Some(given) = given.iter().find(|it| i32::from(it.port) == proposed.port) {
        // The protocol always comes from the object, which the routers use too.
        return Ok(LocalMapping { protocol, ..given.clone() });
    }
    let port = u16::try_from(proposed.port).unwrap_or_default();
    let mapping = LocalMapping::new(port, &proposed.to_local, protocol)?;
    if !mapping.is_loopback() {
        return Err(UnconfirmedMapping::NotLoopback { port: proposed.port, to: proposed.to_local.clone() });
    }
    Ok(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(port: i32, to_local: &str) -> Proposed {
        Proposed { port, to_local: to_local.to_owned(), app_protocol: LocalProtocol::Http }
    }

    fn given(text: &str) -> LocalMapping {
        text.parse().unwrap()
    }

    #[test]
    fn what_stays_on_this_machine_is_taken_as_it_is_proposed() {
        let all =
            confirm_mappings(&[proposed(8080, "localhost:3000"), proposed(9090, "127.0.0.1:9090")], &[])
                .unwrap();
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["8080=localhost:3000/http", "9090=127.0.0.1:9090/http"]);
    }

    #[test]
    fn what_leaves_this_machine_has_to_be_said_at_the_command_line() {
        let elsewhere = [proposed(8080, "10.0.0.5:80")];
        let refused = confirm_mappings(&elsewhere, &[]).unwrap_err();
        assert!(refused.to_string().contains("--map 8080=10.0.0.5:80"), "{refused}");
        let all = confirm_mappings(&elsewhere, &[given("8080=10.0.0.5:80")]).unwrap();
        assert_eq!(all[0].to_local(), "10.0.0.5:80");
    }

    #[test]
    fn the_command_line_has_the_last_word_on_where_and_the_object_on_what_is_spoken() {
        let mut grpc = proposed(50051, "localhost:1");
        grpc.app_protocol = LocalProtocol::Grpc;
        let all = confirm_mappings(&[grpc], &[given("50051=localhost:4000")]).unwrap();
        assert_eq!(all[0].to_string(), "50051=localhost:4000/h2c");
    }

    #[test]
    fn a_port_that_the_object_does_not_have_is_a_mistake() {
        let refused =
            confirm_mappings(&[proposed(8080, "localhost:1")], &[given("8081=localhost:1")]).unwrap_err();
        assert_eq!(refused, UnconfirmedMapping::UnknownPort { port: 8081, known: "8080".to_owned() });
    }
}
