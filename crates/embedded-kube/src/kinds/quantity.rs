//! Quantities: `500m`, `1.5Gi`, `1e3`, and their one canonical form.

use std::{cmp::Ordering, fmt};

use serde_json::Value;

/// Error text of an invalid quantity.
pub const FORMAT_ERROR: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX_ERROR: &str = "unable to parse quantity's suffix";
const NUMBER_ERROR: &str = "unable to parse numeric part of quantity";

const NANO: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// An exact number with nano precision.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// From JSON; `None` if it is not a quantity.
    pub fn from_value(value: &Value) -> Option<Self> {
        Self::parse_json(value).ok()
    }

    /// From JSON, with kube-apiserver's error text.
    pub fn parse_json(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Self::parse(text).map_err(str::to_owned),
            Value::Number(number) => Self::parse(&number.to_string()).map_err(str::to_owned),
            _ => Err(FORMAT_ERROR.to_owned()),
        }
    }

    /// From text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end =
            unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        if number.is_empty() || suffix.chars().any(|letter| !"eEinumkKMGTP+-0123456789".contains(letter)) {
            return Err(FORMAT_ERROR);
        }
        let (power, binary, format) = parse_suffix(suffix)?;
        let nanos = parse_nanos(number, power, binary)?;
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// Below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Has no fraction.
    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
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

/// Powers of 10 and 1024 of a suffix.
fn parse_suffix(suffix: &str) -> Result<(i32, u32, Format), &'static str> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((*power, 0, Format::Decimal));
    }
    if let Some(power) = BINARY.iter().position(|name| *name == suffix) {
        return Ok((0, u32::try_from(power).unwrap_or_default(), Format::Binary));
    }
    let power = suffix.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i32>().ok());
    power.map(|power| (power, 0, Format::Exponent)).ok_or(SUFFIX_ERROR)
}

/// Rounded up to nano precision, as in kube-apiserver.
fn parse_nanos(number: &str, power: i32, binary: u32) -> Result<i128, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(NUMBER_ERROR);
    }
    let digits = format!("{whole}{fraction}");
    let mut amount: i128 = digits.parse().map_err(|_| NUMBER_ERROR)?;
    for _ in 0..binary {
        amount = amount.saturating_mul(1024);
    }
    let shift = 9_i64 + i64::from(power) - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    for _ in 0..shift.clamp(0, 40) {
        amount = amount.saturating_mul(10);
    }
    for _ in 0..(-shift).clamp(0, 40) {
        amount = amount / 10 + i128::from(amount % 10 != 0);
    }
    Ok(amount)
}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return out.write_str("0");
        }
        let whole = self.nanos / NANO;
        if self.format == Format::Binary && self.is_whole() && whole.abs() >= 1024 {
            let (mut amount, mut power) = (whole, 0);
            while amount % 1024 == 0 && power + 1 < BINARY.len() {
                amount /= 1024;
                power += 1;
            }
            return write!(out, "{amount}{}", BINARY.get(power).unwrap_or(&""));
        }
        let (mut amount, mut power) = (self.nanos, -9);
        while amount % 1000 == 0 && power < 18 {
            amount /= 1000;
            power += 3;
        }
        let suffix = DECIMAL.iter().find(|(_, known)| *known == power).map_or("", |(name, _)| name);
        match self.format {
            Format::Exponent if power == 0 => write!(out, "{amount}"),
            Format::Exponent => write!(out, "{amount}e{power}"),
            _ => write!(out, "{amount}{suffix}"),
        }
    }
}
