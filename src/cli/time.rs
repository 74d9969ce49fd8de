//! Parsing and formatting of durations.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// `90s`, `10m`, `1h30m`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused = || "use a duration such as 90s, 10m or 1h30m".to_owned();
    let parsed: SignedDuration = text.parse().map_err(|_| refused())?;
    Duration::try_from(parsed).map_err(|_| refused())
}

/// `5s`, `2m05s`, `1h02m`, `4d04h`.
pub(super) fn format_duration(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours @ ..24, minutes, _) => format!("{hours}h{minutes:02}m"),
        (hours, ..) => format!("{}d{:02}h", hours / 24, hours % 24),
    }
}

/// The time between two timestamps; zero if they are out of order.
pub(super) fn elapsed_between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_and_readable() {
        let shown =
            [0, 59, 60, 61, 725, 3720, 86_399, 360_000].map(|s| format_duration(Duration::from_secs(s)));
        assert_eq!(shown, ["0s", "59s", "1m00s", "1m01s", "12m05s", "1h02m", "23h59m", "4d04h"]);
    }

    #[test]
    fn what_people_type_is_understood_or_refused_with_an_example() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "ten", "-5m", "10", "5 parsecs"] {
            let said = parse_duration(bad).unwrap_err();
            assert!(said.contains("such as 90s"), "{bad:?}: {said}");
        }
    }
}
