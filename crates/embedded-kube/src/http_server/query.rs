//! Parses query parameters into [`Options`] as leniently as kube-apiserver: unknown ones are ignored, booleans are true
//! unless `0` or `false`, numbers must be valid.

use percent_encoding::percent_decode_str;

use crate::{
    request::RequestOptions,
    status_error::{ApiResult, StatusError, go_quote},
};

/// Decoded query pairs in order.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query.
    pub fn parse(query: Option<&str>) -> Self {
        let decode =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key), decode(value))
                })
                .collect(),
        )
    }

    /// First value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// First value of a key; empty if there is none.
    pub fn get_or_empty(&self, key: &str) -> String {
        self.get(key).unwrap_or_default().to_owned()
    }

    /// Every value of a key.
    pub fn all(&self, key: &str) -> Vec<String> {
        self.0.iter().filter(|(name, _)| name == key).map(|(_, value)| value.clone()).collect()
    }

    /// A boolean; any value but `0` and `false` is true.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    fn number(&self, key: &str) -> ApiResult<Option<i64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.parse().map(Some).map_err(|why: std::num::ParseIntError| {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let what = match why.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            StatusError::bad_request(format!("strconv.ParseInt: parsing {}: {what}", go_quote(value)))
        })
    }

    /// All parameters that handlers use.
    pub fn request_options(&self) -> ApiResult<RequestOptions> {
        let positive = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        Ok(RequestOptions {
            label_selector: self.get_or_empty("labelSelector"),
            field_selector: self.get_or_empty("fieldSelector"),
            resource_version: self.get_or_empty("resourceVersion"),
            resource_version_match: self.get_or_empty("resourceVersionMatch"),
            limit: positive(self.number("limit")?),
            continue_token: self.get_or_empty("continue"),
            timeout_seconds: positive(self.number("timeoutSeconds")?),
            bookmarks: self.flag("allowWatchBookmarks").unwrap_or_default(),
            send_initial_events: self.flag("sendInitialEvents"),
            dry_run: self.all("dryRun"),
            field_manager: self.get_or_empty("fieldManager"),
            field_validation: self.get_or_empty("fieldValidation"),
            force: self.flag("force"),
            propagation_policy: self.get_or_empty("propagationPolicy"),
            grace_period_seconds: self.number("gracePeriodSeconds")?,
            orphan_dependents: self.flag("orphanDependents"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse(Some(
            "labelSelector=a%3Db%2Cc+in+(d)&limit=5&dryRun=All&dryRun=x&allowWatchBookmarks=1&force=FALSE",
        ));
        let options = query.request_options().unwrap();
        assert_eq!(options.label_selector, "a=b,c in (d)");
        assert_eq!(options.limit, Some(5));
        assert_eq!(options.dry_run, ["All", "x"]);
        assert!(options.bookmarks);
        assert_eq!(options.force, Some(false));
        assert_eq!(options.send_initial_events, None);
    }

    #[test]
    fn a_limit_that_is_no_number_is_refused_in_go_words() {
        let failure = Query::parse(Some("limit=ten")).request_options().unwrap_err();
        assert_eq!(
            (failure.code(), failure.message()),
            (400, "strconv.ParseInt: parsing \"ten\": invalid syntax")
        );
        let failure =
            Query::parse(Some("timeoutSeconds=99999999999999999999")).request_options().unwrap_err();
        assert!(failure.message().ends_with("value out of range"));
    }
}
