//! Classification rules, in order of precedence.
//!
//! Phrases that are decisive regardless of the code come first, then AWS codes, then messages of terraform and the network.

use super::FailureClass;

/// Phrases that take precedence over the AWS code.
const DECISIVE_PHRASES: &[(&str, FailureClass)] = &[
    ("Error acquiring the state lock", FailureClass::Lock),
    ("Error locking state", FailureClass::Lock),
    ("Saved plan is stale", FailureClass::StalePlan),
    ("Saved plan does not match the given state", FailureClass::StalePlan),
    ("lifecycle.prevent_destroy", FailureClass::Protected),
    ("deletion protection", FailureClass::Protected),
    ("deletionProtection", FailureClass::Protected),
    ("execution halted", FailureClass::Interrupted),
    ("operation canceled", FailureClass::Interrupted),
    ("context canceled", FailureClass::Interrupted),
    ("interrupt received", FailureClass::Interrupted),
    ("is not the leader any more", FailureClass::Interrupted),
    ("Misconfigured PodExecutionRole Trust Policy", FailureClass::Propagation),
    ("Role could not be assumed", FailureClass::Propagation),
    ("role could not be assumed", FailureClass::Propagation),
    ("Invalid principal in policy", FailureClass::Propagation),
    ("SSO session has expired", FailureClass::Expired),
    ("refresh cached SSO token failed", FailureClass::Expired),
    ("token has expired", FailureClass::Expired),
    ("No valid credential sources found", FailureClass::Credentials),
    ("NoCredentialProviders", FailureClass::Credentials),
    ("no EC2 IMDS role found", FailureClass::Credentials),
    ("Cannot assume IAM Role", FailureClass::Credentials),
    ("failed to get shared config profile", FailureClass::Credentials),
    ("retry quota exceeded", FailureClass::Throttle),
    ("Rate exceeded", FailureClass::Throttle),
    ("no space left on device", FailureClass::Engine),
    ("read-only file system", FailureClass::Engine),
];

/// Codes with one meaning. Groups of codes are in [`classify_code_family`].
const AWS_CODES: &[(&str, FailureClass)] = &[
    ("AccessDenied", FailureClass::UserFix),
    ("AuthFailure", FailureClass::Credentials),
    ("ConcurrentModification", FailureClass::Wait),
    ("DeleteConflict", FailureClass::Dependency),
    ("DependencyViolation", FailureClass::Dependency),
    ("EntityAlreadyExists", FailureClass::AlreadyExists),
    ("ExpiredToken", FailureClass::Expired),
    ("IncompleteSignature", FailureClass::Credentials),
    ("IncorrectState", FailureClass::Wait),
    ("InternalError", FailureClass::Network),
    ("InternalFailure", FailureClass::Network),
    ("InternalServer", FailureClass::Network),
    ("InvalidClientTokenId", FailureClass::Expired),
    ("InvalidIdentityToken", FailureClass::Credentials),
    ("InvalidSignature", FailureClass::Credentials),
    ("KMSThrottling", FailureClass::Throttle),
    ("MalformedPolicyDocument", FailureClass::UserFix),
    ("NoSuchEntity", FailureClass::Propagation),
    ("OperationAborted", FailureClass::Wait),
    ("OptInRequired", FailureClass::UserFix),
    ("PriorRequestNotComplete", FailureClass::Throttle),
    ("RequestExpired", FailureClass::Expired),
    ("RequestLimitExceeded", FailureClass::Throttle),
    ("RequestThrottled", FailureClass::Throttle),
    ("Server", FailureClass::Network),
    ("ServiceQuotaExceeded", FailureClass::Quota),
    ("ServiceUnavailable", FailureClass::Network),
    ("SignatureDoesNotMatch", FailureClass::Credentials),
    ("SlowDown", FailureClass::Throttle),
    ("Throttled", FailureClass::Throttle),
    ("Throttling", FailureClass::Throttle),
    ("IamThrottling", FailureClass::Throttle),
    ("TooManyRequests", FailureClass::Throttle),
    ("UnauthorizedOperation", FailureClass::UserFix),
    ("UnrecognizedClient", FailureClass::Expired),
    ("InsufficientInstanceCapacity", FailureClass::Quota),
];

/// Messages of terraform and the network.
const MESSAGE_PHRASES: &[(&str, FailureClass)] = &[
    // Before the network rules: an unreachable registry is a provider problem.
    ("Failed to query available provider packages", FailureClass::Provider),
    ("Failed to install provider", FailureClass::Provider),
    ("Inconsistent dependency lock file", FailureClass::Provider),
    ("Provider dependency changes detected", FailureClass::Provider),
    ("Required plugins are not installed", FailureClass::Provider),
    ("Failed to load plugin schemas", FailureClass::Provider),
    ("Failed to instantiate provider", FailureClass::Provider),
    ("Incompatible provider version", FailureClass::Provider),
    ("Could not load plugin", FailureClass::Provider),
    ("Plugin did not respond", FailureClass::Network),
    ("The plugin encountered an error", FailureClass::Network),
    ("no such host", FailureClass::Network),
    ("could not resolve host", FailureClass::Network),
    ("Could not resolve host", FailureClass::Network),
    ("connection refused", FailureClass::Network),
    ("connection reset", FailureClass::Network),
    ("i/o timeout", FailureClass::Network),
    ("TLS handshake timeout", FailureClass::Network),
    ("unexpected EOF", FailureClass::Network),
    ("request send failed", FailureClass::Network),
    ("exceeded maximum number of attempts", FailureClass::Network),
    ("context deadline exceeded", FailureClass::Network),
    ("StatusCode: 50", FailureClass::Network),
    ("timeout while waiting for", FailureClass::Wait),
    ("Unsupported Terraform Core version", FailureClass::Engine),
    ("state snapshot was created by Terraform", FailureClass::Engine),
    ("Backend initialization required", FailureClass::Engine),
    ("Backend configuration changed", FailureClass::Engine),
    ("Module not installed", FailureClass::Engine),
    ("Failed to save state", FailureClass::Engine),
    ("Failed to persist state", FailureClass::Engine),
    ("permission denied", FailureClass::Engine),
    ("cannot be assumed", FailureClass::Credentials),
    ("already exists", FailureClass::AlreadyExists),
    ("Unsupported argument", FailureClass::UserFix),
    ("Missing required argument", FailureClass::UserFix),
    ("Invalid value for variable", FailureClass::UserFix),
    ("Invalid value for input variable", FailureClass::UserFix),
    ("No value for required variable", FailureClass::UserFix),
    ("Value for undeclared variable", FailureClass::UserFix),
    ("Reference to undeclared", FailureClass::UserFix),
    ("Failed to download module", FailureClass::UserFix),
    ("Resource precondition failed", FailureClass::UserFix),
    ("Resource postcondition failed", FailureClass::UserFix),
    ("expected length of", FailureClass::UserFix),
    ("not a valid CIDR", FailureClass::UserFix),
];

pub(super) fn classify_message(text: &str, code: Option<&str>) -> Option<FailureClass> {
    match_phrase(DECISIVE_PHRASES, text)
        .or_else(|| code.and_then(|code| classify_code(code, text)))
        .or_else(|| match_phrase(MESSAGE_PHRASES, text))
}

fn match_phrase(rules: &[(&str, FailureClass)], text: &str) -> Option<FailureClass> {
    rules.iter().find(|(phrase, _)| text.contains(phrase)).map(|(_, class)| *class)
}

fn classify_code(code: &str, text: &str) -> Option<FailureClass> {
    let bare = code.strip_suffix("Exception").unwrap_or(code);
    let exact = AWS_CODES.iter().find(|(known, _)| *known == bare).map(|(_, class)| *class);
    exact.or_else(|| classify_code_family(bare, text))
}

/// Codes that are classified by their suffix, or by the message.
fn classify_code_family(bare: &str, text: &str) -> Option<FailureClass> {
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    match bare {
        "ResourceInUse" if says(&["already exists"]) => Some(FailureClass::AlreadyExists),
        "ResourceInUse" if says(&["Cluster has ", "has nodegroups", "attached"]) => {
            Some(FailureClass::Dependency)
        }
        "ResourceInUse" => Some(FailureClass::Wait),
        "InvalidRequest" if says(&["not in ACTIVE", "in progress", "currently"]) => Some(FailureClass::Wait),
        "InvalidParameter" if says(&["does not exist", "not found"]) && says(&["role", "Role"]) => {
            Some(FailureClass::Propagation)
        }
        _ if bare.ends_with("LimitExceeded") => Some(FailureClass::Quota),
        // EC2 returns this for resources it has just created; after the short retries it becomes a user error.
        _ if bare.ends_with(".NotFound") => Some(FailureClass::Propagation),
        _ if bare.ends_with(".InUse") => Some(FailureClass::Dependency),
        "InvalidSubnet.Conflict" | "InvalidPermission.Duplicate" | "Resource.AlreadyAssociated" => {
            Some(FailureClass::AlreadyExists)
        }
        _ if bare.ends_with("AlreadyExists") => Some(FailureClass::AlreadyExists),
        _ if bare.starts_with("Invalid")
            || bare.starts_with("Unsupported")
            || bare.starts_with("Validation")
            || bare.ends_with("NotFound")
            || bare.ends_with("AlreadyInUse")
            || bare == "Client" =>
        {
            Some(FailureClass::UserFix)
        }
        _ => None,
    }
}
