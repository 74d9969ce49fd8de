//! Questions and answers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    counters::Counts,
    gateway::{GatewayError, Registration},
    package::Package,
    probe::{Ask, Probed},
    serve::Seen,
};

/// A question or an answer as a line. Attributes out of a state file keep the line breaks between their values; a line
/// break inside of a text is escaped in JSON, so every one that is left means nothing.
pub(super) fn line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(value)?;
    text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    text.push(b'\n');
    Ok(text)
}

/// What can be asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Question {
    /// A socket for a run.
    Register(Box<Registration>),
    /// What a run has done so far.
    Seen {
        /// The run.
        run: String,
    },
    /// The end of a run.
    Release {
        /// The run.
        run: String,
    },
    /// Whether objects are as they were.
    Probe {
        /// Whose provider.
        of: Box<Registration>,
        /// What to ask.
        ask: Ask,
    },
    /// What a package is.
    Package {
        /// Its directory.
        dir: PathBuf,
    },
    /// How it is.
    Report,
    /// To end, as soon as nobody uses it.
    End,
}

/// A provider process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Its number.
    pub pid: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Calls under way.
    pub calls: usize,
    /// Seconds since its start.
    pub age: u64,
    /// The first letters of the key of its program, environment and tenant.
    pub herd: String,
}

/// How the gateway is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Its own process.
    pub pid: u32,
    /// Runs that are registered.
    pub runs: usize,
    /// Providers.
    pub providers: Vec<Live>,
    /// Numbers.
    pub counts: Counts,
}

/// What can be answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The run has its socket.
    Registered {
        /// The run's name.
        run: String,
        /// The value of `TF_REATTACH_PROVIDERS`.
        reattach: serde_json::Value,
    },
    /// What a run has done.
    Seen(Seen),
    /// What a probe found; `None` if the configuration is not known.
    Probed {
        /// By address.
        probed: Option<Probed>,
    },
    /// A package.
    Package(Package),
    /// How it is.
    Report(Report),
    /// It will, and takes no more runs when it does.
    Ending,
    /// No. `refused` means that the run must not go on without the gateway either.
    No {
        /// In words.
        words: String,
        /// Whether the provider is not the one that was locked.
        refused: bool,
    },
}

impl From<&GatewayError> for Answer {
    fn from(error: &GatewayError) -> Self {
        if matches!(error, GatewayError::Ending) {
            return Self::Ending;
        }
        let mut words = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            words = format!("{words}: {inner}");
            cause = inner.source();
        }
        Self::No { words, refused: matches!(error, GatewayError::Package(_)) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::probe::Object;

    #[test]
    fn a_question_is_one_line_whatever_is_in_it() {
        let attributes = RawValue::from_string("{\n  \"a\": \"b\\nc\"\r\n}".to_owned()).unwrap();
        let object = Object {
            address: "a".to_owned(),
            kind: "t".to_owned(),
            version: 0,
            attributes,
            private: String::new(),
        };
        let text = line(&object).unwrap();
        assert_eq!(text.split(|byte| *byte == b'\n').count(), 2, "it ends with the only one");
        let back: Object = serde_json::from_slice(&text).unwrap();
        let value: serde_json::Value = serde_json::from_str(back.attributes.get()).unwrap();
        assert_eq!(value["a"], "b\nc");
    }
}
