//! Logs as they are read.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use super::*;

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn page(format: LogFormat, filter: &str) -> (Page, Dispatch, LogLevel) {
    let page = Page::default();
    let writer = page.clone();
    let (log, level) = build_subscriber(format, filter, move || writer.clone()).unwrap();
    (page, log, level)
}

#[test]
fn the_level_can_be_changed_while_the_process_runs() {
    let (page, log, level) = page(LogFormat::Text, "info");
    let say = || tracing::dispatcher::with_default(&log, || tracing::debug!("how it is done"));
    say();
    assert_eq!(page.text(), "");
    level.set("warn,capt=debug").unwrap();
    say();
    assert!(page.text().contains("how it is done"), "{}", page.text());
    level.set("off").unwrap();
    let before = page.text();
    say();
    assert_eq!(page.text(), before);
}

#[test]
fn a_json_line_is_an_object_with_the_fields_of_the_event() {
    let (page, log, _level) = page(LogFormat::Json, "info");
    tracing::dispatcher::with_default(&log, || tracing::info!(workspace = "default/demo", "planned"));
    let line: serde_json::Value = serde_json::from_str(page.text().trim()).unwrap();
    assert_eq!(line["message"], "planned");
    assert_eq!(line["workspace"], "default/demo");
    assert_eq!(line["level"], "INFO");
}

#[test]
fn a_sensitive_value_is_not_in_the_log() {
    let (page, log, _level) = page(LogFormat::Json, "info");
    let password = terraform_driver::output::Sensitive::new("hunter2".to_owned());
    tracing::dispatcher::with_default(&log, || tracing::info!(?password, "read"));
    assert!(page.text().contains("read") && !page.text().contains("hunter2"), "{}", page.text());
}

#[test]
fn a_filter_that_means_nothing_is_refused_with_an_example() {
    for filter in ["", "  ", "capt=loud", "a=b=c", "info,[[["] {
        let error = parse_filter(filter).unwrap_err();
        assert!(error.to_string().contains("capt=debug"), "{filter:?}: {error}");
    }
    let (_page, _log, level) = page(LogFormat::Text, "info");
    assert!(level.set("capt=loud").is_err());
}

#[test]
fn a_format_is_read_and_written_alike() {
    for format in [LogFormat::Text, LogFormat::Json] {
        assert_eq!(format.to_string().parse::<LogFormat>().unwrap(), format);
    }
    assert!("yaml".parse::<LogFormat>().unwrap_err().to_string().contains("text or json"));
}
