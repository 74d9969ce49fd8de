//! TTL and expiry of Sandboxes and `RouteGroups`.

use capt_kinds::sandbox::{GroupTtl, GroupTtlOffset, Ttl, TtlOffset};
use jiff::{SignedDuration, Timestamp};

/// Parses `30m`, `2h`, `1d`, `4w`. `None` if invalid or out of range.
pub fn parse_duration(text: &str) -> Option<SignedDuration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let digits = !number.is_empty() && number.len() <= 10 && number.bytes().all(|it| it.is_ascii_digit());
    if !digits || number.starts_with('0') {
        return None;
    }
    let seconds = match unit {
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    Some(SignedDuration::from_secs(number.parse::<i64>().ok()?.checked_mul(seconds)?))
}

/// Parses a grace period: `0`, `30s`, `10m`. Defaults to 30 s if empty.
pub fn parse_grace_period(text: &str) -> Option<SignedDuration> {
    if text.is_empty() {
        return Some(SignedDuration::from_secs(30));
    }
    let seconds = if text == "0" {
        0
    } else if let Some(number) = text.strip_suffix('s') {
        parse_digits(number)?
    } else {
        parse_digits(text.strip_suffix('m')?)?.checked_mul(60)?
    };
    (0..=600).contains(&seconds).then(|| SignedDuration::from_secs(seconds))
}

fn parse_digits(number: &str) -> Option<i64> {
    (!number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())).then(|| number.parse().ok())?
}

/// The times from which a TTL may count.
#[derive(Debug, Clone, Copy)]
pub struct TtlAnchors {
    /// Creation of the object.
    pub created: Timestamp,
    /// Last change of its spec.
    pub updated: Timestamp,
    /// Since when no Sandbox matches a group; `None` while one does.
    pub unmatched_since: Option<Timestamp>,
}

/// When a Sandbox expires; `None` for never.
pub fn sandbox_expiry(ttl: &Ttl, moments: TtlAnchors) -> Option<Timestamp> {
    let from = match ttl.offset_from {
        TtlOffset::CreatedAt => moments.created,
        TtlOffset::UpdatedAt => moments.updated,
    };
    expiry(&ttl.duration, from)
}

/// When a group expires; `None` for never, or while Sandboxes match it.
pub fn group_expiry(ttl: &GroupTtl, moments: TtlAnchors) -> Option<Timestamp> {
    let from = match ttl.offset_from {
        GroupTtlOffset::CreatedAt => moments.created,
        GroupTtlOffset::UpdatedAt => moments.updated,
        GroupTtlOffset::NoMatchedSandboxes => moments.unmatched_since?,
    };
    expiry(&ttl.duration, from)
}

/// The end of a TTL; `None` if out of range.
fn expiry(text: &str, from: Timestamp) -> Option<Timestamp> {
    from.checked_add(parse_duration(text)?).ok()
}

/// Whether a TTL has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryStatus {
    /// It has expired.
    Expired,
    /// It has not expired. Expiring: a tenth of it or less is left.
    Pending {
        /// Time until this status changes.
        recheck_after: std::time::Duration,
        /// Whether to warn.
        is_expiring: bool,
    },
}

/// The status of a TTL from `from` to `end`.
pub fn expiry_status(from: Timestamp, end: Timestamp, now: Timestamp) -> ExpiryStatus {
    let left = end.duration_since(now);
    if left <= SignedDuration::ZERO {
        return ExpiryStatus::Expired;
    }
    let tenth = end.duration_since(from).checked_div(10).unwrap_or(SignedDuration::ZERO);
    let expiring = left <= tenth;
    let wait = if expiring { left } else { left.saturating_sub(tenth) };
    ExpiryStatus::Pending { recheck_after: wait.unsigned_abs(), is_expiring: expiring }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use capt_kinds::sandbox::schema;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[rstest]
    #[case("1m", Some(60))]
    #[case("90m", Some(5_400))]
    #[case("2h", Some(7_200))]
    #[case("1d", Some(86_400))]
    #[case("4w", Some(2_419_200))]
    #[case("9999999999w", Some(9_999_999_999 * 604_800))]
    #[case("0m", None)]
    #[case("01m", None)]
    #[case("1", None)]
    #[case("m", None)]
    #[case("", None)]
    #[case("1s", None)]
    #[case("1.5h", None)]
    #[case("-1h", None)]
    #[case("1h ", None)]
    #[case("1ü", None)]
    #[case("11111111111m", None)]
    fn a_life_is_a_number_and_a_unit(#[case] text: &str, #[case] seconds: Option<i64>) {
        assert_eq!(parse_duration(text).map(|it| it.as_secs()), seconds);
        assert_eq!(regex::Regex::new(schema::TTL).unwrap().is_match(text), seconds.is_some(), "the schema");
    }

    #[rstest]
    #[case("0", Some(0))]
    #[case("0s", Some(0))]
    #[case("30s", Some(30))]
    #[case("599s", Some(599))]
    #[case("600s", Some(600))]
    #[case("601s", None)]
    #[case("10m", Some(600))]
    #[case("11m", None)]
    #[case("1h", None)]
    #[case("s", None)]
    #[case("-1s", None)]
    fn a_grace_is_ten_minutes_at_most(#[case] text: &str, #[case] seconds: Option<i64>) {
        assert_eq!(parse_grace_period(text).map(|it| it.as_secs()), seconds);
        assert_eq!(regex::Regex::new(schema::GRACE).unwrap().is_match(text), seconds.is_some(), "the schema");
    }

    #[test]
    fn a_life_counts_from_where_the_spec_says() {
        let (created, updated) = (at("2026-11-17T05:00:00Z"), at("2026-11-17T06:00:00Z"));
        let moments = TtlAnchors { created, updated, unmatched_since: None };
        let ttl = |offset_from| Ttl { duration: "2h".into(), offset_from };
        assert_eq!(sandbox_expiry(&ttl(TtlOffset::CreatedAt), moments), Some(at("2026-11-17T07:00:00Z")));
        assert_eq!(sandbox_expiry(&ttl(TtlOffset::UpdatedAt), moments), Some(at("2026-11-17T08:00:00Z")));
        let group = GroupTtl { duration: "1d".into(), offset_from: GroupTtlOffset::NoMatchedSandboxes };
        assert_eq!(group_expiry(&group, moments), None);
        let empty = TtlAnchors { unmatched_since: Some(at("2026-11-17T07:30:00Z")), ..moments };
        assert_eq!(group_expiry(&group, empty), Some(at("2026-11-18T07:30:00Z")));
    }

    #[test]
    fn a_life_beyond_all_calendars_never_ends() {
        let now = at("2026-11-17T05:00:00Z");
        let moments = TtlAnchors { created: now, updated: now, unmatched_since: None };
        let ttl = Ttl { duration: "9999999999w".into(), offset_from: TtlOffset::CreatedAt };
        assert_eq!(sandbox_expiry(&ttl, moments), None);
    }

    #[test]
    fn it_is_looked_at_again_at_a_tenth_and_at_the_end_and_not_before() {
        let (from, end) = (at("2026-11-17T05:00:00Z"), at("2026-11-17T06:40:00Z"));
        let minutes = |it: u64| std::time::Duration::from_secs(it * 60);
        assert_eq!(
            expiry_status(from, end, from),
            ExpiryStatus::Pending { recheck_after: minutes(90), is_expiring: false }
        );
        assert_eq!(
            expiry_status(from, end, at("2026-11-17T06:30:00Z")),
            ExpiryStatus::Pending { recheck_after: minutes(10), is_expiring: true }
        );
        assert_eq!(
            expiry_status(from, end, at("2026-11-17T06:39:59Z")),
            ExpiryStatus::Pending { recheck_after: std::time::Duration::from_secs(1), is_expiring: true }
        );
        assert_eq!(expiry_status(from, end, end), ExpiryStatus::Expired);
        assert_eq!(expiry_status(from, end, at("2026-11-18T00:00:00Z")), ExpiryStatus::Expired);
    }
}
