//! Quantities (`500m`, `1.5Gi`, `1e3`): errors, canonical form and comparison, as in kube-apiserver.

use std::{cmp::Ordering, fmt};

use serde_json::Value;

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Quantities are exact to nano.
const NANO_SCALE: i32 = -9;

/// Notation of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Binary(u32),
    Decimal(i32),
    Exponent(i32),
}

/// A valid quantity. Two are equal if their amounts are, whatever their notation.
#[derive(Debug, Clone)]
pub struct Quantity {
    nanos: i128,
    canonical: String,
}

impl Quantity {
    /// From JSON; `None` if it is not a quantity.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (digits, format) = parse_quantity(text.trim()).ok()?;
        let (mantissa, scale) = decimal(&digits)?;
        let nanos = match format {
            Format::Binary(power) => mantissa
                .checked_mul(1024_i128.checked_pow(power)?)
                .and_then(|amount| at_scale(amount, scale, NANO_SCALE)),
            Format::Decimal(exponent) | Format::Exponent(exponent) => {
                at_scale(mantissa, scale.saturating_add(exponent), NANO_SCALE)
            }
        };
        let canonical = canonical_quantity(text).unwrap_or_else(|| text.trim().to_owned());
        // An amount beyond the range is compared as the largest one.
        Some(Self { nanos: nanos.unwrap_or_else(|| i128::MAX.saturating_mul(mantissa.signum())), canonical })
    }

    /// Below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Has no fraction.
    pub fn is_whole(&self) -> bool {
        self.nanos % 1_000_000_000 == 0
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.nanos.cmp(&other.nanos))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.canonical)
    }
}

/// The error of an invalid quantity, with kube-apiserver's text.
pub fn quantity_error(text: &str) -> Option<&'static str> {
    parse_quantity(text.trim()).err()
}

/// Canonical form of a quantity (`1000m` → `1`, `1024Mi` → `1Gi`); `None` if it is invalid.
///
/// Numbers of more than 38 digits keep their notation.
pub fn canonical_quantity(text: &str) -> Option<String> {
    let text = text.trim();
    let (digits, format) = parse_quantity(text).ok()?;
    if is_kept(&digits, format) {
        return Some(text.to_owned());
    }
    let (mantissa, scale) = decimal(&digits)?;
    match format {
        Format::Binary(power) => binary_text(mantissa, scale, power),
        Format::Decimal(exponent) => decimal_text(mantissa, scale.checked_add(exponent)?, false),
        Format::Exponent(exponent) => decimal_text(mantissa, scale.checked_add(exponent)?, true),
    }
}

/// Notations that kube-apiserver considers canonical and keeps (`1.125`, `100m`).
fn is_kept(digits: &str, format: Format) -> bool {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('-').trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let Ok(places) = i32::try_from(fraction.len()) else { return false };
    match format {
        Format::Binary(_) => {
            fraction.is_empty() && whole.len() <= 8 && whole.parse().is_ok_and(|value: u64| value & 7 != 0)
        }
        Format::Decimal(exponent) | Format::Exponent(exponent) => {
            let shifted = format!("{whole}{fraction}");
            let scale = exponent.saturating_sub(places);
            let fits = shifted.len() <= 18 && scale >= -9;
            fits && scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0')
        }
    }
}

fn parse_quantity(text: &str) -> Result<(String, Format), &'static str> {
    const FORM: &str =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    const SUFFIX: &str = "unable to parse quantity's suffix";
    let sign = text.len() - text.trim_start_matches(['+', '-']).len();
    let body = text.get(sign..).ok_or(FORM)?;
    let end = body.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(body.len());
    let (number, suffix) = (body.get(..end).unwrap_or_default(), body.get(end..).unwrap_or_default());
    if sign > 1 || text.is_empty() || number.is_empty() || !is_suffix(suffix) {
        return Err(FORM);
    }
    if number.matches('.').count() > 1 {
        return Err(FORM);
    }
    let format = suffix_format(suffix).ok_or(SUFFIX)?;
    Ok((format!("{}{number}", if text.starts_with('-') { "-" } else { "" }), format))
}

fn is_suffix(text: &str) -> bool {
    let letters = text.trim_start_matches(|one: char| "eEinumkKMGTP".contains(one));
    let unsigned = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    unsigned.bytes().all(|one| one.is_ascii_digit())
}

fn suffix_format(suffix: &str) -> Option<Format> {
    if let Some(power) = BINARY.iter().position(|one| *one == suffix).filter(|power| *power > 0) {
        return u32::try_from(power).ok().map(Format::Binary);
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(one, _)| *one == suffix) {
        return Some(Format::Decimal(*exponent));
    }
    let digits = suffix.strip_prefix(['e', 'E'])?;
    digits.parse().ok().map(Format::Exponent)
}

/// `-1.250` → (-125, -2).
fn decimal(text: &str) -> Option<(i128, i32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let mantissa: i128 = format!("{whole}{fraction}")
        .parse()
        .or_else(
            |error: std::num::ParseIntError| {
                if matches!(whole, "" | "-") && fraction.is_empty() { Ok(0) } else { Err(error) }
            },
        )
        .ok()?;
    Some((mantissa, -i32::try_from(fraction.len()).ok()?))
}

/// Precision is limited to nano; the rest is rounded away from zero.
fn at_scale(mantissa: i128, scale: i32, wanted: i32) -> Option<i128> {
    if mantissa == 0 {
        return Some(0);
    }
    if scale >= wanted {
        let shift = u32::try_from(scale.checked_sub(wanted)?).ok()?;
        return mantissa.checked_mul(10_i128.checked_pow(shift)?);
    }
    let shift = wanted.checked_sub(scale).and_then(|shift| u32::try_from(shift).ok());
    let Some(divisor) = shift.and_then(|shift| 10_i128.checked_pow(shift)) else {
        return Some(mantissa.signum());
    };
    let rounded = mantissa / divisor;
    Some(if mantissa % divisor == 0 { rounded } else { rounded + mantissa.signum() })
}

fn decimal_text(mantissa: i128, scale: i32, exponent: bool) -> Option<String> {
    let mut nano = at_scale(mantissa, scale, NANO_SCALE)?;
    if nano == 0 {
        return Some("0".to_owned());
    }
    let mut step = 0_usize;
    while nano % 1000 == 0 && (exponent || step + 1 < DECIMAL.len()) {
        nano /= 1000;
        step += 1;
    }
    let power = i32::try_from(step).ok()? * 3 - 9;
    if exponent {
        return Some(if power == 0 { nano.to_string() } else { format!("{nano}e{power}") });
    }
    DECIMAL.get(step).map(|(suffix, _)| format!("{nano}{suffix}"))
}

fn binary_text(mantissa: i128, scale: i32, power: u32) -> Option<String> {
    let factor = 1024_i128.checked_pow(power)?;
    let mut exact = mantissa.checked_mul(factor)?;
    let mut scale = scale;
    if at_scale(exact.abs(), scale, 0)? > i128::from(i64::MAX) {
        (exact, scale) = (i128::from(i64::MAX) * exact.signum(), 0);
    }
    // Below 1024 and with a fraction, decimal suffixes are used.
    let whole = at_scale(exact, scale, 0)?;
    let is_whole = scale >= 0 || exact % 10_i128.checked_pow(scale.unsigned_abs())? == 0;
    if !is_whole || whole.abs() < 1024 {
        return decimal_text(exact, scale, false);
    }
    let mut left = whole;
    let mut step = 0;
    while left % 1024 == 0 && step + 1 < BINARY.len() {
        left /= 1024;
        step += 1;
    }
    BINARY.get(step).map(|suffix| format!("{left}{suffix}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::from_value(&text.into()).unwrap()
    }

    #[rstest]
    #[case("0", "0")]
    #[case("0.5", "500m")]
    #[case("1.125", "1.125")]
    #[case("100m", "100m")]
    #[case("1000m", "1")]
    #[case("1000000", "1M")]
    #[case("1Gi", "1Gi")]
    #[case("1024Mi", "1Gi")]
    #[case("1.5Gi", "1536Mi")]
    #[case("0.1Ki", "102400m")]
    #[case("1e3", "1e3")]
    #[case("1000e3", "1e6")]
    #[case("-2000", "-2k")]
    #[case("0.0000000001", "1n")]
    #[case("16Ei", "9223372036854775807")]
    #[case("1E", "1E")]
    fn quantities_are_canonical(#[case] given: &str, #[case] written: &str) {
        assert_eq!(canonical_quantity(given).as_deref(), Some(written));
    }

    #[rstest]
    #[case("1", "1000m", Ordering::Equal)]
    #[case("1Gi", "1024Mi", Ordering::Equal)]
    #[case("1Gi", "1G", Ordering::Greater)]
    #[case("1e3", "1k", Ordering::Equal)]
    #[case("-1", "0", Ordering::Less)]
    #[case("0.1n", "1n", Ordering::Equal)]
    #[case("1e300", "1E", Ordering::Greater)]
    #[case("-1e2147483647", "0", Ordering::Less)]
    #[case("1e-2147483648", "1n", Ordering::Equal)]
    #[case("0e2147483647", "0", Ordering::Equal)]
    fn amounts_are_compared_whatever_their_notation(
        #[case] one: &str,
        #[case] other: &str,
        #[case] expected: Ordering,
    ) {
        assert_eq!(quantity(one).partial_cmp(&quantity(other)), Some(expected));
    }

    #[test]
    fn a_quantity_knows_its_sign_and_whether_it_has_a_fraction() {
        assert!(quantity("-1m").is_negative() && !quantity("-0").is_negative());
        assert!(quantity("0Ki").is_zero() && !quantity("1n").is_zero());
        assert!(quantity("1500m").to_string() == "1500m" && !quantity("1500m").is_whole());
        assert!(quantity("0.5Ki").is_whole());
        assert_eq!(Quantity::from_value(&Value::from(2)).unwrap().to_string(), "2");
    }

    #[rstest]
    #[case("", true)]
    #[case("1.2.3", true)]
    #[case("--1", true)]
    #[case("1 Gi", true)]
    #[case("1Gx", true)]
    #[case("1KiB", true)]
    #[case("1mm", false)]
    #[case("1e", false)]
    fn an_invalid_quantity_is_refused(#[case] text: &str, #[case] is_form: bool) {
        let error = quantity_error(text).unwrap();
        assert_eq!(error.contains("regular expression"), is_form, "{error}");
        assert!(Quantity::from_value(&text.into()).is_none());
    }
}
