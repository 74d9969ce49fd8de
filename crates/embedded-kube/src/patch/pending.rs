//! Stands in until apply and tracking land; then this file goes.

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    failure::{Answer, Failure},
    shape::Shape,
};

/// Who writes.
pub struct Writer<'a> {
    pub manager: &'a str,
    pub api_version: &'a str,
    pub subresource: &'a str,
    pub now: Timestamp,
}

pub fn apply(_: Option<&Value>, _: &Value, _: &Shape, _: &Writer<'_>, _: bool) -> Answer<Value> {
    Err(Failure::internal("apply is not there yet"))
}

pub fn track(_: Option<&Value>, _: &mut Value, _: &Shape, _: &Writer<'_>) -> Answer<()> {
    Ok(())
}
