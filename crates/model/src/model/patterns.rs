//! Syntax predicates of AWS and Kubernetes identifiers.

fn has_length(text: &str, least: usize, most: usize) -> bool {
    (least..=most).contains(&text.len())
}

fn all_bytes(text: &str, accepts: impl Fn(u8) -> bool) -> bool {
    text.bytes().all(accepts)
}

/// Whether the first and last byte satisfy `edge`, and all others `edge` or `inner`.
fn has_edges(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|it| edge(*it))
        && bytes.last().is_some_and(|it| edge(*it))
        && all_bytes(text, |it| edge(it) || inner(it))
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase()
}

fn is_lower_or_digit(byte: u8) -> bool {
    is_lower(byte) || byte.is_ascii_digit()
}

fn is_wildcard(byte: u8) -> bool {
    matches!(byte, b'*' | b'?')
}

pub(super) fn is_region(text: &str) -> bool {
    let mut words: Vec<&str> = text.split('-').collect();
    let Some(number) = words.pop() else { return false };
    let Some((area, places)) = words.split_first() else { return false };
    has_length(number, 1, 2)
        && all_bytes(number, |it| it.is_ascii_digit())
        && has_length(area, 2, 4)
        && all_bytes(area, is_lower)
        && (1..=3).contains(&places.len())
        && places.iter().all(|place| has_length(place, 2, 12) && all_bytes(place, is_lower))
}

pub(super) fn is_zone(text: &str) -> bool {
    text.strip_suffix(|last: char| last.is_ascii_lowercase()).is_some_and(is_region)
}

pub(super) fn is_vpc_id(text: &str) -> bool {
    text.strip_prefix("vpc-").is_some_and(|id| has_length(id, 8, 17) && all_bytes(id, is_hex))
}

pub(super) fn is_vpc_name(text: &str) -> bool {
    has_length(text, 1, 100)
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && all_bytes(text, |it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'))
}

pub(super) fn is_subnet_id(text: &str) -> bool {
    text.strip_prefix("subnet-").is_some_and(|id| has_length(id, 8, 17) && all_bytes(id, is_hex))
}

pub(super) fn is_eks_name(text: &str) -> bool {
    has_length(text, 1, 100)
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && all_bytes(text, |it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_'))
}

pub(super) fn is_profile_name(text: &str) -> bool {
    is_eks_name(text) && !text.starts_with("eks-")
}

pub(super) fn is_selector_namespace(text: &str) -> bool {
    has_length(text, 1, 63) && has_edges(text, |it| is_lower_or_digit(it) || is_wildcard(it), |it| it == b'-')
}

pub(super) fn is_selector_label_key(text: &str) -> bool {
    has_length(text, 1, 127)
        && has_edges(
            text,
            |it| it.is_ascii_alphanumeric() || is_wildcard(it),
            |it| matches!(it, b'-' | b'_' | b'.' | b'/'),
        )
        && text.matches('/').count() <= 1
}

pub(super) fn is_selector_label_value(text: &str) -> bool {
    has_length(text, 1, 255)
        && has_edges(
            text,
            |it| it.is_ascii_alphanumeric() || is_wildcard(it),
            |it| matches!(it, b'-' | b'_' | b'.'),
        )
}

/// Region, account and resource of an ARN of this service.
fn split_arn<'a>(text: &'a str, service: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let mut parts = text.splitn(6, ':');
    let (prefix, partition) = (parts.next()?, parts.next()?);
    let partition = partition.strip_prefix("aws")?;
    let known =
        prefix == "arn" && partition.len() <= 16 && all_bytes(partition, |it| is_lower(it) || it == b'-');
    let right_service = parts.next()? == service;
    let (region, account, resource) = (parts.next()?, parts.next()?, parts.next()?);
    (known && right_service && text.len() <= 2048).then_some((region, account, resource))
}

fn is_account_id(text: &str) -> bool {
    text.len() == 12 && all_bytes(text, |it| it.is_ascii_digit())
}

fn is_iam_name(text: &str) -> bool {
    has_length(text, 1, 512) && all_bytes(text, |it| it.is_ascii_graphic())
}

fn is_iam_arn(text: &str, kinds: &[&str], name: impl Fn(&str) -> bool) -> bool {
    let Some(("", owner, resource)) = split_arn(text, "iam") else { return false };
    is_account_id(owner)
        && resource.split_once('/').is_some_and(|(kind, rest)| kinds.contains(&kind) && name(rest))
}

pub(super) fn is_role_arn(text: &str) -> bool {
    is_iam_arn(text, &["role"], is_iam_name)
}

pub(super) fn is_principal_arn(text: &str) -> bool {
    is_iam_arn(text, &["role", "user"], is_iam_name)
}

pub(super) fn is_pod_role_arn(text: &str) -> bool {
    is_iam_arn(text, &["role"], |name| {
        has_length(name, 1, 64)
            && all_bytes(name, |it| {
                it.is_ascii_alphanumeric() || matches!(it, b'+' | b'=' | b',' | b'.' | b'@' | b'_' | b'-')
            })
    })
}

pub(super) fn is_access_policy_arn(text: &str) -> bool {
    let Some(("", "aws", resource)) = split_arn(text, "eks") else { return false };
    resource
        .strip_prefix("cluster-access-policy/")
        .is_some_and(|name| has_length(name, 1, 128) && all_bytes(name, |it| it.is_ascii_alphanumeric()))
}

pub(super) fn is_key_arn(text: &str) -> bool {
    let Some((region, owner, resource)) = split_arn(text, "kms") else { return false };
    has_length(region, 1, 32)
        && all_bytes(region, |it| is_lower_or_digit(it) || it == b'-')
        && is_account_id(owner)
        && resource.strip_prefix("key/").is_some_and(|id| {
            has_length(id, 1, 128) && all_bytes(id, |it| it.is_ascii_alphanumeric() || it == b'-')
        })
}

pub(super) fn is_object_name(text: &str) -> bool {
    has_length(text, 1, 253) && has_edges(text, is_lower_or_digit, |it| matches!(it, b'-' | b'.'))
}

pub(super) fn is_namespace(text: &str) -> bool {
    has_length(text, 1, 63) && has_edges(text, is_lower_or_digit, |it| it == b'-')
}

pub(super) fn is_file_name(text: &str) -> bool {
    has_length(text, 1, 128)
        && !text.starts_with('.')
        && all_bytes(text, |it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'))
}
