//! One line of the stream as a value.

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
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(Borrow)
    }
}

/// JSON that is kept as it came. It may hold secrets (a state dump does), so `Debug` does not print it.
#[derive(Clone, Copy)]
pub struct Raw<'a>(pub &'a RawValue);

impl fmt::Debug for Raw<'_> {
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
    /// The resource it is about.
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
struct Resource<'a> {
    #[serde(default, borrow)]
    addr: Text<'a>,
    #[serde(default, borrow)]
    resource_type: Text<'a>,
}

/// Something that happens to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook<'a> {
    /// The object.
    pub address: Text<'a>,
    /// Its type.
    pub resource_type: Text<'a>,
    /// `create`, `update`, `delete`, `read`, …
    pub action: Text<'a>,
    /// The name and value of what identifies it, when it is done: a journal of what exists.
    pub id: Option<(Text<'a>, Text<'a>)>,
    /// Since its start.
    pub elapsed_seconds: u64,
}

/// Something that a plan wants, or that was found changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedChange<'a> {
    /// The object.
    pub address: Text<'a>,
    /// Its type.
    pub resource_type: Text<'a>,
    /// `create`, `update`, `replace`, `delete`, `read`, `noop`, `move`, `import`, `remove`.
    pub action: Text<'a>,
    /// `tainted`, `cannot_update`, …
    pub reason: Option<Text<'a>>,
}

/// How many of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct ChangeSummary {
    /// Created.
    #[serde(default)]
    pub add: u64,
    /// Updated in place.
    #[serde(default)]
    pub change: u64,
    /// Taken into the state.
    #[serde(default)]
    pub import: u64,
    /// Deleted.
    #[serde(default)]
    pub remove: u64,
}

impl ChangeSummary {
    /// The operations that an apply of it carries out; a replacement is two.
    pub const fn operations(&self) -> u64 {
        self.add + self.change + self.remove
    }
}

/// What a line says.
#[derive(Debug)]
pub enum Kind<'a> {
    /// The first line: engine and version of the stream.
    Version {
        /// The engine's version.
        engine: Text<'a>,
        /// The stream's version.
        ui: Text<'a>,
    },
    /// An error or a warning.
    Diagnostic(Diagnostic),
    /// The plan wants this.
    PlannedChange(PlannedChange<'a>),
    /// The cloud differs from the state.
    ResourceDrift(PlannedChange<'a>),
    /// Counts, at the end of a plan or an apply.
    ChangeSummary {
        /// `plan`, `apply` or `destroy`.
        operation: Text<'a>,
        /// The counts.
        counts: ChangeSummary,
    },
    /// The outputs by name, and whether each is sensitive. Their values are read from the state.
    Outputs(BTreeMap<Text<'a>, bool>),
    /// Work on an object begins.
    ApplyStart(Hook<'a>),
    /// Work on an object goes on: terraform's own timer, every ten seconds.
    ApplyProgress(Hook<'a>),
    /// Work on an object is done.
    ApplyComplete(Hook<'a>),
    /// Work on an object failed.
    ApplyErrored(Hook<'a>),
    /// A provisioner begins to work on an object that is made.
    ProvisionStart(Hook<'a>),
    /// An object is being read.
    RefreshStart(Hook<'a>),
    /// An object was read.
    RefreshComplete(Hook<'a>),
    /// The state could not be written anywhere; this is all that is left of it, secrets included.
    EmergencyState(Raw<'a>),
    /// A message for people.
    Log,
    /// A type that this driver does not know; the message is kept.
    Unknown {
        /// Its name.
        name: Text<'a>,
        /// The whole line.
        raw: Raw<'a>,
    },
    /// Not JSON: plain text among the events.
    Text,
}

/// One line.
#[derive(Debug)]
pub struct Event<'a> {
    /// What it says.
    pub kind: Kind<'a>,
    /// The same for people; the line itself if it is plain text.
    pub message: Text<'a>,
    /// `info`, `warn`, `error`; empty for plain text.
    pub level: Text<'a>,
    /// When, as terraform wrote it.
    pub timestamp: Text<'a>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(rename = "@level", default, borrow)]
    level: Text<'a>,
    #[serde(rename = "@message", default, borrow)]
    message: Text<'a>,
    #[serde(rename = "@timestamp", default, borrow)]
    timestamp: Text<'a>,
    #[serde(rename = "type", default, borrow)]
    name: Text<'a>,
    #[serde(default, borrow)]
    terraform: Option<Text<'a>>,
    #[serde(default, borrow)]
    tofu: Option<Text<'a>>,
    #[serde(default, borrow)]
    ui: Text<'a>,
    #[serde(default)]
    diagnostic: Option<Diagnostic>,
    #[serde(default, borrow)]
    change: Option<WireChange<'a>>,
    #[serde(default, borrow)]
    hook: Option<WireHook<'a>>,
    #[serde(default, borrow)]
    changes: Option<WireCounts<'a>>,
    #[serde(default, borrow)]
    outputs: Option<BTreeMap<Text<'a>, WireOutput>>,
    #[serde(default, borrow)]
    state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireChange<'a> {
    #[serde(default, borrow)]
    resource: Resource<'a>,
    #[serde(default, borrow)]
    action: Text<'a>,
    #[serde(default, borrow)]
    reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct WireHook<'a> {
    #[serde(default, borrow)]
    resource: Resource<'a>,
    #[serde(default, borrow)]
    action: Text<'a>,
    #[serde(default, borrow)]
    id_key: Option<Text<'a>>,
    #[serde(default, borrow)]
    id_value: Option<Text<'a>>,
    #[serde(default)]
    elapsed_seconds: f64,
}

#[derive(Deserialize)]
struct WireCounts<'a> {
    #[serde(flatten)]
    counts: ChangeSummary,
    #[serde(default, borrow)]
    operation: Text<'a>,
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
    /// Reads a line. There is no failure: what is not an event is text.
    pub fn parse(line: &'a [u8]) -> Self {
        if line.first() == Some(&b'{')
            && let Ok(wire) = serde_json::from_slice::<Wire<'a>>(line)
        {
            return Self::from_wire(wire, line);
        }
        Self {
            kind: Kind::Text,
            message: Text(String::from_utf8_lossy(line)),
            level: Text::default(),
            timestamp: Text::default(),
        }
    }

    fn from_wire(wire: Wire<'a>, line: &'a [u8]) -> Self {
        let Wire {
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
            ("version", ..) => Kind::Version { engine: terraform.or(tofu).unwrap_or_default(), ui },
            (_, Some(diagnostic), ..) => Kind::Diagnostic(diagnostic),
            ("planned_change", _, Some(change), ..) => Kind::PlannedChange(change.into()),
            ("resource_drift", _, Some(change), ..) => Kind::ResourceDrift(change.into()),
            ("apply_start", _, _, Some(hook), _) => Kind::ApplyStart(hook.into()),
            ("apply_progress", _, _, Some(hook), _) => Kind::ApplyProgress(hook.into()),
            ("apply_complete", _, _, Some(hook), _) => Kind::ApplyComplete(hook.into()),
            ("apply_errored", _, _, Some(hook), _) => Kind::ApplyErrored(hook.into()),
            ("provision_start", _, _, Some(hook), _) => Kind::ProvisionStart(hook.into()),
            ("refresh_start", _, _, Some(hook), _) => Kind::RefreshStart(hook.into()),
            ("refresh_complete", _, _, Some(hook), _) => Kind::RefreshComplete(hook.into()),
            ("change_summary", _, _, _, Some(WireCounts { counts, operation })) => {
                Kind::ChangeSummary { operation, counts }
            }
            ("outputs", ..) if outputs.is_some() => Kind::Outputs(
                outputs.into_iter().flatten().map(|(name, output)| (name, output.sensitive)).collect(),
            ),
            ("log" | "", ..) => match state {
                Some(state) if message.as_str() == EMERGENCY => Kind::EmergencyState(Raw(state)),
                _ => Kind::Log,
            },
            _ => Self::unknown(name, line),
        };
        Self { kind, message, level, timestamp }
    }

    /// The line parsed once already, so it does again; a line that does not is only a message.
    fn unknown(name: Text<'a>, line: &'a [u8]) -> Kind<'a> {
        serde_json::from_slice(line).map_or(Kind::Log, |raw| Kind::Unknown { name, raw: Raw(raw) })
    }

    /// Whether the driver knows this stream: an unknown major version may mean anything.
    pub fn is_unknown_stream(&self) -> bool {
        match &self.kind {
            Kind::Version { ui, .. } => {
                ui.as_str().split('.').next().and_then(|major| major.parse().ok()) != Some(super::UI_MAJOR)
            }
            _ => false,
        }
    }
}

/// The message under which terraform prints a state that it could not write.
const EMERGENCY: &str = "Emergency state dump";

impl<'a> From<WireChange<'a>> for PlannedChange<'a> {
    fn from(WireChange { resource, action, reason }: WireChange<'a>) -> Self {
        Self { address: resource.addr, resource_type: resource.resource_type, action, reason }
    }
}

impl<'a> From<WireHook<'a>> for Hook<'a> {
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
