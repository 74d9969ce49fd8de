//! The rules, in the order in which they are asked.
//!
//! Texts that mean something whatever the code says come first, then AWS codes, then what terraform and the network
//! say in plain words.

use super::Class;

/// Phrases that decide by themselves.
const TELLING: &[(&str, Class)] = &[
    ("Error acquiring the state lock", Class::Lock),
    ("Error locking state", Class::Lock),
    ("Saved plan is stale", Class::StalePlan),
    ("Saved plan does not match the given state", Class::StalePlan),
    ("lifecycle.prevent_destroy", Class::Protected),
    ("deletion protection", Class::Protected),
    ("deletionProtection", Class::Protected),
    ("execution halted", Class::Interrupted),
    ("operation canceled", Class::Interrupted),
    ("context canceled", Class::Interrupted),
    ("interrupt received", Class::Interrupted),
    ("Misconfigured PodExecutionRole Trust Policy", Class::Propagation),
    ("Role could not be assumed", Class::Propagation),
    ("role could not be assumed", Class::Propagation),
    ("Invalid principal in policy", Class::Propagation),
    ("SSO session has expired", Class::Expired),
    ("refresh cached SSO token failed", Class::Expired),
    ("token has expired", Class::Expired),
    ("No valid credential sources found", Class::Credentials),
    ("NoCredentialProviders", Class::Credentials),
    ("no EC2 IMDS role found", Class::Credentials),
    ("Cannot assume IAM Role", Class::Credentials),
    ("failed to get shared config profile", Class::Credentials),
    ("retry quota exceeded", Class::Throttle),
    ("Rate exceeded", Class::Throttle),
    ("no space left on device", Class::Engine),
    ("read-only file system", Class::Engine),
];

/// Codes with one meaning. Families of codes are in [`family`].
const CODES: &[(&str, Class)] = &[
    ("AccessDenied", Class::UserFix),
    ("AuthFailure", Class::Credentials),
    ("ConcurrentModification", Class::Wait),
    ("DeleteConflict", Class::Dependency),
    ("DependencyViolation", Class::Dependency),
    ("EntityAlreadyExists", Class::UserFix),
    ("ExpiredToken", Class::Expired),
    ("IncompleteSignature", Class::Credentials),
    ("IncorrectState", Class::Wait),
    ("InternalError", Class::Network),
    ("InternalFailure", Class::Network),
    ("InternalServer", Class::Network),
    ("InvalidClientTokenId", Class::Expired),
    ("InvalidIdentityToken", Class::Credentials),
    ("InvalidSignature", Class::Credentials),
    ("KMSThrottling", Class::Throttle),
    ("MalformedPolicyDocument", Class::UserFix),
    ("NoSuchEntity", Class::Propagation),
    ("OperationAborted", Class::Wait),
    ("OptInRequired", Class::UserFix),
    ("PriorRequestNotComplete", Class::Throttle),
    ("RequestExpired", Class::Expired),
    ("RequestLimitExceeded", Class::Throttle),
    ("RequestThrottled", Class::Throttle),
    ("Server", Class::Network),
    ("ServiceQuotaExceeded", Class::Quota),
    ("ServiceUnavailable", Class::Network),
    ("SignatureDoesNotMatch", Class::Credentials),
    ("SlowDown", Class::Throttle),
    ("Throttled", Class::Throttle),
    ("Throttling", Class::Throttle),
    ("IamThrottling", Class::Throttle),
    ("TooManyRequests", Class::Throttle),
    ("UnauthorizedOperation", Class::UserFix),
    ("UnrecognizedClient", Class::Expired),
    ("InsufficientInstanceCapacity", Class::Quota),
];

/// What terraform and the network say in plain words.
const WORDS: &[(&str, Class)] = &[
    // Before the network: that the registry does not answer is a matter of providers.
    ("Failed to query available provider packages", Class::Provider),
    ("Failed to install provider", Class::Provider),
    ("Inconsistent dependency lock file", Class::Provider),
    ("Provider dependency changes detected", Class::Provider),
    ("Required plugins are not installed", Class::Provider),
    ("Failed to load plugin schemas", Class::Provider),
    ("Failed to instantiate provider", Class::Provider),
    ("Incompatible provider version", Class::Provider),
    ("Could not load plugin", Class::Provider),
    ("Plugin did not respond", Class::Network),
    ("The plugin encountered an error", Class::Network),
    ("no such host", Class::Network),
    ("could not resolve host", Class::Network),
    ("Could not resolve host", Class::Network),
    ("connection refused", Class::Network),
    ("connection reset", Class::Network),
    ("i/o timeout", Class::Network),
    ("TLS handshake timeout", Class::Network),
    ("unexpected EOF", Class::Network),
    ("request send failed", Class::Network),
    ("exceeded maximum number of attempts", Class::Network),
    ("context deadline exceeded", Class::Network),
    ("StatusCode: 50", Class::Network),
    ("timeout while waiting for", Class::Wait),
    ("Unsupported Terraform Core version", Class::Engine),
    ("state snapshot was created by Terraform", Class::Engine),
    ("Backend initialization required", Class::Engine),
    ("Backend configuration changed", Class::Engine),
    ("Module not installed", Class::Engine),
    ("Failed to save state", Class::Engine),
    ("Failed to persist state", Class::Engine),
    ("permission denied", Class::Engine),
    ("cannot be assumed", Class::Credentials),
    ("already exists", Class::UserFix),
    ("Unsupported argument", Class::UserFix),
    ("Missing required argument", Class::UserFix),
    ("Invalid value for variable", Class::UserFix),
    ("Invalid value for input variable", Class::UserFix),
    ("No value for required variable", Class::UserFix),
    ("Value for undeclared variable", Class::UserFix),
    ("Reference to undeclared", Class::UserFix),
    ("Failed to download module", Class::UserFix),
    ("Resource precondition failed", Class::UserFix),
    ("Resource postcondition failed", Class::UserFix),
    ("expected length of", Class::UserFix),
    ("not a valid CIDR", Class::UserFix),
];

pub(super) fn class_of(text: &str, code: Option<&str>) -> Option<Class> {
    first(TELLING, text).or_else(|| code.and_then(|code| by_code(code, text))).or_else(|| first(WORDS, text))
}

fn first(rules: &[(&str, Class)], text: &str) -> Option<Class> {
    rules.iter().find(|(phrase, _)| text.contains(phrase)).map(|(_, class)| *class)
}

fn by_code(code: &str, text: &str) -> Option<Class> {
    let bare = code.strip_suffix("Exception").unwrap_or(code);
    let exact = CODES.iter().find(|(known, _)| *known == bare).map(|(_, class)| *class);
    exact.or_else(|| family(bare, text))
}

/// Codes whose meaning is in their ending, or in the text beside them.
fn family(bare: &str, text: &str) -> Option<Class> {
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    match bare {
        "ResourceInUse" if says(&["already exists"]) => Some(Class::UserFix),
        "ResourceInUse" if says(&["Cluster has ", "has nodegroups", "attached"]) => Some(Class::Dependency),
        "ResourceInUse" => Some(Class::Wait),
        "InvalidRequest" if says(&["not in ACTIVE", "in progress", "currently"]) => Some(Class::Wait),
        "InvalidParameter" if says(&["does not exist", "not found"]) && says(&["role", "Role"]) => {
            Some(Class::Propagation)
        }
        _ if bare.ends_with("LimitExceeded") => Some(Class::Quota),
        // EC2 answers so for what it made a second ago; the short retries end in a user error.
        _ if bare.ends_with(".NotFound") => Some(Class::Propagation),
        _ if bare.ends_with(".InUse") => Some(Class::Dependency),
        _ if bare.starts_with("Invalid")
            || bare.starts_with("Unsupported")
            || bare.starts_with("Validation")
            || bare.ends_with("AlreadyExists")
            || bare.ends_with("NotFound")
            || bare.ends_with("AlreadyInUse")
            || bare == "Client" =>
        {
            Some(Class::UserFix)
        }
        _ => None,
    }
}
