//! Parses one line of the event stream.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, Visitor},
};
use serde_json::value::RawValue;

use crate::output::REDACTED;

/// Text that borrows from the line unless it had to be unescaped. (`#[serde(borrow)]` alone does that for a bare
/// `Cow` only, not inside an `Option` or a map.)
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventText<'a>(pub Cow<'a, str>);

impl EventText<'_> {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for EventText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for EventText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for EventText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = EventText<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(EventText(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(EventText(Cow::Owned(text.to_owned())))
            }
            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(EventText::default())
            }
        }
        deserializer.deserialize_any(Borrow)
    }
}

/// Unparsed JSON. It may contain secrets (an emergency state does), so `Debug` redacts it.
#[derive(Clone, Copy)]
pub struct RawJson<'a>(pub &'a RawValue);

impl fmt::Debug for RawJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{REDACTED} of {} bytes", self.0.get().len())
    }
}

/// A position in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Position {
    /// The file, relative to the root.
    pub filename: String,
    /// The first line.
    #[serde(rename = "start", deserialize_with = "line_of")]
    pub line: u64,
}

fn line_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    struct Start {
        #[serde(default)]
        line: u64,
    }
    Start::deserialize(deserializer).map(|start| start.line)
}

/// An error or a warning. Owned: there are few, and they outlive the line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Diagnostic {
    /// `error` or `warning`.
    #[serde(default)]
    pub severity: String,
    /// The first line.
    #[serde(default)]
    pub summary: String,
    /// The rest.
    #[serde(default)]
    pub detail: String,
    /// Address of the resource.
    #[serde(default)]
    pub address: Option<String>,
    /// Where in the configuration.
    #[serde(default)]
    pub range: Option<Position>,
}

impl Diagnostic {
    /// Whether it is an error, not a warning.
    pub fn is_error(&self) -> bool {
        self.severity == "error"
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
struct WireResource<'a> {
    #[serde(default, borrow)]
    addr: EventText<'a>,
    #[serde(default, borrow)]
    resource_type: EventText<'a>,
}

/// Progress of an operation on one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceHook<'a> {
    /// Address of the resource.
    pub address: EventText<'a>,
    /// Its type.
    pub resource_type: EventText<'a>,
    /// `create`, `update`, `delete`, `read`, …
    pub action: EventText<'a>,
    /// Name and value of the id attribute, once the operation completed.
    pub id: Option<(EventText<'a>, EventText<'a>)>,
    /// Time since the start of the operation.
    pub elapsed_seconds: u64,
}

/// A planned change, or detected drift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedChange<'a> {
    /// Address of the resource.
    pub address: EventText<'a>,
    /// Its type.
    pub resource_type: EventText<'a>,
    /// `create`, `update`, `replace`, `delete`, `read`, `noop`, `move`, `import`, `remove`.
    pub action: EventText<'a>,
    /// `tainted`, `cannot_update`, …
    pub reason: Option<EventText<'a>>,
}

/// Numbers of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct ChangeSummary {
    /// Created.
    #[serde(default)]
    pub add: u64,
    /// Updated in place.
    #[serde(default)]
    pub change: u64,
    /// Imported into the state.
    #[serde(default)]
    pub import: u64,
    /// Deleted.
    #[serde(default)]
    pub remove: u64,
}

impl ChangeSummary {
    /// Number of operations of the apply; a replacement counts as two.
    pub const fn operations(&self) -> u64 {
        self.add + self.change + self.remove
    }
}

/// Contents of a line.
#[derive(Debug)]
pub enum EventKind<'a> {
    /// The first line: versions of the engine and of the stream.
    Version {
        /// The engine's version.
        engine: EventText<'a>,
        /// The stream's version.
        ui: EventText<'a>,
    },
    /// An error or a warning.
    Diagnostic(Diagnostic),
    /// A planned change.
    PlannedChange(PlannedChange<'a>),
    /// The resource differs from the state.
    ResourceDrift(PlannedChange<'a>),
    /// Change counts, at the end of a plan or an apply.
    ChangeSummary {
        /// `plan`, `apply` or `destroy`.
        operation: EventText<'a>,
        /// The counts.
        counts: ChangeSummary,
    },
    /// Output names and whether each is sensitive. Values are read from the state.
    Outputs(BTreeMap<EventText<'a>, bool>),
    /// An operation starts.
    ApplyStart(ResourceHook<'a>),
    /// An operation is still running: terraform's heartbeat, every ten seconds.
    ApplyProgress(ResourceHook<'a>),
    /// An operation completed.
    ApplyComplete(ResourceHook<'a>),
    /// An operation failed.
    ApplyErrored(ResourceHook<'a>),
    /// A provisioner starts on a created resource.
    ProvisionStart(ResourceHook<'a>),
    /// A refresh starts.
    RefreshStart(ResourceHook<'a>),
    /// A refresh completed.
    RefreshComplete(ResourceHook<'a>),
    /// The state, secrets included, that terraform could not write to any file.
    EmergencyState(RawJson<'a>),
    /// A log message.
    Log,
    /// An unknown event type.
    Unknown {
        /// Its name.
        name: EventText<'a>,
        /// The whole line.
        raw: RawJson<'a>,
    },
    /// The beginning of an event, cut off by a full disk or a kill. It may be an emergency state, so it is never shown.
    Incomplete,
    /// Plain text, not JSON.
    Text,
}

/// One line.
#[derive(Debug)]
pub struct Event<'a> {
    /// Contents.
    pub kind: EventKind<'a>,
    /// Message for display; the line itself if it is plain text.
    pub message: EventText<'a>,
    /// `info`, `warn`, `error`; empty for plain text.
    pub level: EventText<'a>,
    /// Time, as terraform wrote it.
    pub timestamp: EventText<'a>,
}

#[derive(Deserialize)]
struct WireEvent<'a> {
    #[serde(rename = "@level", default, borrow)]
    level: EventText<'a>,
    #[serde(rename = "@message", default, borrow)]
    message: EventText<'a>,
    #[serde(rename = "@timestamp", default, borrow)]
    timestamp: EventText<'a>,
    #[serde(rename = "type", default, borrow)]
    name: EventText<'a>,
    #[serde(default, borrow)]
    terraform: Option<EventText<'a>>,
    #[serde(default, borrow)]
    tofu: Option<EventText<'a>>,
    #[serde(default, borrow)]
    ui: EventText<'a>,
    #[serde(default)]
    diagnostic: Option<Diagnostic>,
    #[serde(default, borrow)]
    change: Option<WireChange<'a>>,
    #[serde(default, borrow)]
    hook: Option<WireHook<'a>>,
    #[serde(default, borrow)]
    changes: Option<WireCounts<'a>>,
    #[serde(default, borrow)]
    outputs: Option<BTreeMap<EventText<'a>, WireOutput>>,
    #[serde(default, borrow)]
    state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireChange<'a> {
    #[serde(default, borrow)]
    resource: WireResource<'a>,
    #[serde(default, borrow)]
    action: EventText<'a>,
    #[serde(default, borrow)]
    reason: Option<EventText<'a>>,
}

#[derive(Deserialize)]
struct WireHook<'a> {
    #[serde(default, borrow)]
    resource: WireResource<'a>,
    #[serde(default, borrow)]
    action: EventText<'a>,
    #[serde(default, borrow)]
    id_key: Option<EventText<'a>>,
    #[serde(default, borrow)]
    id_value: Option<EventText<'a>>,
    #[serde(default)]
    elapsed_seconds: f64,
}

#[derive(Deserialize)]
struct WireCounts<'a> {
    #[serde(flatten)]
    counts: ChangeSummary,
    #[serde(default, borrow)]
    operation: EventText<'a>,
}

#[derive(Deserialize)]
struct WireOutput {
    #[serde(default)]
    sensitive: bool,
    #[serde(default, rename = "value")]
    _value: Option<IgnoredAny>,
}

// === impl Event ===

impl<'a> Event<'a> {
    /// Parses a line. Never fails: a line that is not an event is plain text.
    pub fn parse(line: &'a [u8]) -> Self {
        if line.first() == Some(&b'{')
            && let Ok(wire) = serde_json::from_slice::<WireEvent<'a>>(line)
        {
            return Self::from_wire(wire, line);
        }
        if line.starts_with(EVENT_START) {
            let message = EventText(Cow::Borrowed("(incomplete line of terraform's event stream)"));
            let (level, timestamp) = (EventText::default(), EventText::default());
            return Self { kind: EventKind::Incomplete, message, level, timestamp };
        }
        Self {
            kind: EventKind::Text,
            message: EventText(String::from_utf8_lossy(line)),
            level: EventText::default(),
            timestamp: EventText::default(),
        }
    }

    fn from_wire(wire: WireEvent<'a>, line: &'a [u8]) -> Self {
        let WireEvent {
            level,
            message,
            timestamp,
            name,
            terraform,
            tofu,
            ui,
            diagnostic,
            change,
            hook,
            changes,
            outputs,
            state,
        } = wire;
        let kind = match (name.as_str(), diagnostic, change, hook, changes) {
            ("version", ..) => EventKind::Version { engine: terraform.or(tofu).unwrap_or_default(), ui },
            (_, Some(diagnostic), ..) => EventKind::Diagnostic(diagnostic),
            ("planned_change", _, Some(change), ..) => EventKind::PlannedChange(change.into()),
            ("resource_drift", _, Some(change), ..) => EventKind::ResourceDrift(change.into()),
            ("apply_start", _, _, Some(hook), _) => EventKind::ApplyStart(hook.into()),
            ("apply_progress", _, _, Some(hook), _) => EventKind::ApplyProgress(hook.into()),
            ("apply_complete", _, _, Some(hook), _) => EventKind::ApplyComplete(hook.into()),
            ("apply_errored", _, _, Some(hook), _) => EventKind::ApplyErrored(hook.into()),
            ("provision_start", _, _, Some(hook), _) => EventKind::ProvisionStart(hook.into()),
            ("refresh_start", _, _, Some(hook), _) => EventKind::RefreshStart(hook.into()),
            ("refresh_complete", _, _, Some(hook), _) => EventKind::RefreshComplete(hook.into()),
            ("change_summary", _, _, _, Some(WireCounts { counts, operation })) => {
                EventKind::ChangeSummary { operation, counts }
            }
            ("outputs", ..) if outputs.is_some() => EventKind::Outputs(
                outputs.into_iter().flatten().map(|(name, output)| (name, output.sensitive)).collect(),
            ),
            ("log" | "", ..) => match state {
                Some(state) if message.as_str() == EMERGENCY_MESSAGE => {
                    EventKind::EmergencyState(RawJson(state))
                }
                _ => EventKind::Log,
            },
            _ => Self::unknown(name, line),
        };
        Self { kind, message, level, timestamp }
    }

    /// Keeps the raw JSON of an event of unknown type.
    fn unknown(name: EventText<'a>, line: &'a [u8]) -> EventKind<'a> {
        serde_json::from_slice(line)
            .map_or(EventKind::Log, |raw| EventKind::Unknown { name, raw: RawJson(raw) })
    }

    /// Whether this is the version event of an unsupported major version.
    pub fn is_unknown_stream(&self) -> bool {
        match &self.kind {
            EventKind::Version { ui, .. } => {
                ui.as_str().split('.').next().and_then(|major| major.parse().ok()) != Some(super::UI_MAJOR)
            }
            _ => false,
        }
    }
}

/// Beginning of every event of terraform and tofu, whose keys are sorted.
const EVENT_START: &[u8] = br#"{"@level""#;

/// Message with which terraform prints a state that it could not write.
const EMERGENCY_MESSAGE: &str = "Emergency state dump";

impl<'a> From<WireChange<'a>> for PlannedChange<'a> {
    fn from(WireChange { resource, action, reason }: WireChange<'a>) -> Self {
        Self { address: resource.addr, resource_type: resource.resource_type, action, reason }
    }
}

impl<'a> From<WireHook<'a>> for ResourceHook<'a> {
    fn from(WireHook { resource, action, id_key, id_value, elapsed_seconds }: WireHook<'a>) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds, clamped below")]
        let elapsed_seconds = elapsed_seconds.clamp(0.0, 1e9) as u64;
        Self {
            address: resource.addr,
            resource_type: resource.resource_type,
            action,
            id: id_key.zip(id_value),
            elapsed_seconds,
        }
    }
}
