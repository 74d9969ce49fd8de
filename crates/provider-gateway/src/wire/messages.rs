//! The few messages that the gateway inspects. Field numbers are those of tfplugin5 and tfplugin6, which agree here.

use super::{
    msgpack,
    protobuf::{self, MalformedMessage, Value, fields, put_bytes, put_number},
};

const ERROR: u64 = 1;
const WARNING: u64 = 2;

/// Summary of the diagnostics of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiagnosticSummary {
    /// There is at least one diagnostic.
    pub any: bool,
    /// At least one diagnostic is an error.
    pub error: bool,
}

/// Summarises the diagnostics in field `number` of a response.
pub fn read_diagnostics(answer: &[u8], number: u64) -> Result<DiagnosticSummary, MalformedMessage> {
    let mut verdict = DiagnosticSummary { any: false, error: false };
    for field in fields(answer) {
        let field = field?;
        if let Value::Bytes(diagnostic) = field.value
            && field.number == number
        {
            verdict.any = true;
            verdict.error |= severity(diagnostic)? == ERROR;
        }
    }
    Ok(verdict)
}

fn severity(diagnostic: &[u8]) -> Result<u64, MalformedMessage> {
    let mut severity = 0;
    for field in fields(diagnostic) {
        let field = field?;
        if let (1, Value::Varint(value)) = (field.number, field.value) {
            severity = value;
        }
    }
    Ok(severity)
}

/// Appends a warning to a response: repeated fields can be extended by appending.
pub fn with_warning(answer: &[u8], number: u64, summary: &str, detail: &str) -> Vec<u8> {
    let mut diagnostic = Vec::new();
    put_number(&mut diagnostic, 1, WARNING);
    put_bytes(&mut diagnostic, 2, summary.as_bytes());
    put_bytes(&mut diagnostic, 3, detail.as_bytes());
    let mut all = answer.to_vec();
    put_bytes(&mut all, number, &diagnostic);
    all
}

/// The type that a call is about; always field 1.
pub fn type_name(request: &[u8]) -> Option<&str> {
    protobuf::string_field(request, 1).ok().flatten()
}

/// `UpgradeResourceState.Request` for attributes from a state file.
pub fn upgrade_request(kind: &str, version: u64, attributes: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(attributes.len() + 8);
    put_bytes(&mut raw, 1, attributes);
    let mut request = Vec::with_capacity(raw.len() + 64);
    put_bytes(&mut request, 1, kind.as_bytes());
    put_number(&mut request, 2, version);
    put_bytes(&mut request, 3, &raw);
    request
}

/// `ReadResource.Request` for an upgraded value.
pub fn read_request(kind: &str, state: &[u8], private: &[u8]) -> Vec<u8> {
    let mut request = Vec::with_capacity(state.len() + private.len() + 64);
    put_bytes(&mut request, 1, kind.as_bytes());
    put_bytes(&mut request, 2, state);
    put_bytes(&mut request, 3, private);
    request
}

/// Normalises a `Configure.Request`: removes the capability that allows deferred responses. Terraform clears it when
/// planning and sets it when applying, so plan and apply would otherwise use two processes. With a fully known
/// configuration there is nothing to defer. Any other request is kept as it is.
pub fn normalize_configure(configure: &[u8]) -> Vec<u8> {
    let known = protobuf::bytes_field(configure, 2)
        .ok()
        .flatten()
        .and_then(|it| protobuf::bytes_field(it, 1).ok().flatten());
    if !known.is_some_and(msgpack::is_known) {
        return configure.to_vec();
    }
    let mut kept = Vec::with_capacity(configure.len());
    for field in fields(configure).flatten() {
        match (field.number, field.value) {
            (3, Value::Bytes(capabilities)) => {
                let others = fields(capabilities).flatten().filter(|it| it.number != 1);
                let others: Vec<u8> = others.flat_map(|it| it.raw).copied().collect();
                if !others.is_empty() {
                    put_bytes(&mut kept, 3, &others);
                }
            }
            _ => kept.extend_from_slice(field.raw),
        }
    }
    kept
}

/// Whether a `DynamicValue` is null, in msgpack or JSON: the object does not exist.
pub fn is_null(value: &[u8]) -> bool {
    let msgpack = protobuf::bytes_field(value, 1).ok().flatten();
    let json = protobuf::bytes_field(value, 2).ok().flatten();
    matches!((msgpack, json), (Some([0xc0]), _) | (_, Some(b"null")) | (None, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(severity: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_number(&mut bytes, 1, severity);
        bytes
    }

    #[test]
    fn errors_and_warnings_are_told_apart() {
        let mut answer = Vec::new();
        assert_eq!(read_diagnostics(&answer, 2), Ok(DiagnosticSummary { any: false, error: false }));
        put_bytes(&mut answer, 2, &diagnostic(WARNING));
        assert_eq!(read_diagnostics(&answer, 2), Ok(DiagnosticSummary { any: true, error: false }));
        put_bytes(&mut answer, 2, &diagnostic(ERROR));
        assert_eq!(read_diagnostics(&answer, 2), Ok(DiagnosticSummary { any: true, error: true }));
        assert_eq!(read_diagnostics(&answer, 3), Ok(DiagnosticSummary { any: false, error: false }));
    }

    #[test]
    fn a_warning_is_appended_and_nothing_else_changes() {
        let answer = with_warning(b"\x0a\x01x", 3, "s", "d");
        assert!(answer.starts_with(b"\x0a\x01x"));
        assert_eq!(read_diagnostics(&answer, 3), Ok(DiagnosticSummary { any: true, error: false }));
    }

    fn configure(value: &[u8], capabilities: Option<&[u8]>) -> Vec<u8> {
        let (mut config, mut request) = (Vec::new(), Vec::new());
        put_bytes(&mut config, 1, value);
        put_bytes(&mut request, 1, b"1.11.4");
        put_bytes(&mut request, 2, &config);
        if let Some(capabilities) = capabilities {
            put_bytes(&mut request, 3, capabilities);
        }
        request
    }

    #[test]
    fn planning_and_applying_have_one_configuration() {
        let known = b"\x81\xa1a\xa1b";
        let plan = configure(known, Some(b"\x10\x01"));
        let apply = configure(known, Some(b"\x08\x01\x10\x01"));
        assert_eq!(normalize_configure(&plan), plan);
        assert_eq!(normalize_configure(&apply), plan);
        assert_eq!(normalize_configure(&configure(known, Some(b""))), configure(known, None));
    }

    #[test]
    fn a_configuration_with_something_unknown_is_equal_to_itself_only() {
        let unknown = b"\x81\xa1a\xd4\x00\x00";
        for request in [configure(unknown, Some(b"\x08\x01")), configure(unknown, None), b"\xff".to_vec()] {
            assert_eq!(normalize_configure(&request), request);
        }
    }

    #[test]
    fn null_is_recognised_in_both_encodings() {
        let value = |number, bytes: &[u8]| {
            let mut value = Vec::new();
            put_bytes(&mut value, number, bytes);
            value
        };
        assert!(is_null(&value(1, &[0xc0])));
        assert!(is_null(&value(2, b"null")));
        assert!(is_null(b""));
        assert!(!is_null(&value(1, &[0x80])));
    }
}
