//! `maxSurge` and `maxUnavailable` of a rollout. No I/O.

use serde_json::Value;

use super::super::pod_state::int_at;
use crate::object::{get_path, str_at};

/// Limits of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutLimits {
    /// Desired replicas.
    pub replicas: i64,
    /// Maximum surge.
    pub surge: i64,
    /// Maximum number of unavailable pods.
    pub unavailable: i64,
    /// Whether the strategy is `RollingUpdate`.
    pub is_rolling: bool,
}

impl RolloutLimits {
    /// Reads the limits of a Deployment.
    pub fn from_deployment(deployment: &Value) -> Self {
        let replicas = int_at(deployment, &["spec", "replicas"]);
        let is_rolling = str_at(deployment, &["spec", "strategy", "type"]) != "Recreate";
        if !is_rolling {
            return Self { replicas, surge: 0, unavailable: 0, is_rolling };
        }
        let share = |key: &str, rounds_up: bool| {
            let value = get_path(deployment, &["spec", "strategy", "rollingUpdate", key]);
            value.map_or(0, |value| int_or_percent(value, replicas, rounds_up))
        };
        let (surge, mut unavailable) = (share("maxSurge", true), share("maxUnavailable", false));
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Self { replicas, surge, unavailable: unavailable.min(replicas), is_rolling }
    }

    /// Minimum number of available pods.
    pub fn min_available(self) -> i64 {
        self.replicas - self.unavailable
    }

    /// Maximum number of pods.
    pub fn max_total(self) -> i64 {
        self.replicas + self.surge
    }
}

/// An integer or a percentage such as `25%`.
fn int_or_percent(value: &Value, whole: i64, rounds_up: bool) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent =
        value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<i64>().ok());
    let product = percent.unwrap_or(0).saturating_mul(whole);
    if rounds_up { product.saturating_add(99).div_euclid(100) } else { product.div_euclid(100) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limits(replicas: i64, surge: &Value, unavailable: &Value) -> (i64, i64) {
        let deployment = json!({"spec": {"replicas": replicas, "strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
        }}});
        let limits = RolloutLimits::from_deployment(&deployment);
        (limits.surge, limits.unavailable)
    }

    #[test]
    fn shares_round_towards_more_pods_and_never_stop_a_rollout() {
        assert_eq!(limits(3, &json!("25%"), &json!("25%")), (1, 0));
        assert_eq!(limits(10, &json!("25%"), &json!("25%")), (3, 2));
        assert_eq!(limits(1, &json!(0), &json!("1%")), (0, 1));
        assert_eq!(limits(2, &json!(5), &json!(7)), (5, 2));
        assert_eq!(limits(0, &json!("25%"), &json!("25%")), (0, 0));
        let recreate = RolloutLimits::from_deployment(
            &json!({"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}}),
        );
        assert_eq!((recreate.surge, recreate.unavailable, recreate.is_rolling), (0, 0, false));
    }
}
