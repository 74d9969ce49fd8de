use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

const PLAN: &str = concat!(
    r#"{"@level":"info","@message":"Terraform 1.11.4","@module":"terraform.ui","@timestamp":"2026-11-16T02:16:32.875235Z","terraform":"1.11.4","type":"version","ui":"1.2"}"#,
    "\n",
    r#"{"@level":"info","@message":"aws_vpc.this: Refreshing state... [id=vpc-1]","@module":"terraform.ui","@timestamp":"2026-11-16T02:16:33.000000Z","hook":{"resource":{"addr":"aws_vpc.this","module":"","resource":"aws_vpc.this","implied_provider":"aws","resource_type":"aws_vpc","resource_name":"this","resource_key":null},"id_key":"id","id_value":"vpc-1"},"type":"refresh_start"}"#,
    "\n",
    r#"{"@level":"info","@message":"aws_vpc.this: Refresh complete [id=vpc-1]","@module":"terraform.ui","@timestamp":"2026-11-16T02:16:33.100000Z","hook":{"resource":{"addr":"aws_vpc.this","resource_type":"aws_vpc"},"id_key":"id","id_value":"vpc-1"},"type":"refresh_complete"}"#,
    "\n",
    r#"{"@level":"info","@message":"aws_vpc.this: Drift detected (update)","@module":"terraform.ui","@timestamp":"2026-11-16T02:16:33.200000Z","change":{"resource":{"addr":"aws_vpc.this","resource_type":"aws_vpc"},"action":"update"},"type":"resource_drift"}"#,
    "\n",
    r#"{"@level":"info","@message":"aws_eks_cluster.this[0]: Plan to replace","@module":"terraform.ui","@timestamp":"2026-11-16T02:16:33.300000Z","change":{"resource":{"addr":"aws_eks_cluster.this[0]","resource_type":"aws_eks_cluster"},"action":"replace","reason":"tainted"},"type":"planned_change"}"#,
    "\n",
    r#"{"@level":"info","@message":"Plan: 1 to add, 1 to change, 1 to destroy.","@module":"terraform.ui","@timestamp":"2026-11-16T02:16:34.000000Z","changes":{"add":1,"change":1,"import":0,"remove":1,"operation":"plan","action_invocation":0},"type":"change_summary"}"#,
    "\n",
    r#"{"@level":"info","@message":"Outputs: 2","@module":"terraform.ui","@timestamp":"2026-11-16T02:16:34.000000Z","outputs":{"vpc_id":{"sensitive":false,"type":"string","value":"vpc-1"},"kubeconfig":{"sensitive":true,"action":"create"}},"type":"outputs"}"#,
    "\n",
);

fn events(text: &str, mut each: impl FnMut(Event<'_>)) {
    read_all(text.as_bytes(), |item| match item {
        StreamItem::Event(event) => each(event),
        StreamItem::Oversized { bytes } => panic!("oversized line of {bytes} bytes"),
    });
}

#[test]
fn the_events_of_a_plan_are_read() {
    let mut seen = Vec::new();
    events(PLAN, |event| {
        seen.push(match event.kind {
            EventKind::Version { engine, ui } => format!("version {engine} {ui}"),
            EventKind::RefreshStart(hook) => format!("refresh {} {:?}", hook.address, hook.id),
            EventKind::RefreshComplete(hook) => format!("refreshed {}", hook.address),
            EventKind::ResourceDrift(change) => format!("drift {} {}", change.address, change.action),
            EventKind::PlannedChange(change) => {
                format!("{} {} {:?}", change.action, change.resource_type, change.reason)
            }
            EventKind::ChangeSummary { operation, counts } => format!("{operation} {}", counts.operations()),
            EventKind::Outputs(outputs) => format!("{outputs:?}"),
            other => panic!("{other:?}"),
        });
    });
    assert_eq!(
        seen,
        [
            "version 1.11.4 1.2",
            r#"refresh aws_vpc.this Some(("id", "vpc-1"))"#,
            "refreshed aws_vpc.this",
            "drift aws_vpc.this update",
            r#"replace aws_eks_cluster Some("tainted")"#,
            "plan 3",
            r#"{"kubeconfig": true, "vpc_id": false}"#,
        ]
    );
}

#[test]
fn a_diagnostic_keeps_its_address_and_place() {
    let line = r#"{"@level":"error","@message":"Error: creating EKS Cluster (demo)","@module":"terraform.ui","@timestamp":"2026-11-16T02:16:33.235565Z","diagnostic":{"severity":"error","summary":"creating EKS Cluster (demo)","detail":"line\nline","address":"aws_eks_cluster.this","range":{"filename":"main.tf","start":{"line":12,"column":1,"byte":200},"end":{"line":12,"column":9,"byte":208}},"snippet":{"context":"x","code":"y","start_line":12,"highlight_start_offset":0,"highlight_end_offset":1,"values":[]}},"type":"diagnostic"}"#;
    let EventKind::Diagnostic(diagnostic) = Event::parse(line.as_bytes()).kind else { panic!() };
    assert!(diagnostic.is_error());
    assert_eq!(diagnostic.summary, "creating EKS Cluster (demo)");
    assert_eq!(diagnostic.detail, "line\nline");
    assert_eq!(diagnostic.address.as_deref(), Some("aws_eks_cluster.this"));
    assert_eq!(diagnostic.range, Some(Position { filename: "main.tf".to_owned(), line: 12 }));
}

#[test]
fn plain_text_between_events_survives() {
    let text = format!("\nSuccessfully configured the backend \"local\"!\r\n{{not json\n{PLAN}last words");
    let mut lines = Vec::new();
    let mut count = 0;
    events(&text, |event| {
        count += 1;
        if matches!(event.kind, EventKind::Text) {
            lines.push(event.message.to_string());
        }
    });
    assert_eq!(lines, ["Successfully configured the backend \"local\"!", "{not json", "last words"]);
    assert_eq!(count, 10);
}

#[test]
fn unknown_types_are_kept_with_their_text() {
    let line = r#"{"@level":"info","@message":"hello","type":"action_start","hook":{"addr":"x"},"new":{"deep":[1,2]}}"#;
    let event = Event::parse(line.as_bytes());
    assert_eq!(event.message.as_str(), "hello");
    let EventKind::Unknown { name, raw } = event.kind else { panic!("{:?}", event.kind) };
    assert_eq!(name.as_str(), "action_start");
    assert_eq!(raw.0.get(), line);
}

#[test]
fn a_known_type_of_an_unknown_shape_is_kept_too() {
    for line in [
        r#"{"type":"apply_start"}"#,
        r#"{"type":"change_summary"}"#,
        r#"{"type":"planned_change","change":null}"#,
    ] {
        assert!(matches!(Event::parse(line.as_bytes()).kind, EventKind::Unknown { .. }), "{line}");
    }
    assert!(matches!(Event::parse(br#"{"type":"apply_start","hook":7}"#).kind, EventKind::Text));
}

#[test]
fn an_emergency_state_dump_is_caught_and_not_printed() {
    let line = r#"{"@level":"info","@message":"Emergency state dump","@module":"terraform.ui","state":{"version":4,"serial":3,"outputs":{"p":{"value":"canary"}}},"type":"log"}"#;
    let event = Event::parse(line.as_bytes());
    assert!(!format!("{event:?}").contains("canary"));
    let EventKind::EmergencyState(state) = event.kind else { panic!() };
    assert_eq!(state.0.get(), r#"{"version":4,"serial":3,"outputs":{"p":{"value":"canary"}}}"#);
}

#[rstest]
#[case("1.2", false)]
#[case("1.99", false)]
#[case("2.0", true)]
#[case("", true)]
fn an_unknown_major_version_of_the_stream_is_recognised(#[case] ui: &str, #[case] unknown: bool) {
    let line = format!(r#"{{"type":"version","tofu":"1.12.0","ui":"{ui}"}}"#);
    assert_eq!(Event::parse(line.as_bytes()).is_unknown_stream(), unknown);
}

#[test]
fn text_is_borrowed_from_the_line() {
    use std::borrow::Cow;
    let line = PLAN.lines().nth(1).unwrap();
    let event = Event::parse(line.as_bytes());
    assert!(matches!(event.message.0, Cow::Borrowed(_)));
    let EventKind::RefreshStart(hook) = event.kind else { panic!() };
    assert!(matches!(hook.address.0, Cow::Borrowed(_)));
    assert!(matches!(hook.id.unwrap().1.0, Cow::Borrowed(_)));
}

// === lines ===

fn collect(lines: &mut LineSplitter, chunks: &[&[u8]]) -> Vec<Result<Vec<u8>, u64>> {
    let mut all = Vec::new();
    let mut each = |line: StreamLine<'_>| {
        all.push(match line {
            StreamLine::Complete(bytes) => Ok(bytes.to_vec()),
            StreamLine::Oversized { bytes } => Err(bytes),
        });
    };
    for chunk in chunks {
        lines.feed(chunk, &mut each);
    }
    lines.finish(&mut each);
    all
}

#[test]
fn a_line_longer_than_the_limit_is_counted_and_the_next_one_is_read() {
    let long = vec![b'x'; 25];
    let mut input = long.clone();
    input.extend_from_slice(b"\nnext\n");
    for size in 1..input.len() {
        let chunks: Vec<&[u8]> = input.chunks(size).collect();
        let mut lines = LineSplitter::new(10);
        assert_eq!(collect(&mut lines, &chunks), [Err(25), Ok(b"next".to_vec())], "chunks of {size}");
        assert_eq!(lines.pending(), 0);
    }
    assert_eq!(collect(&mut LineSplitter::new(10), &[&long]), [Err(25)]);
    assert_eq!(collect(&mut LineSplitter::new(25), &[&long]), [Ok(long)]);
}

#[test]
fn a_line_of_several_megabytes_is_an_event() {
    let value = "v".repeat(3 * 1024 * 1024);
    let line = format!(
        r#"{{"@message":"m","outputs":{{"o":{{"sensitive":false,"value":"{value}"}}}},"type":"outputs"}}"#
    );
    let mut seen = 0;
    let mut lines = LineSplitter::default();
    for chunk in line.as_bytes().chunks(65536) {
        read_chunk(&mut lines, chunk, |_| panic!("the line has not ended"));
    }
    read_chunk(&mut lines, b"\n", |item| {
        assert!(matches!(item, StreamItem::Event(Event { kind: EventKind::Outputs(_), .. })));
        seen += 1;
    });
    assert_eq!(seen, 1);
}

proptest! {
    #[test]
    fn the_way_a_stream_is_cut_into_chunks_does_not_matter(
        lines in proptest::collection::vec("[^\r\n]{1,40}", 0..20),
        sizes in proptest::collection::vec(1usize..30, 1..60),
    ) {
        let text = lines.iter().fold(String::new(), |all, line| all + line + "\n");
        let mut rest = text.as_bytes();
        let mut chunks = Vec::new();
        for size in sizes.into_iter().cycle() {
            if rest.is_empty() { break }
            let (head, tail) = rest.split_at(size.min(rest.len()));
            chunks.push(head);
            rest = tail;
        }
        let whole: Vec<_> = lines.iter().map(|line| Ok(line.clone().into_bytes())).collect();
        prop_assert_eq!(collect(&mut LineSplitter::default(), &chunks), whole);
    }

    #[test]
    fn no_line_stops_the_reading(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let event = Event::parse(&line);
        let harmless = matches!(event.kind, EventKind::Text | EventKind::Log | EventKind::Unknown { .. });
        prop_assert!(harmless, "{:?}", event);
    }
}

// === progress ===

fn hook(kind: &str, addr: &str, action: &str, at: &str, elapsed: u64) -> String {
    format!(
        r#"{{"@level":"info","@message":"m","@timestamp":"2026-11-16T10:{at}.000000Z","hook":{{"resource":{{"addr":"{addr}","resource_type":"t"}},"action":"{action}","elapsed_seconds":{elapsed}}},"type":"{kind}"}}"#
    )
}

fn observe(progress: &mut TerraformProgress, lines: &[String]) {
    events(&lines.join("\n"), |event| progress.observe(&event));
}

#[test]
fn progress_counts_what_is_done_and_finds_the_slowest() {
    let mut progress = TerraformProgress::with_total(4);
    observe(
        &mut progress,
        &[
            hook("apply_start", "aws_vpc.a", "create", "00:00", 0),
            hook("apply_start", "aws_eks_cluster.b", "create", "00:05", 0),
            hook("apply_complete", "aws_vpc.a", "create", "00:07", 7),
            hook("apply_start", "aws_subnet.c", "create", "00:08", 0),
            hook("apply_errored", "aws_subnet.c", "create", "00:09", 1),
            hook("apply_start", "data.x.y", "read", "00:09", 0),
            hook("apply_complete", "data.x.y", "read", "00:09", 0),
            hook("apply_start", "aws_iam_role.d", "create", "00:10", 0),
            hook("apply_progress", "aws_eks_cluster.b", "create", "00:25", 20),
        ],
    );
    assert_eq!((progress.done(), progress.failed(), progress.total()), (1, 1, 4));
    let now = "2026-11-16T10:01:05Z".parse().unwrap();
    let slowest = progress.slowest(now).unwrap();
    assert_eq!(slowest.address, "aws_eks_cluster.b");
    assert_eq!(slowest.elapsed.as_secs(), 60);
    assert_eq!(progress.in_flight(now).len(), 2);
    let clock_is_behind = "2026-11-16T09:00:00Z".parse().unwrap();
    assert_eq!(progress.slowest(clock_is_behind).unwrap().elapsed.as_secs(), 20);
}

#[test]
fn the_total_comes_from_the_stream_when_nobody_said_it() {
    let mut progress = TerraformProgress::default();
    events(PLAN, |event| progress.observe(&event));
    assert_eq!(progress.total(), 3);
    assert_eq!(progress.read(), 1);
    let mut apply = TerraformProgress::default();
    let planned = |action: &str| {
        format!(r#"{{"type":"planned_change","change":{{"resource":{{"addr":"a"}},"action":"{action}"}}}}"#)
    };
    observe(&mut apply, &[planned("create"), planned("replace"), planned("noop"), planned("read")]);
    assert_eq!(apply.total(), 3);
}

#[test]
fn progress_never_shows_more_done_than_there_is() {
    let mut progress = TerraformProgress::with_total(1);
    let lines: Vec<_> =
        ["a", "b", "c"].iter().map(|a| hook("apply_complete", a, "create", "00:01", 1)).collect();
    observe(&mut progress, &lines);
    assert_eq!((progress.done(), progress.total()), (3, 3));
}
