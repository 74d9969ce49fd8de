//! How many pods more or fewer than wished a rollout may have. No I/O.

use serde_json::Value;

use super::super::pods::number;
use crate::object::{at, text};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wished.
    pub replicas: i64,
    /// Pods above it.
    pub surge: i64,
    /// Pods below it that do not serve.
    pub unavailable: i64,
    /// Old and new pods may run side by side.
    pub is_rolling: bool,
}

impl Limits {
    /// Of a deployment.
    pub fn of(deployment: &Value) -> Self {
        let replicas = number(deployment, &["spec", "replicas"]);
        let is_rolling = text(deployment, &["spec", "strategy", "type"]) != "Recreate";
        if !is_rolling {
            return Self { replicas, surge: 0, unavailable: 0, is_rolling };
        }
        let share = |key: &str, rounds_up: bool| {
            let value = at(deployment, &["spec", "strategy", "rollingUpdate", key]);
            value.map_or(0, |value| scaled(value, replicas, rounds_up))
        };
        let (surge, mut unavailable) = (share("maxSurge", true), share("maxUnavailable", false));
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Self { replicas, surge, unavailable: unavailable.min(replicas), is_rolling }
    }

    /// Pods that must serve.
    pub fn min_available(self) -> i64 {
        self.replicas - self.unavailable
    }

    /// Pods that may be there.
    pub fn max_total(self) -> i64 {
        self.replicas + self.surge
    }
}

/// A number, or a share of one such as `25%`.
fn scaled(value: &Value, whole: i64, rounds_up: bool) -> i64 {
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
        let limits = Limits::of(&deployment);
        (limits.surge, limits.unavailable)
    }

    #[test]
    fn shares_round_towards_more_pods_and_never_stop_a_rollout() {
        assert_eq!(limits(3, &json!("25%"), &json!("25%")), (1, 0));
        assert_eq!(limits(10, &json!("25%"), &json!("25%")), (3, 2));
        assert_eq!(limits(1, &json!(0), &json!("1%")), (0, 1));
        assert_eq!(limits(2, &json!(5), &json!(7)), (5, 2));
        assert_eq!(limits(0, &json!("25%"), &json!("25%")), (0, 0));
        let recreate = Limits::of(&json!({"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}}));
        assert_eq!((recreate.surge, recreate.unavailable, recreate.is_rolling), (0, 0, false));
    }
}
