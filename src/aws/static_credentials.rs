//! Static credentials from texts that people write: the members of a Secret, or a credentials file of the AWS tools.
//!
//! Contract: no error repeats a value.

use thiserror::Error;

use super::principal::Source;

/// Why a text gives no credentials.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeysError {
    /// The file has nothing for us.
    #[error(
        "the credentials file has no [default] section; add one with aws_access_key_id and aws_secret_access_key"
    )]
    NoSection,
    /// A line that is none of the language.
    #[error("line {line} of the credentials file {reason}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A member is given twice.
    #[error("line {line} of the credentials file sets {key} again; remove one of the two")]
    Twice {
        /// The line, from 1.
        line: usize,
        /// The member.
        key: &'static str,
    },
    /// A way to get credentials that a file in a Secret cannot go.
    #[error("line {line} of the credentials file sets {key}, which is not used here; {remedy}")]
    Unused {
        /// The line, from 1.
        line: usize,
        /// The member.
        key: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// A member is not there.
    #[error("{what} is missing or empty; both an access key id and a secret access key are needed")]
    Missing {
        /// Which.
        what: &'static str,
    },
    /// A value that is none.
    #[error("{what} contains a space or another character that no key has; copy it again")]
    Garbled {
        /// Which.
        what: &'static str,
    },
}

const ID: &str = "the access key id";
const SECRET: &str = "the secret access key";
const TOKEN: &str = "the session token";

/// Credentials from their members. Spaces and line breaks around them are left out: they are easily written into a
/// Secret, and part of no key.
pub fn keys(id: &str, secret: &str, token: Option<&str>) -> Result<Source, KeysError> {
    let token = token.map(str::trim).filter(|token| !token.is_empty());
    Ok(Source::Static {
        access_key_id: one(ID, id)?,
        secret_access_key: one(SECRET, secret)?,
        session_token: token.map(|token| one(TOKEN, token)).transpose()?,
    })
}

fn one(what: &'static str, text: &str) -> Result<String, KeysError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(KeysError::Missing { what });
    }
    if !text.chars().all(|c| c.is_ascii_graphic()) {
        return Err(KeysError::Garbled { what });
    }
    Ok(text.to_owned())
}

/// Members of a profile that would make the AWS tools act as somebody else than its keys.
const UNUSED: &[(&str, &str)] = &[
    ("credential_process", "no program is run for credentials: write the keys themselves"),
    ("role_arn", "list roles under assumeRoles"),
    ("source_profile", "write the keys of that profile into [default]"),
    ("web_identity_token_file", "use the source WebIdentity"),
    ("sso_session", "write keys, or use another source"),
    ("sso_start_url", "write keys, or use another source"),
];

/// The `[default]` section of a credentials file of the AWS tools.
pub fn parse_ini(text: &str) -> Result<Source, KeysError> {
    let mut section = Section::default();
    let (mut is_inside, mut was_inside) = (false, false);
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let at = index + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let reason = "opens a section and does not close it; write [default]";
            let (name, _) = rest.split_once(']').ok_or(KeysError::Line { line: at, reason })?;
            is_inside = name.trim() == "default";
            was_inside |= is_inside;
            continue;
        }
        let reason = "is neither a [section] nor `name = value`";
        let (name, value) = line.split_once('=').ok_or(KeysError::Line { line: at, reason })?;
        if is_inside {
            section.take(at, &name.trim().to_ascii_lowercase(), without_comment(value))?;
        }
    }
    if !was_inside {
        return Err(KeysError::NoSection);
    }
    keys(&section.id.unwrap_or_default(), &section.secret.unwrap_or_default(), section.token.as_deref())
}

/// A comment begins with a space; a key may hold the sign itself.
fn without_comment(value: &str) -> &str {
    let ends = [" #", " ;", "\t#", "\t;"].into_iter().filter_map(|mark| value.find(mark));
    ends.min().map_or(value, |end| &value[..end]).trim()
}

#[derive(Default)]
struct Section {
    id: Option<String>,
    secret: Option<String>,
    token: Option<String>,
}

impl Section {
    fn take(&mut self, line: usize, name: &str, value: &str) -> Result<(), KeysError> {
        let (key, place) = match name {
            "aws_access_key_id" => ("aws_access_key_id", &mut self.id),
            "aws_secret_access_key" => ("aws_secret_access_key", &mut self.secret),
            "aws_session_token" => ("aws_session_token", &mut self.token),
            other => {
                let unused = UNUSED.iter().find(|(key, _)| *key == other);
                return unused.map_or(Ok(()), |&(key, remedy)| Err(KeysError::Unused { line, key, remedy }));
            }
        };
        if place.replace(value.to_owned()).is_some() {
            return Err(KeysError::Twice { line, key });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str, secret: &str, token: Option<&str>) -> Source {
        Source::Static {
            access_key_id: id.to_owned(),
            secret_access_key: secret.to_owned(),
            session_token: token.map(str::to_owned),
        }
    }

    #[test]
    fn the_default_section_is_read_and_the_others_are_not() {
        let text = "\u{feff}# mine\r\n[other]\r\naws_access_key_id = OTHER\r\naws_access_key_id = OTHER\r\n\r\n\
            [ default ] ; here\r\n  AWS_ACCESS_KEY_ID=AKID\r\naws_secret_access_key = a/b+c==#d # old\r\n\
            region = eu-west-1\r\ns3 =\r\n  max_concurrent_requests = 20\r\n[x]\r\nrole_arn = r\r\n";
        assert_eq!(parse_ini(text), Ok(of("AKID", "a/b+c==#d", None)));
    }

    #[test]
    fn a_session_token_comes_along() {
        let text = "[default]\naws_access_key_id=A\naws_secret_access_key=S\naws_session_token=T\n";
        assert_eq!(parse_ini(text), Ok(of("A", "S", Some("T"))));
    }

    #[test]
    fn line_breaks_around_the_members_of_a_secret_are_left_out() {
        assert_eq!(keys("A\n", " S ", Some("\n")), Ok(of("A", "S", None)));
    }

    #[test]
    fn what_is_wrong_is_told_without_a_value() {
        let canary = "hunter2";
        for (text, wanted) in [
            (String::new(), "no [default] section"),
            (format!("[prod]\naws_secret_access_key = {canary}\n"), "no [default] section"),
            (format!("[default]\naws_secret_access_key = {canary}\n"), "the access key id is missing"),
            (format!("[default]\naws_access_key_id = {canary}\n"), "the secret access key is missing"),
            (format!("[default]\n{canary}\n"), "line 2 of the credentials file is neither"),
            (format!("[default\n{canary} = 1\n"), "line 1 of the credentials file opens a section"),
            (
                format!("[default]\naws_access_key_id = {canary}\naws_access_key_id = {canary}\n"),
                "line 3 of the credentials file sets aws_access_key_id again",
            ),
            (
                format!("[default]\ncredential_process = {canary}\n"),
                "sets credential_process, which is not used",
            ),
            (
                format!("[default]\naws_access_key_id = {canary} {canary}\naws_secret_access_key = x"),
                "the access key id contains a space",
            ),
        ] {
            let said = parse_ini(&text).unwrap_err().to_string();
            assert!(said.contains(wanted) && !said.contains(canary), "{said}");
        }
    }

    #[test]
    fn a_key_that_no_environment_could_hold_is_refused() {
        assert_eq!(keys("A\0B", "S", None), Err(KeysError::Garbled { what: ID }));
        assert_eq!(keys("A", "S", Some("T\u{e4}")), Err(KeysError::Garbled { what: TOKEN }));
    }
}
