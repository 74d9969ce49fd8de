//! The tables of `list` and `versions`.

use comfy_table::{Table, presets};
use jiff::Timestamp;

use super::{
    super::time,
    version::{StateVersionRow, WorkspaceRow},
};

/// Digits of a lineage: enough to tell two apart.
const LINEAGE_DIGITS: usize = 8;

pub(super) fn workspaces(rows: &[WorkspaceRow], now: Timestamp) -> String {
    if rows.is_empty() {
        return "no workspace has a state\n".to_owned();
    }
    let mut table = new_table(&["WORKSPACE", "SERIAL", "LINEAGE", "RESOURCES", "AGE", "STORED"]);
    for row in rows {
        table.add_row([
            row.workspace.clone(),
            text(row.serial),
            lineage(row.lineage.as_deref()),
            text(row.resources),
            age(row.stored_at, now),
            row.place.to_owned(),
        ]);
    }
    render(&table)
}

pub(super) fn versions(rows: &[StateVersionRow], now: Timestamp) -> String {
    if rows.is_empty() {
        return "no version is kept\n".to_owned();
    }
    let mut table = new_table(&["VERSION", "SERIAL", "LINEAGE", "RESOURCES", "AGE", "KEPT"]);
    for row in rows {
        table.add_row([
            row.id.clone(),
            row.serial.to_string(),
            lineage(Some(&row.lineage)),
            text(row.resources),
            age(row.stored_at, now),
            row.kept.to_owned(),
        ]);
    }
    render(&table)
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

fn render(table: &Table) -> String {
    // Without borders, the padding of the first column is an indentation of everything.
    let lines: Vec<String> =
        table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |it| it.to_string())
}

fn lineage(lineage: Option<&str>) -> String {
    lineage.map_or_else(|| "-".to_owned(), |it| it.chars().take(LINEAGE_DIGITS).collect())
}

fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "-".to_owned(), |at| time::format_duration(time::elapsed_between(at, now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspaces_of_a_cluster_fit_into_80_columns() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let row = |name: &str| WorkspaceRow {
            workspace: format!("default/{name}"),
            serial: Some(123),
            lineage: Some("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9".to_owned()),
            resources: Some(1119),
            stored_at: Some(now - jiff::SignedDuration::from_hours(100)),
            place: "directory",
            location: "/somewhere".to_owned(),
        };
        let table = workspaces(&[row("demo-vpc"), row("production-controlplane")], now);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{table}");
        let cells: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(
            cells,
            ["default/production-controlplane", "123", "0a1b2c3d", "1119", "4d04h", "directory"]
        );
        let column = |line: &str, text: &str| line.find(text);
        assert_eq!(column(lines[0], "SERIAL"), column(lines[1], "123"), "the columns are aligned: {table}");
        assert_eq!(workspaces(&[], now), "no workspace has a state\n");
    }
}
