//! String and number formats. Unknown formats are ignored.

use std::{net::Ipv6Addr, sync::LazyLock};

use regex::Regex;

use super::parse::Schema;

const STRINGS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// The schema's format, if it is supported for the schema's type.
pub fn supported_format(schema: &Schema) -> Option<&str> {
    let format = schema.format.as_str();
    is_supported(if schema.int_or_string { "" } else { &schema.kind }, format).then_some(format)
}

/// Whether a format is supported for a type.
pub fn is_supported(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => is_known(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether it is a string format.
pub fn is_known(format: &str) -> bool {
    STRINGS.contains(&normalized_name(format).as_str())
}

/// Dashes in format names are ignored.
fn normalized_name(format: &str) -> String {
    format.replace('-', "")
}

/// Whether a text has a format; unknown formats accept everything.
pub fn is_valid(format: &str, text: &str) -> bool {
    match normalized_name(format).as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "byte" => is_base64(text),
        "cidr" => is_cidr(text),
        "creditcard" => is_credit_card(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => parse_duration(text).is_some(),
        "email" => is_email(text),
        "hexcolor" => matches(&HEX_COLOR, text),
        "hostname" => is_hostname(text),
        "ipv4" => is_lenient_ip(text) && text.contains('.'),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8sshortname" => text.len() <= 63 && matches(&SHORT_NAME, text),
        "k8slongname" => text.len() <= 253 && matches(&LONG_NAME, text),
        "mac" => is_mac(text),
        "rgbcolor" => matches(&RGB_COLOR, text),
        "ssn" => text.len() == 11 && matches(&SSN, text),
        "uri" => is_request_uri(text),
        "uuid" => matches(&UUID, text),
        "uuid3" => matches(&UUID3, text),
        "uuid4" => matches(&UUID4, text),
        "uuid5" => matches(&UUID5, text),
        _ => true,
    }
}

type LazyRegex = LazyLock<Option<Regex>>;

static UUID: LazyRegex =
    LazyLock::new(|| Regex::new("(?i)^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$").ok());
static UUID3: LazyRegex = LazyLock::new(|| {
    Regex::new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$").ok()
});
static UUID4: LazyRegex = LazyLock::new(|| {
    Regex::new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$").ok()
});
static UUID5: LazyRegex = LazyLock::new(|| {
    Regex::new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$").ok()
});
static HEX_COLOR: LazyRegex = LazyLock::new(|| Regex::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static RGB_COLOR: LazyRegex = LazyLock::new(|| {
    let part = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});
static SSN: LazyRegex = LazyLock::new(|| Regex::new("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
static SHORT_NAME: LazyRegex = LazyLock::new(|| Regex::new("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").ok());
static LONG_NAME: LazyRegex =
    LazyLock::new(|| Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").ok());
static CREDIT_CARD: LazyRegex = LazyLock::new(|| {
    let issuers = [
        "4[0-9]{12}(?:[0-9]{3})?",
        "5[1-5][0-9]{14}",
        "6(?:011|5[0-9][0-9])[0-9]{12}",
        "3[47][0-9]{13}",
        "3(?:0[0-5]|[68][0-9])[0-9]{11}",
        "(?:2131|1800|35[0-9]{3})[0-9]{11}",
    ];
    Regex::new(&format!("^(?:{})$", issuers.join("|"))).ok()
});
static HOSTNAME: LazyRegex = LazyLock::new(|| {
    let letter = r"[a-zA-Z0-9\p{S}\p{L}]";
    let inner = r"[a-zA-Z0-9\-\p{S}\p{L}]";
    let single = format!("{letter}((-?{letter}{{0,62}})?)");
    let dotted = format!(r"({letter}(({inner}{{0,61}}{letter})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}}");
    Regex::new(&format!("^({single}|{dotted})$")).ok()
});
static DURATION: LazyRegex = LazyLock::new(|| Regex::new(r"([0-9]+)\s*([A-Za-zµ]+)").ok());
static TIME: LazyRegex = LazyLock::new(|| {
    Regex::new("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok()
});

fn matches(expression: &LazyRegex, text: &str) -> bool {
    expression.as_ref().is_some_and(|expression| expression.is_match(text))
}

fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    let padding = text.len() - data.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && data.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

/// IPv4 with leading zeros is accepted, as in kube-apiserver.
fn is_lenient_ip(text: &str) -> bool {
    let octet = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.trim_start_matches('0').len() <= 3
            && part.trim_start_matches('0').parse::<u16>().unwrap_or(0) <= 255
    };
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().is_ok();
    }
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 4 && parts.into_iter().all(octet)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = if address.contains(':') { 128 } else { 32 };
    let digits = !length.is_empty() && length.len() <= 3 && length.bytes().all(|byte| byte.is_ascii_digit());
    is_lenient_ip(address) && digits && length.parse::<u16>().is_ok_and(|length| length <= most)
}

/// A date as `2006-01-02`.
pub fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let found = TIME.as_ref().and_then(|expression| expression.captures(time));
    let Some(found) = found.filter(|_| is_date(date)) else { return false };
    let part = |at: usize| found.get(at).map(|it| it.as_str()).unwrap_or_default();
    part(1) <= "23" && part(2) <= "59" && part(3) <= "59"
}

/// Nanoseconds of `1h30m` (Go) or `22 ns`, `3 days` (Scala).
pub fn parse_duration(text: &str) -> Option<i64> {
    go_duration(text).or_else(|| scala_duration(text))
}

/// Parses Go's duration syntax: signed decimal numbers, each with a unit.
fn go_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0_f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let factor = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        if !number.bytes().any(|byte| byte.is_ascii_digit()) {
            return None;
        }
        total += number.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    nanoseconds(sign * total)
}

#[expect(clippy::cast_possible_truncation, reason = "out-of-range values are rejected first")]
fn nanoseconds(total: f64) -> Option<i64> {
    (total.abs() < 9.223_372_036_854_775e18).then_some(total.round() as i64)
}

fn scala_duration(text: &str) -> Option<i64> {
    const UNITS: [(&[&str], f64); 8] = [
        (&["ns", "nano"], 1.0),
        (&["us", "µs", "micro"], 1e3),
        (&["ms", "milli"], 1e6),
        (&["s", "sec"], 1e9),
        (&["m", "min"], 60e9),
        (&["h", "hr", "hour"], 3600e9),
        (&["d", "day"], 86_400e9),
        (&["w", "wk", "week"], 604_800e9),
    ];
    let mut total = None;
    for found in DURATION.as_ref()?.captures_iter(text) {
        let count: i64 = found.get(1)?.as_str().parse().ok()?;
        let unit = found.get(2)?.as_str().to_lowercase();
        for (names, factor) in UNITS {
            let is_unit =
                names.contains(&unit.as_str()) || names.last().is_some_and(|name| unit.starts_with(name));
            if is_unit {
                #[expect(clippy::cast_precision_loss, reason = "durations are small")]
                let part = count as f64 * factor;
                total = Some(total.unwrap_or(0.0) + part);
            }
        }
    }
    nanoseconds(total?)
}

fn is_email(text: &str) -> bool {
    let address = match (text.find('<'), text.strip_suffix('>')) {
        (Some(open), Some(inner)) => inner.get(open + 1..).unwrap_or_default(),
        (None, None) => text.trim(),
        _ => return false,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|it| it.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(it) || !it.is_ascii())
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (quoted || local.split('.').all(atom)) && (literal || domain.split('.').all(atom))
}

fn is_hostname(text: &str) -> bool {
    matches(&HOSTNAME, text) && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts
                .iter()
                .all(|part| part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    if text.starts_with('/') {
        return has_good_escapes(text);
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let good_scheme = scheme.starts_with(|it: char| it.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let host = rest.strip_prefix("//").map(|rest| rest.split(['/', '?']).next().unwrap_or_default());
    let good_host =
        host.is_none_or(|host| !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}']));
    let good_port = host
        .and_then(|host| host.rsplit_once(':'))
        .is_none_or(|(_, port)| port.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit()));
    good_scheme && good_host && good_port && has_good_escapes(rest)
}

fn has_good_escapes(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|part| part.as_bytes().get(..2).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit)))
}

fn digits(text: &str) -> Vec<u32> {
    text.chars().filter_map(|letter| letter.to_digit(10)).collect()
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace() && *letter != '-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without_separators(text);
    let (body, last) = text.split_at_checked(9).unwrap_or(("", ""));
    let check = if last == "X" { Some(10) } else { last.parse::<u32>().ok().filter(|_| last.len() == 1) };
    let numbers = digits(body);
    let sum: u32 = numbers.iter().zip(1..).map(|(digit, weight)| digit * weight).sum();
    numbers.len() == 9 && body.len() == 9 && check.is_some_and(|check| (sum + 10 * check).is_multiple_of(11))
}

fn is_isbn13(text: &str) -> bool {
    let text = without_separators(text);
    let numbers = digits(&text);
    let sum: u32 = numbers.iter().zip([1, 3].into_iter().cycle()).map(|(digit, weight)| digit * weight).sum();
    numbers.len() == 13 && text.len() == 13 && sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let numbers: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits(&numbers)
        .into_iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match (at % 2, digit * 2) {
            (0, _) => digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    matches(&CREDIT_CARD, &numbers) && sum.is_multiple_of(10)
}
