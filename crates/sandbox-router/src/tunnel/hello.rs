//! The hello of an agent, and its mappings. Pure.

use std::{fmt, net::IpAddr, str::FromStr};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, header, request::Parts};
use http_body_util::Empty;

use super::{WorkloadName, wire};

/// Protocol of an application port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TunnelProtocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/2 without TLS, gRPC included.
    H2c,
    /// Opaque bytes.
    Tcp,
}

impl TunnelProtocol {
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::H2c => "h2c",
            Self::Tcp => "tcp",
        }
    }
}

impl FromStr for TunnelProtocol {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "http" => Ok(Self::Http),
            "h2c" | "grpc" => Ok(Self::H2c),
            "tcp" => Ok(Self::Tcp),
            _ => Err(()),
        }
    }
}

/// Maps a container port of the baseline to a target on the developer's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalMapping {
    /// The container port.
    pub port: u16,
    /// Host name or address, on or reachable from this machine.
    pub host: String,
    /// Target port.
    pub to: u16,
    /// Protocol of the target.
    pub protocol: TunnelProtocol,
}

/// An invalid mapping.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a valid mapping; use PORT=HOST:PORT, such as 8080=localhost:3000, optionally with /grpc or /tcp"
)]
pub struct InvalidMapping(String);

impl LocalMapping {
    /// Maps a port to `host:port`.
    pub fn new(port: u16, to_local: &str, protocol: TunnelProtocol) -> Result<Self, InvalidMapping> {
        let bad = || InvalidMapping(format!("{port}={to_local}"));
        let (host, to) = to_local.rsplit_once(':').unwrap_or(("localhost", to_local));
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let to: u16 = to.parse().map_err(|_| bad())?;
        let is_host = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_' | ':');
        if port == 0 || to == 0 || host.is_empty() || !host.chars().all(is_host) {
            return Err(bad());
        }
        Ok(Self { port, host: host.to_owned(), to, protocol })
    }

    /// `host:port` for display.
    pub fn to_local(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.to)
        } else {
            format!("{}:{}", self.host, self.to)
        }
    }

    /// Whether the target is on this machine, independent of DNS.
    pub fn is_loopback(&self) -> bool {
        let name = self.host.to_ascii_lowercase();
        name == "localhost"
            || name.ends_with(".localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
    }
}

impl fmt::Display for LocalMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}/{}", self.port, self.to_local(), self.protocol.as_str())
    }
}

impl FromStr for LocalMapping {
    type Err = InvalidMapping;

    fn from_str(text: &str) -> Result<Self, InvalidMapping> {
        let bad = || InvalidMapping(text.to_owned());
        let (port, rest) = text.split_once('=').ok_or_else(bad)?;
        let (to_local, protocol) = rest.split_once('/').unwrap_or((rest, "http"));
        let port = port.parse().map_err(|_| bad())?;
        Self::new(port, to_local, protocol.parse().map_err(|()| bad())?).map_err(|_| bad())
    }
}

/// The hello of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentHello {
    pub(super) workload: WorkloadName,
    pub(super) token: String,
    /// Id of the agent process: the same process may always reconnect.
    pub(super) session: String,
    /// The epoch of its last connection; 0 if there was none.
    pub(super) epoch: u64,
    pub(super) version: String,
    pub(super) takeover: bool,
    pub(super) mappings: Vec<LocalMapping>,
}

impl AgentHello {
    /// The upgrade request with this hello.
    pub(super) fn to_request(&self, host: &str) -> http::Result<Request<Empty<Bytes>>> {
        let mappings: Vec<String> = self.mappings.iter().map(ToString::to_string).collect();
        let mut token = http::HeaderValue::try_from(format!("Bearer {}", self.token))?;
        token.set_sensitive(true);
        Request::builder()
            .method(Method::GET)
            .uri(format!("{}{}", wire::PATH, self.workload))
            .header(header::HOST, host)
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, wire::UPGRADE)
            .header(header::AUTHORIZATION, token)
            .header(wire::SESSION, &self.session)
            .header(wire::EPOCH, self.epoch)
            .header(wire::VERSION, &self.version)
            .header(wire::TAKEOVER, if self.takeover { "true" } else { "false" })
            .header(wire::MAPPINGS, mappings.join(","))
            .body(Empty::new())
    }

    /// Parses the upgrade request; the error is a message.
    pub(super) fn parse(parts: &Parts) -> Result<Self, String> {
        let path =
            parts.uri.path().strip_prefix(wire::PATH).ok_or("not found; this port serves only the tunnel")?;
        let (namespace, name) =
            path.split_once('/').ok_or("the path must name a workload as namespace/name")?;
        let is_name = |it: &str| {
            !it.is_empty()
                && it.len() <= 253
                && it.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || "-.".contains(it))
        };
        if !is_name(namespace) || !is_name(name) {
            return Err("the path must name a workload as namespace/name".to_owned());
        }
        if !header_text(&parts.headers, &header::UPGRADE).eq_ignore_ascii_case(wire::UPGRADE) {
            return Err(format!("this gateway supports only the protocol {}", wire::UPGRADE));
        }
        let token = header_text(&parts.headers, &header::AUTHORIZATION);
        let mappings = header_text(&parts.headers, &wire::MAPPINGS);
        let mappings =
            mappings.split(',').filter(|it| !it.is_empty()).map(str::parse).collect::<Result<_, _>>();
        Ok(Self {
            workload: WorkloadName::new(namespace, name),
            token: token.strip_prefix("Bearer ").unwrap_or_default().to_owned(),
            session: header_text(&parts.headers, &wire::SESSION).to_owned(),
            epoch: header_text(&parts.headers, &wire::EPOCH).parse().unwrap_or(0),
            version: header_text(&parts.headers, &wire::VERSION).to_owned(),
            takeover: header_text(&parts.headers, &wire::TAKEOVER) == "true",
            mappings: mappings.map_err(|error: InvalidMapping| error.to_string())?,
        })
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> &'a str {
    headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("8080=localhost:3000", "8080=localhost:3000/http")]
    #[case("8080=3000", "8080=localhost:3000/http")]
    #[case("50051=127.0.0.1:50051/grpc", "50051=127.0.0.1:50051/h2c")]
    #[case("5432=[::1]:5432/tcp", "5432=[::1]:5432/tcp")]
    fn a_mapping_is_read_as_it_is_written(#[case] text: &str, #[case] said: &str) {
        let mapping: LocalMapping = text.parse().unwrap();
        assert_eq!(mapping.to_string(), said);
        assert_eq!(said.parse::<LocalMapping>().unwrap(), mapping);
    }

    #[rstest]
    #[case("8080")]
    #[case("0=localhost:3000")]
    #[case("8080=localhost:0")]
    #[case("8080=localhost:70000")]
    #[case("8080=:3000")]
    #[case("8080=a b:3000")]
    #[case("8080=host,x:3000")]
    #[case("8080=localhost:3000/quic")]
    fn what_is_no_mapping_is_refused(#[case] text: &str) {
        assert_eq!(text.parse::<LocalMapping>(), Err(InvalidMapping(text.to_owned())));
    }

    #[rstest]
    #[case("1=localhost:1", true)]
    #[case("1=127.3.2.1:1", true)]
    #[case("1=[::1]:1", true)]
    #[case("1=app.localhost:1", true)]
    #[case("1=10.0.0.1:1", false)]
    #[case("1=localhost.example.org:1", false)]
    #[case("1=127.0.0.1.example.org:1", false)]
    fn only_this_machine_is_loopback(#[case] text: &str, #[case] is: bool) {
        assert_eq!(text.parse::<LocalMapping>().unwrap().is_loopback(), is);
    }

    #[test]
    fn what_the_agent_says_is_what_the_gateway_hears() {
        let hello = AgentHello {
            workload: WorkloadName::new("shop", "cart-local"),
            token: "secret".to_owned(),
            session: "s-1".to_owned(),
            epoch: 7,
            version: "0.1.0".to_owned(),
            takeover: true,
            mappings: vec!["8080=localhost:3000".parse().unwrap(), "9=[::1]:9/tcp".parse().unwrap()],
        };
        let (parts, _) = hello.to_request("gateway").unwrap().into_parts();
        assert_eq!(AgentHello::parse(&parts), Ok(hello));
    }

    #[rstest]
    #[case("/healthz")]
    #[case("/tunnel/v1/shop")]
    #[case("/tunnel/v1/shop/a/b")]
    #[case("/tunnel/v1//a")]
    #[case("/tunnel/v1/shop/UPPER")]
    fn what_names_no_workload_is_not_heard(#[case] path: &str) {
        let (parts, ()) =
            Request::get(path).header(header::UPGRADE, wire::UPGRADE).body(()).unwrap().into_parts();
        assert!(AgentHello::parse(&parts).is_err());
    }
}
