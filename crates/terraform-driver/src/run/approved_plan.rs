//! The type that makes the guard unavoidable: only an approved plan can be applied, and only once.

use std::ops::Deref;

use super::driver::SavedPlan;
use crate::plan::{GuardPolicy, GuardReason, GuardVerdict, PlanIntent, check_plan};

/// A saved plan that passed the guard. [`SavedPlan::approve`] is its only source, and [`super::Driver::apply`] consumes it.
#[derive(Debug)]
pub struct ApprovedPlan(SavedPlan);

/// A saved plan that the guard refused.
#[derive(Debug)]
pub struct RefusedPlan {
    /// The plan; it can be shown or discarded.
    pub plan: SavedPlan,
    /// Why it was refused.
    pub reasons: Vec<GuardReason>,
}

impl SavedPlan {
    /// Passes the plan through the guard. `approval` is the approved plan hash in its short or full form.
    pub fn approve(
        self,
        policy: &GuardPolicy,
        intent: PlanIntent,
        approval: Option<&str>,
    ) -> Result<ApprovedPlan, Box<RefusedPlan>> {
        match check_plan(&self.summary, policy, intent, approval) {
            GuardVerdict::Pass | GuardVerdict::Approved { .. } => Ok(ApprovedPlan(self)),
            GuardVerdict::Refused { reasons } => Err(Box::new(RefusedPlan { plan: self, reasons })),
        }
    }
}

impl Deref for ApprovedPlan {
    type Target = SavedPlan;

    fn deref(&self) -> &SavedPlan {
        &self.0
    }
}
