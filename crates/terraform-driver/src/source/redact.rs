//! Credentials in addresses.

use percent_encoding::percent_decode_str;

/// What replaces a credential.
const REDACTED: &str = "REDACTED";

/// Options of an address that are no credentials.
const PUBLIC_OPTIONS: &[&str] = &["ref", "depth", "archive", "tag", "digest", "checksum", "version"];

/// Shorter texts occur by chance.
const SHORTEST_SECRET: usize = 4;

/// An address without its credentials. Works on any text, because it is used in messages about addresses that do not parse.
pub(super) fn redact_address(address: &str) -> String {
    secrets(address).into_iter().fold(address.to_owned(), |shown, secret| shown.replace(secret, REDACTED))
}

/// A text in which the credentials of an address are replaced, also where they are written in another encoding.
pub(super) fn redact_text(address: &str, text: &str) -> String {
    let mut found = Vec::new();
    for secret in secrets(address) {
        found.push(secret.to_owned());
        // A user and a password are also printed apart.
        found.extend(secret.split(':').map(str::to_owned));
        found.extend(secret.split(':').map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()));
    }
    found.retain(|secret| secret.len() >= SHORTEST_SECRET);
    found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    found.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), REDACTED))
}

/// The parts of an address that are credentials: user and password, and the values of unknown options.
fn secrets(address: &str) -> Vec<&str> {
    let (place, options) = address.split_once('?').unwrap_or((address, ""));
    let place = place.split_once("::").map_or(place, |(_, rest)| rest);
    let (scheme, rest) = place.split_once("://").unwrap_or(("", place));
    let mut found = Vec::new();
    // The password may contain a slash, although it should not.
    if let Some((user, _)) = rest.rsplit_once('@')
        && (user.contains(':') || !matches!(scheme, "" | "ssh"))
    {
        found.push(user);
    }
    found.extend(options.split(['&', ';']).filter_map(|option| {
        let (name, value) = option.split_once('=')?;
        (!PUBLIC_OPTIONS.contains(&name) && !value.is_empty()).then_some(value)
    }));
    found
}
