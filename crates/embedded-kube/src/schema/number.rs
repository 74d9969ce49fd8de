//! Validates numbers: format ranges, bounds, `multipleOf`.

use serde_json::{Number, Value};

use super::{
    format,
    parse::Schema,
    validation_result::{ValidationError, ValidationResult, display_value},
};

const EPSILON: f64 = 1e-9;
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Whether a float is an integer that JSON can represent, within rounding error.
#[expect(
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "kube-apiserver compares the same way"
)]
pub fn is_whole(number: f64) -> bool {
    if !number.is_finite() || number.abs() > MAX_SAFE_INTEGER {
        return false;
    }
    let rounded = number as i64 as f64;
    if number == rounded {
        return true;
    }
    rounded != 0.0 && (number - rounded).abs() / (number.abs() + rounded.abs()) < EPSILON
}

/// Validates a number.
pub fn validate_number(schema: &Schema, given: &Number, path: &str) -> ValidationResult {
    let mut verdict = ValidationResult { matches: 1, ..ValidationResult::default() };
    let range = NumberRange::from_schema(schema);
    if !range.holds(given) {
        verdict.add(ValidationError::without_path(range.complaint("Checked", path)));
    }
    let bounds = &schema.bounds;
    if let Some(factor) = bounds.multiple_of {
        range.constraint(factor, "MultipleOf", path, &mut verdict);
        validate_multiple_of(given, factor, path, &mut verdict);
    }
    if let Some(least) = bounds.minimum {
        range.constraint(least, "Minimum boundary", path, &mut verdict);
        let limit = Limit { at: least, exclusive: bounds.exclusive_minimum, upper: false };
        limit.check(given, path, &mut verdict);
    }
    if let Some(most) = bounds.maximum {
        range.constraint(most, "Maximum boundary", path, &mut verdict);
        let limit = Limit { at: most, exclusive: bounds.exclusive_maximum, upper: true };
        limit.check(given, path, &mut verdict);
    }
    verdict
}

/// Type and format, as far as they restrict numbers.
struct NumberRange<'a> {
    kind: &'static str,
    format: &'a str,
}

impl<'a> NumberRange<'a> {
    fn from_schema(schema: &'a Schema) -> Self {
        let kind = match schema.types() {
            ["integer"] => "integer",
            ["number"] => "number",
            _ => "",
        };
        let format = format::supported_format(schema).filter(|_| !kind.is_empty()).unwrap_or_default();
        Self { kind, format }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the cast decides whether the value fits")]
    fn holds(&self, given: &Number) -> bool {
        let float = given.as_f64().unwrap_or_default();
        match (self.kind, self.format) {
            ("integer", "int32") => match given.as_i64() {
                Some(whole) => i32::try_from(whole).is_ok(),
                None => given.is_f64() && float.fract() == 0.0 && float.abs() < 2_147_483_648.0,
            },
            ("integer", _) => given.as_i64().is_some() || (given.is_f64() && is_whole(float)),
            ("number", "float") => (float as f32).is_finite(),
            _ => true,
        }
    }

    fn complaint(&self, what: &str, path: &str) -> String {
        let Self { kind, format } = self;
        if format.is_empty() {
            format!("{what} value must be of type {kind} (default format) in {path}")
        } else {
            format!("{what} value must be of type {kind} with format {format} in {path}")
        }
    }

    /// A bound that the type cannot represent is an error of its own.
    fn constraint(&self, bound: f64, what: &str, path: &str, verdict: &mut ValidationResult) {
        if Number::from_f64(bound).is_some_and(|number| !self.holds(&number)) {
            verdict.add(ValidationError::without_path(self.complaint(what, path)));
        }
    }
}

/// A lower or upper bound.
struct Limit {
    at: f64,
    exclusive: bool,
    upper: bool,
}

impl Limit {
    #[expect(clippy::cast_possible_truncation, reason = "integer bounds are truncated as in kube-apiserver")]
    fn check(&self, given: &Number, path: &str, verdict: &mut ValidationResult) {
        let order = match given.as_i64() {
            Some(whole) => whole.partial_cmp(&(self.at as i64)),
            None => given.as_f64().unwrap_or_default().partial_cmp(&self.at),
        };
        let Some(order) = order else { return };
        let order = if self.upper { order } else { order.reverse() };
        if order.is_lt() || (order.is_eq() && !self.exclusive) {
            return;
        }
        let words = match (self.upper, self.exclusive) {
            (true, false) => "less than or equal to",
            (true, true) => "less than",
            (false, false) => "greater than or equal to",
            (false, true) => "greater than",
        };
        let at = if given.is_i64() || given.is_u64() {
            (self.at as i64).to_string()
        } else {
            format_float(self.at)
        };
        let text = format!("{path} in body should be {words} {at}");
        verdict.add(ValidationError::invalid(path, display_value(&Value::Number(given.clone())), text));
    }
}

#[expect(clippy::cast_possible_truncation, reason = "integer factors are truncated as in kube-apiserver")]
fn validate_multiple_of(given: &Number, factor: f64, path: &str, verdict: &mut ValidationResult) {
    let (fits, shown_factor) = match given.as_i64() {
        Some(whole) => {
            let factor = factor as i64;
            if factor <= 0 {
                return verdict.add(not_positive_error(path, &factor.to_string(), &factor.into()));
            }
            (whole % factor == 0, factor.to_string())
        }
        None => {
            if factor <= 0.0 {
                return verdict.add(not_positive_error(path, &format_float(factor), &factor.into()));
            }
            let given = given.as_f64().unwrap_or_default();
            let times = if factor < 1.0 { 1.0 / factor * given } else { given / factor };
            (is_whole(times), format_float(factor))
        }
    };
    if !fits {
        let text = format!("{path} in body should be a multiple of {shown_factor}");
        verdict.add(ValidationError::invalid(path, display_value(&Value::Number(given.clone())), text));
    }
}

fn not_positive_error(path: &str, factor: &str, value: &Value) -> ValidationError {
    ValidationError::invalid(
        path,
        display_value(value),
        format!("factor MultipleOf declared for {path} must be positive: {factor}"),
    )
}

/// Formats a float like Go's `%v`.
pub fn format_float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{number:e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, power) = power.strip_prefix('-').map_or(("+", power), |power| ("-", power));
        return format!("{digits}e{sign}{power:0>2}");
    }
    format!("{number}")
}
