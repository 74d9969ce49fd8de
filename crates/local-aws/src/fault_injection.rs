//! Fault injection through the admin API: which calls are affected, and how.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::protocol::AwsError;

/// A fault as it is posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// Operation name, or `*`.
    operation: String,
    /// Restricts the fault to one service.
    service: Option<String>,
    /// The first matching call that is affected, counted from 1.
    #[serde(default = "one")]
    nth: u32,
    /// Number of consecutive affected calls; 0 means all from the nth on.
    #[serde(default = "one")]
    times: u32,
    error: Option<ErrorSpec>,
    delay_ms: Option<u64>,
    #[serde(default)]
    throttle: bool,
    #[serde(default)]
    drop_after_work: bool,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorSpec {
    code: String,
    #[serde(default)]
    message: String,
    status: Option<u16>,
}

/// Combined effect of all active faults on one call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultEffect {
    pub(crate) delay: Duration,
    pub(crate) error: Option<AwsError>,
    pub(crate) throttle: bool,
    pub(crate) drop_after_work: bool,
}

/// Active faults, each with the number of matching calls so far.
#[derive(Debug, Default)]
pub(crate) struct FaultInjector(Mutex<Vec<(Fault, u32)>>);

impl FaultInjector {
    /// Validates and adds a fault.
    pub(crate) fn add(&self, fault: Fault) -> Result<(), &'static str> {
        if fault.operation.is_empty() || fault.nth == 0 {
            return Err("operation must not be empty and nth must be at least 1");
        }
        if fault.error.is_none() && fault.delay_ms.is_none() && !fault.throttle && !fault.drop_after_work {
            return Err("a fault needs one of error, delay_ms, throttle, drop_after_work");
        }
        if let Some(error) = &fault.error
            && !(error.status.is_none_or(|status| (400..600).contains(&status)) && is_error_code(&error.code))
        {
            return Err(
                "error.code must consist of letters, digits, '.', '_' or '-', and error.status must be between 400 and 599",
            );
        }
        self.lock().push((fault, 0));
        Ok(())
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    pub(crate) fn list(&self) -> Vec<Fault> {
        self.lock().iter().map(|(fault, _)| fault.clone()).collect()
    }

    /// Counts a call and returns its combined effect. Delays add up; the first error wins.
    pub(crate) fn evaluate(&self, service: &str, operation: &str) -> FaultEffect {
        let mut verdict = FaultEffect::default();
        for (fault, seen) in self.lock().iter_mut() {
            if !fault.matches_call(service, operation) {
                continue;
            }
            *seen = seen.saturating_add(1);
            if fault.applies_to_nth(*seen) {
                fault.apply_to(&mut verdict);
            }
        }
        verdict
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Fault, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// The code becomes a header value and an XML element.
fn is_error_code(code: &str) -> bool {
    !code.is_empty() && code.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

impl Fault {
    fn matches_call(&self, service: &str, operation: &str) -> bool {
        let service_fits = self.service.as_deref().is_none_or(|wanted| wanted == service);
        service_fits && (self.operation == "*" || self.operation == operation)
    }

    fn applies_to_nth(&self, seen: u32) -> bool {
        seen >= self.nth && (self.times == 0 || seen - self.nth < self.times)
    }

    fn apply_to(&self, verdict: &mut FaultEffect) {
        verdict.delay += Duration::from_millis(self.delay_ms.unwrap_or(0));
        verdict.throttle |= self.throttle;
        verdict.drop_after_work |= self.drop_after_work;
        if let (None, Some(order)) = (&verdict.error, &self.error) {
            verdict.error = Some(AwsError {
                code: order.code.clone(),
                message: order.message.clone(),
                status: order.status.unwrap_or(400),
                retry_after: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn with(order: Value) -> FaultInjector {
        let faults = FaultInjector::default();
        faults.add(serde_json::from_value(order).unwrap()).unwrap();
        faults
    }

    fn struck(faults: &FaultInjector, operation: &str, calls: usize) -> Vec<bool> {
        (0..calls).map(|_| faults.evaluate("eks", operation).error.is_some()).collect()
    }

    #[test]
    fn only_the_nth_call_of_the_named_operation_fails() {
        let faults = with(json!({"operation": "CreateAddon", "nth": 2, "error": {"code": "X"}}));
        assert!(faults.evaluate("eks", "DeleteAddon").error.is_none());
        assert_eq!(struck(&faults, "CreateAddon", 4), [false, true, false, false]);
    }

    #[test]
    fn times_widens_the_hit_and_zero_never_ends_it() {
        let three = with(json!({"operation": "*", "times": 3, "error": {"code": "X"}}));
        assert_eq!(struck(&three, "Any", 4), [true, true, true, false]);
        let all = with(json!({"operation": "*", "nth": 2, "times": 0, "error": {"code": "X"}}));
        assert_eq!(struck(&all, "Any", 4), [false, true, true, true]);
    }

    #[test]
    fn a_service_narrows_the_hit() {
        let faults = with(json!({"operation": "*", "service": "ec2", "throttle": true}));
        assert!(!faults.evaluate("eks", "CreateVpc").throttle);
        assert!(faults.evaluate("ec2", "CreateVpc").throttle);
    }

    #[test]
    fn an_order_that_does_nothing_or_cannot_be_written_is_refused() {
        for order in [
            json!({"operation": "X"}),
            json!({"operation": "", "throttle": true}),
            json!({"operation": "X", "nth": 0, "throttle": true}),
            json!({"operation": "X", "error": {"code": "X", "status": 200}}),
            json!({"operation": "X", "error": {"code": "a b\n"}}),
        ] {
            let faults = FaultInjector::default();
            assert!(faults.add(serde_json::from_value(order.clone()).unwrap()).is_err(), "{order}");
        }
    }
}
