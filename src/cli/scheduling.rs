//! Flags for the run slots: how namespaces share them, and how long a run may keep one.

use std::time::Duration;

use terraform_driver::run::PhaseDeadlines;

use super::time;
use crate::operator::SchedulingSettings;

/// Scheduling flags of `capt run`.
#[derive(Debug, clap::Args)]
pub(super) struct SchedulingArgs {
    /// Maximum concurrent terraform processes of one namespace; all of `--parallel` if unset.
    #[arg(long, value_name = "N", env = "CAPT_PARALLEL_PER_NAMESPACE")]
    parallel_per_namespace: Option<usize>,
    /// Share of a namespace in the run slots while others wait, such as `team-a=3`; 1 for all others. Repeatable.
    #[arg(long, value_name = "NAMESPACE=WEIGHT", value_parser = parse_weight, env = "CAPT_NAMESPACE_WEIGHT", value_delimiter = ',')]
    namespace_weight: Vec<(String, u32)>,
    /// Maximum duration of `terraform init`.
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = time::parse_duration, env = "CAPT_INIT_TIMEOUT")]
    init_timeout: Duration,
    /// Maximum duration of `terraform plan`, and of other commands that change no resources.
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = time::parse_duration, env = "CAPT_PLAN_TIMEOUT")]
    plan_timeout: Duration,
    /// Maximum duration of `terraform apply`. It is interrupted once, and killed ten minutes later.
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = time::parse_duration, env = "CAPT_APPLY_TIMEOUT")]
    apply_timeout: Duration,
}

impl SchedulingArgs {
    pub(super) fn settings(&self) -> SchedulingSettings {
        SchedulingSettings {
            max_per_namespace: self.parallel_per_namespace,
            weights: self.namespace_weight.iter().cloned().collect(),
            deadlines: PhaseDeadlines {
                init: self.init_timeout,
                plan: self.plan_timeout,
                apply: Some(self.apply_timeout),
            },
        }
    }
}

fn parse_weight(text: &str) -> Result<(String, u32), String> {
    let weight = text.split_once('=').and_then(|(namespace, weight)| {
        let weight: u32 = weight.parse().ok().filter(|it| *it > 0)?;
        (!namespace.is_empty()).then(|| (namespace.to_owned(), weight))
    });
    weight.ok_or_else(|| "use a namespace and a positive number such as team-a=3".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_a_namespace_and_a_positive_number() {
        assert_eq!(parse_weight("team-a=3"), Ok(("team-a".to_owned(), 3)));
        for text in ["team-a", "team-a=0", "=3", "team-a=-1", "team-a=x"] {
            assert!(parse_weight(text).is_err(), "{text}");
        }
    }
}
