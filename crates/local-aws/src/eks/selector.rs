//! Selectors of Fargate profiles: what is well-formed, and what they match.

use super::{
    error::{ApiError, ApiResult},
    state::Selector,
};
use crate::config::Limits;

/// Refuses what EKS refuses in a list of selectors.
pub(crate) fn check(selectors: &[Selector], limits: &Limits) -> ApiResult<()> {
    if selectors.is_empty() {
        return Err(ApiError::invalid_parameter("Fargate Profile requires at least one selector."));
    }
    if selectors.len() > limits.selectors {
        let message = format!("Request contains more than {} Selectors", limits.selectors);
        return Err(ApiError::invalid_parameter(message));
    }
    selectors.iter().try_for_each(|selector| check_one(selector, limits))
}

fn check_one(selector: &Selector, limits: &Limits) -> ApiResult<()> {
    let namespace = selector.namespace.as_deref().unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::invalid_parameter(
            "Fargate Profile must have at least one selector with at least one namespace value.",
        ));
    }
    if selector.labels.len() > limits.labels {
        let message = format!("Request contains Selector with more than {} Label pairs", limits.labels);
        return Err(ApiError::invalid_parameter(message));
    }
    let plain =
        |text: &str, extra: &[u8]| text.bytes().all(|b| b.is_ascii_alphanumeric() || extra.contains(&b));
    if namespace.len() > 63 || !plain(namespace, b"-*?") || namespace.bytes().any(|b| b.is_ascii_uppercase())
    {
        return Err(invalid("namespace", namespace));
    }
    for (key, value) in &selector.labels {
        if key.is_empty() || key.len() > 127 || !plain(key, b"-_./*?") {
            return Err(invalid("label key", key));
        }
        if value.is_empty() || value.len() > 255 || !plain(value, b"-_.*?") {
            return Err(invalid("label value", value));
        }
    }
    Ok(())
}

fn invalid(what: &str, value: &str) -> ApiError {
    ApiError::invalid_parameter(format!("Fargate Profile selector contains invalid {what}: {value}"))
}

/// Whether a pod of this namespace with these labels lands on the selector's profile.
pub(crate) fn takes(selector: &Selector, namespace: &str, labels: &[(&str, &str)]) -> bool {
    let pattern = selector.namespace.as_deref().unwrap_or_default();
    matches(pattern, namespace)
        && selector
            .labels
            .iter()
            .all(|(key, value)| labels.iter().any(|(k, v)| matches(key, k) && matches(value, v)))
}

/// `*` stands for any run of characters, `?` for exactly one.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to resume when the run of the last star has to grow by one.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(&b) if b == b'?' || b == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after, run)) = star else { return false };
                p = after;
                t = run + 1;
                star = Some((after, t));
            }
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("kube-system", "kube-system", true)]
    #[case("*", "", true)]
    #[case("kube-*", "kube-system", true)]
    #[case("*-system", "kube-system", true)]
    #[case("k*s*m", "kube-system", true)]
    #[case("kube-syste?", "kube-system", true)]
    #[case("kube-system?", "kube-system", false)]
    #[case("?", "", false)]
    #[case("kube", "kube-system", false)]
    #[case("*a*b", "xaxbx", false)]
    fn wildcards_match_like_eks(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(matches(pattern, text), expected);
    }
}
