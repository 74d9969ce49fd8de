//! When a sandbox or a group is over.

use jiff::{SignedDuration, Timestamp};

use crate::api::{GroupTtl, GroupTtlOffset, Ttl, TtlOffset};

/// How long `30m`, `2h`, `1d`, `4w` is. `None` for every other text, and for times beyond all calendars.
pub fn duration(text: &str) -> Option<SignedDuration> {
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

/// How long `0`, `30s`, `10m` is: what a lost connection has to come back. Nothing at all is the usual half a minute.
pub fn grace(text: &str) -> Option<SignedDuration> {
    if text.is_empty() {
        return Some(SignedDuration::from_secs(30));
    }
    let seconds = if text == "0" {
        0
    } else if let Some(number) = text.strip_suffix('s') {
        whole(number)?
    } else {
        whole(text.strip_suffix('m')?)?.checked_mul(60)?
    };
    (0..=600).contains(&seconds).then(|| SignedDuration::from_secs(seconds))
}

fn whole(number: &str) -> Option<i64> {
    (!number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())).then(|| number.parse().ok())?
}

/// The moments from which a life may count.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    /// When the object was made.
    pub created: Timestamp,
    /// When its spec changed last.
    pub updated: Timestamp,
    /// Since when no sandbox belongs to a group; `None` while one does.
    pub unmatched: Option<Timestamp>,
}

/// When a sandbox is deleted; `None` for never.
pub fn of_sandbox(ttl: &Ttl, moments: Moments) -> Option<Timestamp> {
    let from = match ttl.offset_from {
        TtlOffset::CreatedAt => moments.created,
        TtlOffset::UpdatedAt => moments.updated,
    };
    end(&ttl.duration, from)
}

/// When a group is deleted; `None` for never, or not as long as sandboxes belong to it.
pub fn of_group(ttl: &GroupTtl, moments: Moments) -> Option<Timestamp> {
    let from = match ttl.offset_from {
        GroupTtlOffset::CreatedAt => moments.created,
        GroupTtlOffset::UpdatedAt => moments.updated,
        GroupTtlOffset::NoMatchedSandboxes => moments.unmatched?,
    };
    end(&ttl.duration, from)
}

/// A time that no calendar has never comes.
fn end(text: &str, from: Timestamp) -> Option<Timestamp> {
    from.checked_add(duration(text)?).ok()
}

/// What is to be done about an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// It is over.
    Over,
    /// Look again in this time. `expiring`: a tenth of its life or less is left.
    In {
        /// The time until something changes.
        after: std::time::Duration,
        /// Whether people should be told.
        expiring: bool,
    },
}

/// What is to be done now about an end, for a life that began at `from`.
pub fn due(from: Timestamp, end: Timestamp, now: Timestamp) -> Due {
    let left = end.duration_since(now);
    if left <= SignedDuration::ZERO {
        return Due::Over;
    }
    let tenth = end.duration_since(from).checked_div(10).unwrap_or(SignedDuration::ZERO);
    let expiring = left <= tenth;
    let wait = if expiring { left } else { left.saturating_sub(tenth) };
    Due::In { after: wait.unsigned_abs(), expiring }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::api::schema;

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
        assert_eq!(duration(text).map(|it| it.as_secs()), seconds);
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
        assert_eq!(grace(text).map(|it| it.as_secs()), seconds);
        assert_eq!(regex::Regex::new(schema::GRACE).unwrap().is_match(text), seconds.is_some(), "the schema");
    }

    #[test]
    fn a_life_counts_from_where_the_spec_says() {
        let (created, updated) = (at("2026-11-17T05:00:00Z"), at("2026-11-17T06:00:00Z"));
        let moments = Moments { created, updated, unmatched: None };
        let ttl = |offset_from| Ttl { duration: "2h".into(), offset_from };
        assert_eq!(of_sandbox(&ttl(TtlOffset::CreatedAt), moments), Some(at("2026-11-17T07:00:00Z")));
        assert_eq!(of_sandbox(&ttl(TtlOffset::UpdatedAt), moments), Some(at("2026-11-17T08:00:00Z")));
        let group = GroupTtl { duration: "1d".into(), offset_from: GroupTtlOffset::NoMatchedSandboxes };
        assert_eq!(of_group(&group, moments), None);
        let empty = Moments { unmatched: Some(at("2026-11-17T07:30:00Z")), ..moments };
        assert_eq!(of_group(&group, empty), Some(at("2026-11-18T07:30:00Z")));
    }

    #[test]
    fn a_life_beyond_all_calendars_never_ends() {
        let now = at("2026-11-17T05:00:00Z");
        let moments = Moments { created: now, updated: now, unmatched: None };
        let ttl = Ttl { duration: "9999999999w".into(), offset_from: TtlOffset::CreatedAt };
        assert_eq!(of_sandbox(&ttl, moments), None);
    }

    #[test]
    fn it_is_looked_at_again_at_a_tenth_and_at_the_end_and_not_before() {
        let (from, end) = (at("2026-11-17T05:00:00Z"), at("2026-11-17T06:40:00Z"));
        let minutes = |it: u64| std::time::Duration::from_secs(it * 60);
        assert_eq!(due(from, end, from), Due::In { after: minutes(90), expiring: false });
        assert_eq!(
            due(from, end, at("2026-11-17T06:30:00Z")),
            Due::In { after: minutes(10), expiring: true }
        );
        assert_eq!(
            due(from, end, at("2026-11-17T06:39:59Z")),
            Due::In { after: std::time::Duration::from_secs(1), expiring: true }
        );
        assert_eq!(due(from, end, end), Due::Over);
        assert_eq!(due(from, end, at("2026-11-18T00:00:00Z")), Due::Over);
    }
}
