//! What the texts of AWS and Kubernetes look like, one question per function.

fn between(text: &str, least: usize, most: usize) -> bool {
    (least..=most).contains(&text.len())
}

fn all(text: &str, accepts: impl Fn(u8) -> bool) -> bool {
    text.bytes().all(accepts)
}

/// The first and last byte are of one kind, all others of another.
fn framed(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|it| edge(*it))
        && bytes.last().is_some_and(|it| edge(*it))
        && all(text, |it| edge(it) || inner(it))
}

fn hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase()
}

fn lower_or_digit(byte: u8) -> bool {
    lower(byte) || byte.is_ascii_digit()
}

fn wildcard(byte: u8) -> bool {
    matches!(byte, b'*' | b'?')
}

pub(super) fn region(text: &str) -> bool {
    let mut words: Vec<&str> = text.split('-').collect();
    let Some(number) = words.pop() else { return false };
    let Some((area, places)) = words.split_first() else { return false };
    between(number, 1, 2)
        && all(number, |it| it.is_ascii_digit())
        && between(area, 2, 4)
        && all(area, lower)
        && (1..=3).contains(&places.len())
        && places.iter().all(|place| between(place, 2, 12) && all(place, lower))
}

pub(super) fn zone(text: &str) -> bool {
    text.strip_suffix(|last: char| last.is_ascii_lowercase()).is_some_and(region)
}

pub(super) fn vpc_id(text: &str) -> bool {
    text.strip_prefix("vpc-").is_some_and(|id| between(id, 8, 17) && all(id, hex))
}

pub(super) fn vpc_name(text: &str) -> bool {
    between(text, 1, 100)
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && all(text, |it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'))
}

pub(super) fn subnet_id(text: &str) -> bool {
    text.strip_prefix("subnet-").is_some_and(|id| between(id, 8, 17) && all(id, hex))
}

pub(super) fn eks_name(text: &str) -> bool {
    between(text, 1, 100)
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && all(text, |it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_'))
}

pub(super) fn profile_name(text: &str) -> bool {
    eks_name(text) && !text.starts_with("eks-")
}

pub(super) fn selector_namespace(text: &str) -> bool {
    between(text, 1, 63) && framed(text, |it| lower_or_digit(it) || wildcard(it), |it| it == b'-')
}

pub(super) fn selector_label_key(text: &str) -> bool {
    between(text, 1, 127)
        && framed(
            text,
            |it| it.is_ascii_alphanumeric() || wildcard(it),
            |it| matches!(it, b'-' | b'_' | b'.' | b'/'),
        )
        && text.matches('/').count() <= 1
}

pub(super) fn selector_label_value(text: &str) -> bool {
    between(text, 1, 255)
        && framed(
            text,
            |it| it.is_ascii_alphanumeric() || wildcard(it),
            |it| matches!(it, b'-' | b'_' | b'.'),
        )
}

/// Partition, service, region, account and resource of an ARN.
fn arn<'a>(text: &'a str, service: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let mut parts = text.splitn(6, ':');
    let (prefix, partition) = (parts.next()?, parts.next()?);
    let partition = partition.strip_prefix("aws")?;
    let known = prefix == "arn" && partition.len() <= 16 && all(partition, |it| lower(it) || it == b'-');
    let right_service = parts.next()? == service;
    let (region, account, resource) = (parts.next()?, parts.next()?, parts.next()?);
    (known && right_service && text.len() <= 2048).then_some((region, account, resource))
}

fn account(text: &str) -> bool {
    text.len() == 12 && all(text, |it| it.is_ascii_digit())
}

fn iam_name(text: &str) -> bool {
    between(text, 1, 512) && all(text, |it| it.is_ascii_graphic())
}

fn iam(text: &str, kinds: &[&str], name: impl Fn(&str) -> bool) -> bool {
    let Some(("", owner, resource)) = arn(text, "iam") else { return false };
    account(owner) && resource.split_once('/').is_some_and(|(kind, rest)| kinds.contains(&kind) && name(rest))
}

pub(super) fn role_arn(text: &str) -> bool {
    iam(text, &["role"], iam_name)
}

pub(super) fn principal_arn(text: &str) -> bool {
    iam(text, &["role", "user"], iam_name)
}

pub(super) fn pod_role_arn(text: &str) -> bool {
    iam(text, &["role"], |name| {
        between(name, 1, 64)
            && all(name, |it| {
                it.is_ascii_alphanumeric() || matches!(it, b'+' | b'=' | b',' | b'.' | b'@' | b'_' | b'-')
            })
    })
}

pub(super) fn access_policy_arn(text: &str) -> bool {
    let Some(("", "aws", resource)) = arn(text, "eks") else { return false };
    resource
        .strip_prefix("cluster-access-policy/")
        .is_some_and(|name| between(name, 1, 128) && all(name, |it| it.is_ascii_alphanumeric()))
}

pub(super) fn key_arn(text: &str) -> bool {
    let Some((region, owner, resource)) = arn(text, "kms") else { return false };
    between(region, 1, 32)
        && all(region, |it| lower_or_digit(it) || it == b'-')
        && account(owner)
        && resource
            .strip_prefix("key/")
            .is_some_and(|id| between(id, 1, 128) && all(id, |it| it.is_ascii_alphanumeric() || it == b'-'))
}

pub(super) fn object_name(text: &str) -> bool {
    between(text, 1, 253) && framed(text, lower_or_digit, |it| matches!(it, b'-' | b'.'))
}

pub(super) fn namespace(text: &str) -> bool {
    between(text, 1, 63) && framed(text, lower_or_digit, |it| it == b'-')
}

pub(super) fn file_name(text: &str) -> bool {
    between(text, 1, 128)
        && !text.starts_with('.')
        && all(text, |it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'))
}
