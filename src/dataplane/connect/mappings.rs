//! What an agent may dial. The object proposes, the command line decides: what stays on this machine is taken as it is
//! proposed, everything else only if the command line says the same. A change of the object later changes nothing here.

use sandbox::api::{LocalProtocol, Mapping as Proposed};
use sandbox_router::tunnel::{BadMapping, Mapping, Protocol};

/// Why a mapping is not used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unconfirmed {
    /// It leaves this machine.
    #[error(
        "port {port} is to go to {to}, which is not this machine; if that is what you want, say so with --map {port}={to}"
    )]
    Elsewhere {
        /// The container port.
        port: i32,
        /// Where it is to go.
        to: String,
    },
    /// The command line maps a port that the object does not have.
    #[error("the LocalWorkload has no mapping of port {port}; it has {known}")]
    Unknown {
        /// The port of the command line.
        port: u16,
        /// The ports of the object.
        known: String,
    },
    /// The object proposes nonsense.
    #[error(transparent)]
    Bad(#[from] BadMapping),
}

/// The mappings that are served: those of the object, as far as they are confirmed.
pub fn confirm(proposed: &[Proposed], given: &[Mapping]) -> Result<Vec<Mapping>, Unconfirmed> {
    let is_known = |port: u16| proposed.iter().any(|it| it.port == i32::from(port));
    if let Some(stranger) = given.iter().find(|it| !is_known(it.port)) {
        let known: Vec<String> = proposed.iter().map(|it| it.port.to_string()).collect();
        return Err(Unconfirmed::Unknown { port: stranger.port, known: known.join(", ") });
    }
    proposed.iter().map(|it| one(it, given)).collect()
}

fn one(proposed: &Proposed, given: &[Mapping]) -> Result<Mapping, Unconfirmed> {
    let protocol = match proposed.app_protocol {
        LocalProtocol::Http => Protocol::Http,
        LocalProtocol::H2c | LocalProtocol::Grpc => Protocol::H2c,
        LocalProtocol::Tcp => Protocol::Tcp,
    };
    if let Some(given) = given.iter().find(|it| i32::from(it.port) == proposed.port) {
        // What is spoken is the object's to say: the routers go by it.
        return Ok(Mapping { protocol, ..given.clone() });
    }
    let port = u16::try_from(proposed.port).unwrap_or_default();
    let mapping = Mapping::new(port, &proposed.to_local, protocol)?;
    if !mapping.is_loopback() {
        return Err(Unconfirmed::Elsewhere { port: proposed.port, to: proposed.to_local.clone() });
    }
    Ok(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(port: i32, to_local: &str) -> Proposed {
        Proposed { port, to_local: to_local.to_owned(), app_protocol: LocalProtocol::Http }
    }

    fn given(text: &str) -> Mapping {
        text.parse().unwrap()
    }

    #[test]
    fn what_stays_on_this_machine_is_taken_as_it_is_proposed() {
        let all =
            confirm(&[proposed(8080, "localhost:3000"), proposed(9090, "127.0.0.1:9090")], &[]).unwrap();
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["8080=localhost:3000/http", "9090=127.0.0.1:9090/http"]);
    }

    #[test]
    fn what_leaves_this_machine_has_to_be_said_at_the_command_line() {
        let elsewhere = [proposed(8080, "10.0.0.5:80")];
        let refused = confirm(&elsewhere, &[]).unwrap_err();
        assert!(refused.to_string().contains("--map 8080=10.0.0.5:80"), "{refused}");
        let all = confirm(&elsewhere, &[given("8080=10.0.0.5:80")]).unwrap();
        assert_eq!(all[0].to_local(), "10.0.0.5:80");
    }

    #[test]
    fn the_command_line_has_the_last_word_on_where_and_the_object_on_what_is_spoken() {
        let mut grpc = proposed(50051, "localhost:1");
        grpc.app_protocol = LocalProtocol::Grpc;
        let all = confirm(&[grpc], &[given("50051=localhost:4000")]).unwrap();
        assert_eq!(all[0].to_string(), "50051=localhost:4000/h2c");
    }

    #[test]
    fn a_port_that_the_object_does_not_have_is_a_mistake() {
        let refused = confirm(&[proposed(8080, "localhost:1")], &[given("8081=localhost:1")]).unwrap_err();
        assert_eq!(refused, Unconfirmed::Unknown { port: 8081, known: "8080".to_owned() });
    }
}
