//! Human-readable durations with two or three digits.

use jiff::SignedDuration;

/// `5s`, `3m20s`, `4h30m`, `2d5h`, `400d`, `3y40d`.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    // Clocks may differ by about a second.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => pair(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

fn pair(large: i64, unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
}
