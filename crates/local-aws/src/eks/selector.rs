//! Selectors of Fargate profiles: validation and matching.

use super::{
    error::{ApiError, ApiResult},
    state::FargateSelector,
};
use crate::config::Limits;

/// Rejects selectors that EKS rejects.
pub(crate) fn validate_selectors(selectors: &[FargateSelector], limits: &Limits) -> ApiResult<()> {
    if selectors.is_empty() {
        return Err(ApiError::invalid_parameter("Fargate Profile requires at least one selector."));
    }
    if selectors.len() > limits.selectors {
        let message = format!("Request contains more than {} Selectors", limits.selectors);
        return Err(ApiError::invalid_parameter(message));
    }
    selectors.iter().try_for_each(|selector| validate_selector(selector, limits))
}

fn validate_selector(selector: &FargateSelector, limits: &Limits) -> ApiResult<()> {
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
        return Err(invalid_selector("namespace", namespace));
    }
    for (key, value) in &selector.labels {
        if key.is_empty() || key.len() > 127 || !plain(key, b"-_./*?") {
            return Err(invalid_selector("label key", key));
        }
        if value.is_empty() || value.len() > 255 || !plain(value, b"-_.*?") {
            return Err(invalid_selector("label value", value));
        }
    }
    Ok(())
}

fn invalid_selector(what: &str, value: &str) -> ApiError {
    ApiError::invalid_parameter(format!("Fargate Profile selector contains invalid {what}: {value}"))
}

/// Whether a pod with this namespace and these labels is scheduled by the selector's profile.
pub(crate) fn matches_pod(selector: &FargateSelector, namespace: &str, labels: &[(&str, &str)]) -> bool {
    let pattern = selector.namespace.as_deref().unwrap_or_default();
    wildcard_matches(pattern, namespace)
        && selector.labels.iter().all(|(key, value)| {
            labels.iter().any(|(k, v)| wildcard_matches(key, k) && wildcard_matches(value, v))
        })
}

/// Wildcard match: `*` matches any run of characters, `?` exactly one.
fn wildcard_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Backtracking position: where to resume when the last `*` must consume one more character.
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
        assert_eq!(wildcard_matches(pattern, text), expected);
    }
}
