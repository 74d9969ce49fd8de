//! Parses times as Go does, with its error texts.

use jiff::{Timestamp, civil::DateTime, tz::Offset};

use crate::status_error::go_quote;

/// Number of fractional digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `metav1.Time`: any, or none.
    Seconds,
    /// `metav1.MicroTime`: six.
    Micros,
}

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Parses a time.
pub fn parse(text: &str, layout: Layout) -> Result<Timestamp, String> {
    let mut reader = TimeParser { text, rest: text, layout };
    let year = reader.number("2006", 4, 4)?;
    reader.literal("-")?;
    let month = reader.within("01", "month", 1..=12)?;
    reader.literal("-")?;
    let day = reader.number("02", 2, 2)?;
    reader.literal("T")?;
    let hour = reader.hour()?;
    reader.literal(":")?;
    let minute = reader.within("04", "minute", 0..=59)?;
    reader.literal(":")?;
    let second = reader.within("05", "second", 0..=59)?;
    let nanos = reader.fraction()?;
    let offset = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(reader.layout_error(&format!("extra text: {}", go_quote(reader.rest))));
    }
    let small = |number: i32| i8::try_from(number).unwrap_or(0);
    let moment = DateTime::new(
        i16::try_from(year).unwrap_or(0),
        small(month),
        small(day),
        small(hour),
        small(minute),
        small(second),
        nanos,
    );
    let moment = moment.map_err(|_| reader.layout_error("day out of range"))?;
    let offset = Offset::from_seconds(offset)
        .map_err(|_| reader.layout_error("time zone offset hour out of range"))?;
    // Go supports years that `jiff` does not.
    offset.to_timestamp(moment).map_err(|_| reader.layout_error("year out of range"))
}

struct TimeParser<'a> {
    text: &'a str,
    rest: &'a str,
    layout: Layout,
}

impl<'a> TimeParser<'a> {
    fn parse_error(&self, element: &str) -> String {
        let (text, layout) = (go_quote(self.text), go_quote(self.layout.text()));
        format!(
            "parsing time {text} as {layout}: cannot parse {} as {}",
            go_quote(self.rest),
            go_quote(element)
        )
    }

    fn layout_error(&self, why: &str) -> String {
        format!("parsing time {}: {why}", go_quote(self.text))
    }

    /// The next `count` characters, if all are digits.
    fn digits(&self, count: usize) -> Option<(&'a str, &'a str)> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        head.bytes().all(|one| one.is_ascii_digit()).then_some((head, rest))
    }

    fn number(&mut self, element: &str, most: usize, least: usize) -> Result<i32, String> {
        let found = (least..=most).rev().find_map(|count| self.digits(count));
        let (digits, rest) = found.ok_or_else(|| self.parse_error(element))?;
        self.rest = rest;
        digits.parse().map_err(|_| self.parse_error(element))
    }

    fn within(
        &mut self,
        element: &str,
        name: &str,
        allowed: std::ops::RangeInclusive<i32>,
    ) -> Result<i32, String> {
        let number = self.number(element, 2, 2)?;
        if allowed.contains(&number) {
            Ok(number)
        } else {
            Err(self.layout_error(&format!("{name} out of range")))
        }
    }

    /// The only number that may have a single digit.
    fn hour(&mut self) -> Result<i32, String> {
        let hour = self.number("15", 2, 1)?;
        if hour < 24 { Ok(hour) } else { Err(self.layout_error("hour out of range")) }
    }

    fn literal(&mut self, element: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(element).ok_or_else(|| self.parse_error(element))?;
        Ok(())
    }

    fn fraction(&mut self) -> Result<i32, String> {
        let digits = self.rest.strip_prefix(['.', ',']).map(|rest| {
            let end = rest.find(|one: char| !one.is_ascii_digit()).unwrap_or(rest.len());
            rest.split_at_checked(end).unwrap_or((rest, ""))
        });
        let digits = match (self.layout, digits) {
            (Layout::Seconds, None | Some(("", _))) => return Ok(0),
            (Layout::Seconds, Some((digits, rest))) => {
                self.rest = rest;
                digits
            }
            (Layout::Micros, Some((digits, _))) if digits.len() >= 6 && self.rest.starts_with('.') => {
                let (head, rest) = self.rest.split_at_checked(7).unwrap_or((self.rest, ""));
                self.rest = rest;
                head.trim_start_matches('.')
            }
            (Layout::Micros, _) => return Err(self.parse_error(".000000")),
        };
        let nanos: String = digits.chars().chain("000000000".chars()).take(9).collect();
        Ok(nanos.parse().unwrap_or(0))
    }

    /// In seconds.
    fn offset(&mut self) -> Result<i32, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let cannot = || self.parse_error("Z07:00");
        let (zone, rest) = self.rest.split_at_checked(6).ok_or_else(cannot)?;
        let sign = match zone.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(cannot()),
        };
        let (hours, minutes) = zone.get(1..).and_then(|zone| zone.split_once(':')).ok_or_else(cannot)?;
        let number = |text: &str| {
            let is_number = text.len() == 2 && text.bytes().all(|one| one.is_ascii_digit());
            text.parse::<i32>().ok().filter(|_| is_number)
        };
        let (hours, minutes) = number(hours).zip(number(minutes)).ok_or_else(cannot)?;
        self.rest = rest;
        match (hours, minutes) {
            (25.., _) => Err(self.layout_error("time zone offset hour out of range")),
            (_, 60..) => Err(self.layout_error("time zone offset minute out of range")),
            _ => Ok(sign * (hours * 3600 + minutes * 60)),
        }
    }
}
