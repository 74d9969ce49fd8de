//! Parses static credentials: the keys of a Secret, or an AWS shared credentials file.
//!
//! Errors never contain a value.

use thiserror::Error;

use super::principal::PrincipalSource;

/// Why a text contains no usable credentials.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StaticCredentialsError {
    /// The file has no `[default]` section.
    #[error(
        "the credentials file has no [default] section; add one with aws_access_key_id and aws_secret_access_key"
    )]
    MissingDefaultSection,
    /// A line cannot be parsed.
    #[error("line {line} of the credentials file {reason}")]
    InvalidLine {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A setting occurs twice.
    #[error("line {line} of the credentials file sets {key} again; remove one of the two")]
    DuplicateSetting {
        /// The line, from 1.
        line: usize,
        /// The setting.
        key: &'static str,
    },
    /// A credential source that is not supported in a Secret.
    #[error("line {line} of the credentials file sets {key}, which is not supported here; {remedy}")]
    UnsupportedSetting {
        /// The line, from 1.
        line: usize,
        /// The setting.
        key: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// A key is missing.
    #[error("{what} is missing or empty; both an access key id and a secret access key are needed")]
    MissingKey {
        /// The key.
        what: &'static str,
    },
    /// A key has invalid characters.
    #[error("{what} contains a space or an invalid character; copy it again")]
    InvalidKey {
        /// The key.
        what: &'static str,
    },
}

const ACCESS_KEY_ID: &str = "the access key id";
const SECRET_ACCESS_KEY: &str = "the secret access key";
const SESSION_TOKEN: &str = "the session token";

/// Static credentials from their parts. Surrounding whitespace, which easily gets into a Secret, is trimmed.
pub fn parse_keys(
    id: &str,
    secret: &str,
    token: Option<&str>,
) -> Result<PrincipalSource, StaticCredentialsError> {
    let token = token.map(str::trim).filter(|token| !token.is_empty());
    Ok(PrincipalSource::Static {
        access_key_id: parse_key(ACCESS_KEY_ID, id)?,
        secret_access_key: parse_key(SECRET_ACCESS_KEY, secret)?,
        session_token: token.map(|token| parse_key(SESSION_TOKEN, token)).transpose()?,
    })
}

fn parse_key(what: &'static str, text: &str) -> Result<String, StaticCredentialsError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(StaticCredentialsError::MissingKey { what });
    }
    if !text.chars().all(|c| c.is_ascii_graphic()) {
        return Err(StaticCredentialsError::InvalidKey { what });
    }
    Ok(text.to_owned())
}

/// Profile settings with which the AWS tools would use another identity than the keys, each with the remedy.
const UNSUPPORTED_SETTINGS: &[(&str, &str)] = &[
    ("credential_process", "credential processes are not run; write the keys themselves"),
    ("role_arn", "list roles under assumeRoles"),
    ("source_profile", "write the keys of that profile into [default]"),
    ("web_identity_token_file", "use the source WebIdentity"),
    ("sso_session", "write keys, or use another source"),
    ("sso_start_url", "write keys, or use another source"),
];

/// Parses the `[default]` section of an AWS shared credentials file.
pub fn parse_credentials_file(text: &str) -> Result<PrincipalSource, StaticCredentialsError> {
    let mut section = DefaultSection::default();
    let (mut is_inside, mut was_inside) = (false, false);
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let at = index + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let reason = "opens a section and does not close it; write [default]";
            let (name, _) =
                rest.split_once(']').ok_or(StaticCredentialsError::InvalidLine { line: at, reason })?;
            is_inside = name.trim() == "default";
            was_inside |= is_inside;
            continue;
        }
        let reason = "is neither a [section] nor `name = value`";
        let (name, value) =
            line.split_once('=').ok_or(StaticCredentialsError::InvalidLine { line: at, reason })?;
        if is_inside {
            section.set(at, &name.trim().to_ascii_lowercase(), strip_comment(value))?;
        }
    }
    if !was_inside {
        return Err(StaticCredentialsError::MissingDefaultSection);
    }
    parse_keys(&section.id.unwrap_or_default(), &section.secret.unwrap_or_default(), section.token.as_deref())
}

/// Strips a trailing comment. It starts with whitespace: a key may contain `#` or `;`.
fn strip_comment(value: &str) -> &str {
    let ends = [" #", " ;", "\t#", "\t;"].into_iter().filter_map(|mark| value.find(mark));
    ends.min().map_or(value, |end| &value[..end]).trim()
}

#[derive(Default)]
struct DefaultSection {
    id: Option<String>,
    secret: Option<String>,
    token: Option<String>,
}

impl DefaultSection {
    fn set(&mut self, line: usize, name: &str, value: &str) -> Result<(), StaticCredentialsError> {
        let (key, place) = match name {
            "aws_access_key_id" => ("aws_access_key_id", &mut self.id),
            "aws_secret_access_key" => ("aws_secret_access_key", &mut self.secret),
            "aws_session_token" => ("aws_session_token", &mut self.token),
            other => {
                let unused = UNSUPPORTED_SETTINGS.iter().find(|(key, _)| *key == other);
                return unused.map_or(Ok(()), |&(key, remedy)| {
                    Err(StaticCredentialsError::UnsupportedSetting { line, key, remedy })
                });
            }
        };
        if place.replace(value.to_owned()).is_some() {
            return Err(StaticCredentialsError::DuplicateSetting { line, key });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str, secret: &str, token: Option<&str>) -> PrincipalSource {
        PrincipalSource::Static {
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
        assert_eq!(parse_credentials_file(text), Ok(of("AKID", "a/b+c==#d", None)));
    }

    #[test]
    fn a_session_token_comes_along() {
        let text = "[default]\naws_access_key_id=A\naws_secret_access_key=S\naws_session_token=T\n";
        assert_eq!(parse_credentials_file(text), Ok(of("A", "S", Some("T"))));
    }

    #[test]
    fn line_breaks_around_the_members_of_a_secret_are_left_out() {
        assert_eq!(parse_keys("A\n", " S ", Some("\n")), Ok(of("A", "S", None)));
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
                "sets credential_process, which is not supported",
            ),
            (
                format!("[default]\naws_access_key_id = {canary} {canary}\naws_secret_access_key = x"),
                "the access key id contains a space",
            ),
        ] {
            let said = parse_credentials_file(&text).unwrap_err().to_string();
            assert!(said.contains(wanted) && !said.contains(canary), "{said}");
        }
    }

    #[test]
    fn a_key_that_no_environment_could_hold_is_refused() {
        assert_eq!(
            parse_keys("A\0B", "S", None),
            Err(StaticCredentialsError::InvalidKey { what: ACCESS_KEY_ID })
        );
        assert_eq!(
            parse_keys("A", "S", Some("T\u{e4}")),
            Err(StaticCredentialsError::InvalidKey { what: SESSION_TOKEN })
        );
    }
}
