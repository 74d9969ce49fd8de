//! A watch as it comes over the wire: one JSON document a line.

use anyhow::{Context as _, Result, bail};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::context::TIMEOUT;

/// An open watch.
pub struct Watch {
    /// The status code of the answer.
    pub code: u16,
    body: Body,
    buffer: Vec<u8>,
}

impl Watch {
    pub(crate) fn new(response: http::Response<Body>) -> Self {
        Self { code: response.status().as_u16(), body: response.into_body(), buffer: Vec::new() }
    }

    /// The next event; an error where none comes or the watch ends.
    pub async fn next_event(&mut self) -> Result<Value> {
        match tokio::time::timeout(TIMEOUT, self.read_line()).await {
            Ok(Ok(Some(event))) => Ok(event),
            Ok(Ok(None)) => bail!("the watch ended where an event was due"),
            Ok(Err(error)) => Err(error),
            Err(_) => bail!("no event within {TIMEOUT:?}"),
        }
    }

    /// So many events.
    pub async fn take_events(&mut self, count: usize) -> Result<Vec<Value>> {
        let mut events = Vec::with_capacity(count);
        for number in 0..count {
            events.push(
                self.next_event()
                    .await
                    .with_context(|| format!("event {} of {count}, after {events:?}", number + 1))?,
            );
        }
        Ok(events)
    }

    /// All events until the server ends the watch.
    pub async fn remaining_events(&mut self) -> Result<Vec<Value>> {
        let mut events = Vec::new();
        while let Some(event) =
            tokio::time::timeout(TIMEOUT, self.read_line()).await.context("the watch does not end")??
        {
            events.push(event);
        }
        Ok(events)
    }

    /// Events up to and with the first that fits.
    pub async fn events_through(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
        let mut events = Vec::new();
        loop {
            let event = self.next_event().await.with_context(|| format!("after {events:?}"))?;
            let is_last = wanted(&event);
            events.push(event);
            if is_last {
                return Ok(events);
            }
        }
    }

    async fn read_line(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line).context("read an event")?));
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame.context("read the watch")?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                None if self.buffer.is_empty() => return Ok(None),
                None => return Ok(Some(serde_json::from_slice(&std::mem::take(&mut self.buffer))?)),
            }
        }
    }
}

/// An event in short: its type and the name of the object.
pub fn summarise_event(event: &Value) -> Value {
    json!([event["type"], event["object"]["metadata"]["name"]])
}

/// Events in short.
pub fn summarise_events(events: &[Value]) -> Value {
    events.iter().map(summarise_event).collect()
}
