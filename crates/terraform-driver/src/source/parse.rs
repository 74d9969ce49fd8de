//! Parses module addresses as terraform and its downloader do. Where the two could disagree, the address is refused.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::{ModuleSourceKind, SourceError, redact::redact_address};

/// Hosts whose repositories are addressed without a scheme.
const GIT_HOSTS: &[&str] = &["github.com", "gitlab.com", "bitbucket.org"];

/// Longest part of a registry address.
const MAX_REGISTRY_PART: usize = 64;

/// Whether terraform takes it for a path.
pub(super) fn is_local_path(address: &str) -> bool {
    ["/", "./", "../"].iter().any(|start| address.starts_with(start)) || matches!(address, "." | "..")
}

/// Whether it is a path or a file URL, with or without a getter in front.
pub(super) fn is_local(address: &str) -> bool {
    let (getters, place) = split_getters(address);
    let lower = place.to_ascii_lowercase();
    getters.iter().any(|getter| getter.eq_ignore_ascii_case("file"))
        || place.starts_with(['.', '/', '~', '\\'])
        || lower.starts_with("file:")
        || is_drive(&lower)
}

/// `c:\` or `c:/`
fn is_drive(lower: &str) -> bool {
    let bytes = lower.as_bytes();
    bytes.len() > 2 && bytes[0].is_ascii_lowercase() && bytes[1] == b':' && matches!(bytes[2], b'/' | b'\\')
}

/// The `x::` in front of an address, and the rest.
fn split_getters(address: &str) -> (Vec<&str>, &str) {
    let (mut getters, mut rest) = (Vec::new(), address);
    while let Some((getter, tail)) = rest.split_once("::")
        && getter.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
    {
        getters.push(getter);
        rest = tail;
    }
    (getters, rest)
}

/// An address that is not on this machine.
pub(super) fn parse_remote(text: &str) -> Result<ModuleSourceKind, SourceError> {
    let address = Address { text };
    if text.is_empty() {
        return Err(SourceError::Empty);
    }
    if text.starts_with('-') {
        return Err(address.option("it"));
    }
    if is_local(text) {
        return Err(SourceError::Local { address: address.shown() });
    }
    if text.contains(|letter: char| letter.is_control() || letter.is_whitespace()) {
        return Err(address.malformed("it contains a space or a control character"));
    }
    if text.contains('\\') {
        return Err(address.malformed("it contains a backslash"));
    }
    let (getters, place) = split_getters(text);
    let (place, options) = place.split_once('?').unwrap_or((place, ""));
    let options = address.options(options)?;
    address.check_path(place)?;
    match getters.as_slice() {
        [] => address.without_getter(place, &options),
        ["git"] => address.git(place, &options),
        ["http" | "https"] => {
            address.url(place, &["http", "https"]).map(|host| ModuleSourceKind::Https { host })
        }
        ["s3" | "gcs"] => {
            address.url(place, &["http", "https"]).map(|host| ModuleSourceKind::Bucket { host })
        }
        _ => Err(address.unsupported()),
    }
}

/// The options behind the `?`, decoded.
type Options<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// The address that is parsed, for its messages.
struct Address<'a> {
    text: &'a str,
}

impl Address<'_> {
    fn shown(&self) -> String {
        redact_address(self.text)
    }

    fn unsupported(&self) -> SourceError {
        SourceError::Unsupported { address: self.shown() }
    }

    fn malformed(&self, problem: &'static str) -> SourceError {
        SourceError::Malformed { address: self.shown(), problem }
    }

    fn option(&self, part: &'static str) -> SourceError {
        SourceError::Option { address: self.shown(), part }
    }

    /// Checks and decodes the options.
    fn options<'o>(&self, text: &'o str) -> Result<Options<'o>, SourceError> {
        let mut options = Vec::new();
        for option in text.split(['&', ';']).filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let (name, value) = (decoded(name), decoded(value));
            if value.trim_start_matches(['+', ' ']).starts_with('-') {
                return Err(self.option("the value of an option"));
            }
            if value.contains(|letter: char| letter.is_control()) {
                return Err(self.malformed("an option contains a control character"));
            }
            // A checksum in a file, and a profile in a file of credentials.
            let is_of_host = (name == "checksum" && value.to_ascii_lowercase().starts_with("file:"))
                || name.eq_ignore_ascii_case("aws_profile");
            if is_of_host {
                return Err(SourceError::HostOption { address: self.shown(), name: name.into_owned() });
            }
            options.push((name, value));
        }
        Ok(options)
    }

    /// A path must not lead out of the module, whatever its encoding.
    fn check_path(&self, place: &str) -> Result<(), SourceError> {
        if decoded(place).split(['/', '\\']).any(|part| part == "..") {
            return Err(self.malformed("it contains `..`"));
        }
        Ok(())
    }

    fn without_getter(&self, place: &str, options: &Options<'_>) -> Result<ModuleSourceKind, SourceError> {
        if let Some((scheme, _)) = place.split_once("://") {
            return match scheme.to_ascii_lowercase().as_str() {
                "http" | "https" => {
                    self.url(place, &["http", "https"]).map(|host| ModuleSourceKind::Https { host })
                }
                "oci" => self.url(place, &["oci"]).map(|host| ModuleSourceKind::Oci { host }),
                "s3" => self.url(place, &["s3"]).map(|host| ModuleSourceKind::Bucket { host }),
                "git" => self.git(place, options),
                _ => Err(self.unsupported()),
            };
        }
        if is_scp_like(place) {
            return self.git(place, options);
        }
        let host = place.split('/').next().unwrap_or_default();
        if GIT_HOSTS.contains(&host) {
            return self.git(place, options);
        }
        if host.ends_with(".amazonaws.com") || place.starts_with("www.googleapis.com/storage/") {
            return Ok(ModuleSourceKind::Bucket { host: host.to_owned() });
        }
        self.registry(place)
    }

    /// The host of a URL with one of these schemes.
    fn url(&self, place: &str, schemes: &[&str]) -> Result<String, SourceError> {
        let Some((scheme, rest)) = place.split_once("://") else { return Err(self.unsupported()) };
        if !schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(self.unsupported());
        }
        let authority = rest.split(['/', '#']).next().unwrap_or_default();
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if decoded(user).starts_with('-') {
            return Err(self.option("the user"));
        }
        self.host(host)
    }

    /// A host, with its port if there is one.
    fn host(&self, host: &str) -> Result<String, SourceError> {
        if host.starts_with('-') {
            return Err(self.option("the host"));
        }
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
        let is_host = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, port)) => {
                address.parse::<std::net::Ipv6Addr>().is_ok()
                    && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
            }
            None => {
                let (name, port) = host.split_once(':').unwrap_or((host, "0"));
                !name.is_empty() && name.chars().all(is_name) && is_port(port)
            }
        };
        if is_host { Ok(host.to_owned()) } else { Err(self.malformed("it has no valid host")) }
    }

    fn git(&self, place: &str, options: &Options<'_>) -> Result<ModuleSourceKind, SourceError> {
        for (name, value) in options {
            if name == "depth" && !value.chars().all(|letter| letter.is_ascii_digit()) {
                return Err(self.malformed("depth is not a number"));
            }
        }
        let url = if place.contains("://") {
            self.url(place, &["https", "http", "ssh", "git", "git+ssh"])?;
            repository(place)
        } else if let Some((login, path)) = place.split_once(':').filter(|_| is_scp_like(place)) {
            self.scp_like(login, path)?;
            repository(place)
        } else {
            let host = place.split('/').next().unwrap_or_default();
            if !GIT_HOSTS.contains(&host) {
                return Err(self.unsupported());
            }
            format!("https://{}", repository(place))
        };
        let reference = options.iter().find(|(name, _)| name == "ref").map(|(_, value)| value.to_string());
        Ok(ModuleSourceKind::Git { url, reference })
    }

    /// `user@host:path`
    fn scp_like(&self, login: &str, path: &str) -> Result<(), SourceError> {
        let (user, host) = login.split_once('@').unwrap_or_default();
        if user.starts_with('-') {
            return Err(self.option("the user"));
        }
        if path.starts_with('-') {
            return Err(self.option("the path"));
        }
        self.host(host).map(drop)
    }

    /// `[<host>/]<namespace>/<name>/<provider>`
    fn registry(&self, place: &str) -> Result<ModuleSourceKind, SourceError> {
        let package = place.split_once("//").map_or(place, |(package, _)| package);
        let parts: Vec<&str> = package.split('/').collect();
        let (host, name) = match parts.as_slice() {
            [_, _, _] => (None, parts.as_slice()),
            [host, name @ ..] if name.len() == 3 && host.contains(['.', ':']) => {
                (Some(self.host(host)?), name)
            }
            _ => return Err(self.unsupported()),
        };
        if !name.iter().all(|part| is_registry_part(part)) {
            return Err(self.unsupported());
        }
        Ok(ModuleSourceKind::Registry { host, name: name.join("/") })
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

/// `user@host:path`, without a scheme.
fn is_scp_like(place: &str) -> bool {
    let login = place.split_once(':').map(|(login, _)| login);
    login.is_some_and(|login| login.contains('@') && !login.contains('/')) && !place.contains("://")
}

fn is_registry_part(part: &str) -> bool {
    let is_inner = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let is_outer = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
    part.len() <= MAX_REGISTRY_PART
        && is_outer(part.chars().next())
        && is_outer(part.chars().next_back())
        && part.chars().all(is_inner)
}

/// A repository's address without credentials and without the subdirectory.
fn repository(place: &str) -> String {
    let (scheme, rest) = place.split_once("://").unwrap_or(("", place));
    let package = rest.split_once("//").map_or(rest, |(package, _)| package);
    let bare = package.split_once('@').map_or(package, |(_, bare)| bare);
    if scheme.is_empty() { bare.to_owned() } else { format!("{}://{bare}", scheme.to_ascii_lowercase()) }
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}
