//! How fast terraform's event stream is read: lines, events, progress; what the driver does while it listens.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use anyhow::ensure;
use terraform_driver::events::{
    EventKind, LINE_LIMIT, LineSplitter, StreamItem, TerraformProgress, read_chunk,
};

use crate::table::{Table, Verdict, median};

const SIZE: usize = 50_000_000;
/// As much as the driver reads at once.
const CHUNK: usize = 64 * 1024;
const PASSES: usize = 5;

pub(crate) fn measure(table: &mut Table) -> anyhow::Result<()> {
    let (stream, events, objects) = build_stream()?;
    let mut times = Vec::with_capacity(PASSES);
    for _ in 0..PASSES {
        times.push(parse_stream(&stream, events, objects)?);
    }
    let time = median(times.into_iter()).as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a speed needs three digits")]
    let (megabytes, events) = (stream.len() as f64 / 1e6 / time, events as f64 / 1e6 / time);
    let measured = format!("{megabytes:.0} MB/s, {events:.2} million events/s");
    table.add("read the event stream (50 MB)", &measured, "", Verdict::None);
    Ok(())
}

/// Reads everything, and makes sure that it was understood: a reader that gives up is fast.
fn parse_stream(stream: &[u8], events: usize, objects: u64) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let (mut lines, mut progress) = (LineSplitter::new(LINE_LIMIT), TerraformProgress::default());
    let (mut read, mut strange) = (0, 0);
    for chunk in stream.chunks(CHUNK) {
        read_chunk(&mut lines, chunk, |item| {
            read += 1;
            match item {
                StreamItem::Event(event)
                    if !matches!(event.kind, EventKind::Text | EventKind::Unknown { .. }) =>
                {
                    progress.observe(&event);
                }
                _ => strange += 1,
            }
        });
    }
    let time = begun.elapsed();
    ensure!((read, strange) == (events, 0), "{read} of {events} events were read, {strange} not understood");
    ensure!(progress.done() == objects, "{} of {objects} objects were made", progress.done());
    Ok(time)
}

/// The lines of many applies one after another, in the words of terraform 1.11; lines and made objects.
fn build_stream() -> anyhow::Result<(Vec<u8>, usize, u64)> {
    let mut text = String::with_capacity(SIZE + 4096);
    let mut objects = 0;
    push_line(&mut text, "Terraform 1.11.4", r#""terraform":"1.11.4","type":"version","ui":"1.2""#)?;
    while text.len() < SIZE {
        push_resource(&mut text, objects)?;
        objects += 1;
        if objects.is_multiple_of(1000) {
            push_summary(&mut text)?;
        }
    }
    let lines = text.bytes().filter(|byte| *byte == b'\n').count();
    Ok((text.into_bytes(), lines, objects))
}

fn push_resource(text: &mut String, number: u64) -> anyhow::Result<()> {
    let zone = ["eu-central-1a", "eu-central-1b", "eu-central-1c"][usize::try_from(number % 3)?];
    let address = format!("module.network[{}].aws_subnet.private[\\\"{zone}\\\"]", number % 1000);
    let resource = format!(
        r#""resource":{{"addr":"{address}","module":"module.network[{}]","resource":"aws_subnet.private[\"{zone}\"]","implied_provider":"aws","resource_type":"aws_subnet","resource_name":"private","resource_key":"{zone}"}}"#,
        number % 1000
    );
    let id = format!("subnet-{number:017x}");
    let hook = |rest: &str| format!(r#""hook":{{{resource},{rest}}}"#);
    let refresh = hook(&format!(r#""id_key":"id","id_value":"{id}""#));
    let elapsed = |seconds: u32| hook(&format!(r#""action":"create","elapsed_seconds":{seconds}"#));
    let complete =
        hook(&format!(r#""action":"create","id_key":"id","id_value":"{id}","elapsed_seconds":11"#));
    let said: [(&str, String, String); 6] = [
        ("refresh_start", format!("Refreshing state... [id={id}]"), refresh.clone()),
        ("refresh_complete", format!("Refresh complete [id={id}]"), refresh),
        (
            "planned_change",
            "Plan to create".to_owned(),
            format!(r#""change":{{{resource},"action":"create"}}"#),
        ),
        ("apply_start", "Creating...".to_owned(), hook(r#""action":"create""#)),
        ("apply_progress", "Still creating... [10s elapsed]".to_owned(), elapsed(10)),
        ("apply_complete", format!("Creation complete after 11s [id={id}]"), complete),
    ];
    for (kind, message, body) in said {
        push_line(text, &format!("{address}: {message}"), &format!(r#"{body},"type":"{kind}""#))?;
    }
    Ok(())
}

/// What a command says when it is done, a warning among it.
fn push_summary(text: &mut String) -> anyhow::Result<()> {
    let warning = r#""diagnostic":{"severity":"warning","summary":"Argument is deprecated","detail":"Use the other one.\n\nIt does the same.","address":"aws_eip.nat[0]","range":{"filename":"main.tf","start":{"line":41,"column":3,"byte":1033},"end":{"line":41,"column":6,"byte":1036}}},"type":"diagnostic""#;
    push_line(text, "Warning: Argument is deprecated", warning)?;
    let summary = r#""changes":{"add":1000,"change":0,"import":0,"remove":0,"operation":"apply"},"type":"change_summary""#;
    push_line(text, "Apply complete! Resources: 1000 added, 0 changed, 0 destroyed.", summary)?;
    let outputs = r#""outputs":{"vpc_id":{"sensitive":false,"type":"string","value":"vpc-0123456789abcdef0"},"kubeconfig":{"sensitive":true,"type":"string"}},"type":"outputs""#;
    push_line(text, "Outputs: 2", outputs)
}

fn push_line(text: &mut String, message: &str, body: &str) -> anyhow::Result<()> {
    Ok(writeln!(
        text,
        r#"{{"@level":"info","@message":"{message}","@module":"terraform.ui","@timestamp":"2026-01-31T12:00:00.123456Z",{body}}}"#
    )?)
}
