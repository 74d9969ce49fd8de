//! Extracts the AWS error code of a diagnostic and normalises its message.

/// Maximum length of a message: the API server limits event notes to 1 kB.
const MAX_MESSAGE_LEN: usize = 1000;

/// Codes without a characteristic suffix.
const BARE_CODES: &[&str] = &[
    "AccessDenied",
    "AuthFailure",
    "ConcurrentModification",
    "DeleteConflict",
    "DependencyViolation",
    "EntityAlreadyExists",
    "ExpiredToken",
    "IncorrectState",
    "IncompleteSignature",
    "InternalError",
    "InternalFailure",
    "InvalidClientTokenId",
    "InvalidIdentityToken",
    "InvalidParameterCombination",
    "InvalidParameterValue",
    "MalformedPolicyDocument",
    "NoSuchEntity",
    "OptInRequired",
    "PodExecutionRoleAlreadyInUse",
    "RequestExpired",
    "RequestThrottled",
    "ServiceUnavailable",
    "SignatureDoesNotMatch",
    "SlowDown",
    "Throttling",
    "TooManyRequests",
    "UnauthorizedOperation",
    "UnsupportedOperation",
    "ValidationError",
    "IamThrottling",
];

/// Suffixes that identify a code.
const CODE_SUFFIXES: &[&str] =
    &["Exception", "LimitExceeded", ".NotFound", ".Malformed", ".Conflict", ".InUse", ".Range"];

/// The error code: `… api error CODE: text` (SDK 2), `…, RequestID: x, CODE: text` (its modelled errors), or
/// `… CODE: text … status code: 400` (SDK 1).
pub(super) fn error_code(text: &str) -> Option<&str> {
    if let Some(code) = text.split("api error ").nth(1).and_then(leading_code) {
        return Some(code);
    }
    let words = text.split([' ', '\n', '\t', '"', '(', ')']);
    let mut codes = words.filter_map(|word| word.strip_suffix(':')).filter(|word| is_code_shaped(word));
    codes.find(|word| BARE_CODES.contains(word) || CODE_SUFFIXES.iter().any(|end| word.ends_with(end)))
}

fn leading_code(text: &str) -> Option<&str> {
    let (code, _) = text.split_once(':')?;
    is_code_shaped(code).then_some(code)
}

fn is_code_shaped(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'))
}

/// Summary and detail as one text of bounded length, without request ids.
pub(super) fn failure_message(summary: &str, detail: &str) -> String {
    let summary = strip_request_ids(summary);
    let detail = strip_request_ids(detail);
    let joined = match (summary.trim(), detail.trim()) {
        (summary, "") => summary.to_owned(),
        ("", detail) => detail.to_owned(),
        (summary, detail) => format!("{summary}: {detail}"),
    };
    truncate(&joined, MAX_MESSAGE_LEN)
}

fn truncate(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Removes `RequestID: x, `, `HostID: x, ` and `, request id: x`.
fn strip_request_ids(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((start, label)) = ["RequestID: ", "HostID: ", ", request id: "]
        .into_iter()
        .filter_map(|label| Some((rest.find(label)?, label)))
        .min()
    {
        kept.push_str(&rest[..start]);
        let value = &rest[start + label.len()..];
        let end = value.find([',', ' ', '\n', ')']).unwrap_or(value.len());
        rest = &value[end..];
        if !label.starts_with(',') {
            rest = rest.strip_prefix(", ").unwrap_or(rest);
        }
    }
    kept.push_str(rest);
    kept
}
